//! Specifications of a flow rule, in the API's form and the kernel's.
//!
//! Both forms are a header (type, size in bytes), a filter's value and its mask. The API's
//! filter starts where its own alignment lets it, the kernel's behind 8 bytes; some of the
//! API's filters may be longer than those known here, as long as their masks ask for nothing
//! behind the known part.

use crate::abi::handle::FlowSpec;
use crate::abi::kernel::*;
use crate::abi::*;
use crate::errno::{Errno, Result};
use core::mem::{offset_of, size_of};

/// How a filter is laid out.
struct Shape {
    /// Where the value starts in the API's structure.
    from: usize,
    /// Bytes of value and of mask that go to the kernel.
    len: usize,
    /// Bytes of the kernel's structure.
    kernel: usize,
    /// The API's filter may be longer: its size follows from the structure's.
    grows: bool,
}

impl Shape {
    const fn fixed(from: usize, len: usize, kernel: usize) -> Self {
        Self {
            from,
            len,
            kernel,
            grows: false,
        }
    }

    const fn growing(from: usize, len: usize, kernel: usize) -> Self {
        Self {
            from,
            len,
            kernel,
            grows: true,
        }
    }
}

const HEADER: usize = size_of::<ib_uverbs_flow_spec_hdr>();

const ETH: Shape = Shape::fixed(
    offset_of!(ibv_flow_spec_eth, val),
    size_of::<ibv_flow_eth_filter>(),
    size_of::<ib_uverbs_flow_spec_eth>(),
);
/// The kernel takes its shorter, first form by the size.
const IPV4: Shape = Shape::fixed(
    offset_of!(ibv_flow_spec_ipv4, val),
    size_of::<ibv_flow_ipv4_filter>(),
    HEADER + 2 * size_of::<ibv_flow_ipv4_filter>(),
);
const IPV4_EXT: Shape = Shape::growing(
    offset_of!(ibv_flow_spec_ipv4_ext, val),
    size_of::<ib_uverbs_flow_ipv4_filter>(),
    size_of::<ib_uverbs_flow_spec_ipv4>(),
);
/// Without the reserved byte at the end.
const IPV6: Shape = Shape::growing(
    offset_of!(ibv_flow_spec_ipv6, val),
    offset_of!(ib_uverbs_flow_ipv6_filter, reserved),
    size_of::<ib_uverbs_flow_spec_ipv6>(),
);
const ESP: Shape = Shape::fixed(
    offset_of!(ibv_flow_spec_esp, val),
    size_of::<ibv_flow_esp_filter>(),
    size_of::<ib_uverbs_flow_spec_esp>(),
);
const TCP_UDP: Shape = Shape::fixed(
    offset_of!(ibv_flow_spec_tcp_udp, val),
    size_of::<ibv_flow_tcp_udp_filter>(),
    size_of::<ib_uverbs_flow_spec_tcp_udp>(),
);
const GRE: Shape = Shape::fixed(
    offset_of!(ibv_flow_spec_gre, val),
    size_of::<ibv_flow_gre_filter>(),
    size_of::<ib_uverbs_flow_spec_gre>(),
);
const MPLS: Shape = Shape::fixed(
    offset_of!(ibv_flow_spec_mpls, val),
    size_of::<ibv_flow_mpls_filter>(),
    size_of::<ib_uverbs_flow_spec_mpls>(),
);
const TUNNEL: Shape = Shape::growing(
    offset_of!(ibv_flow_spec_tunnel, val),
    size_of::<ib_uverbs_flow_tunnel_filter>(),
    size_of::<ib_uverbs_flow_spec_tunnel>(),
);

/// Shape of a filter, by type.
fn shape(spec_type: ibv_flow_spec_type) -> Result<&'static Shape> {
    let inner = spec_type & IBV_FLOW_SPEC_INNER != 0;
    match spec_type & !IBV_FLOW_SPEC_INNER {
        IBV_FLOW_SPEC_ETH => Ok(&ETH),
        IBV_FLOW_SPEC_IPV4 => Ok(&IPV4),
        IBV_FLOW_SPEC_IPV4_EXT => Ok(&IPV4_EXT),
        IBV_FLOW_SPEC_IPV6 => Ok(&IPV6),
        IBV_FLOW_SPEC_ESP => Ok(&ESP),
        IBV_FLOW_SPEC_TCP | IBV_FLOW_SPEC_UDP => Ok(&TCP_UDP),
        IBV_FLOW_SPEC_MPLS => Ok(&MPLS),
        // A tunnel's own header is never inside a tunnel.
        IBV_FLOW_SPEC_GRE if !inner => Ok(&GRE),
        IBV_FLOW_SPEC_VXLAN_TUNNEL if !inner => Ok(&TUNNEL),
        _ => Err(Errno::INVAL),
    }
}

/// The kernel's type: it has one for both forms of IPv4.
fn kernel_type(spec_type: ibv_flow_spec_type) -> u32 {
    match spec_type & !IBV_FLOW_SPEC_INNER {
        IBV_FLOW_SPEC_IPV4_EXT => IBV_FLOW_SPEC_IPV4 | spec_type & IBV_FLOW_SPEC_INNER,
        _ => spec_type,
    }
}

/// Appends the kernel's form of a specification.
///
/// # Errors
/// EINVAL for a type that is unknown or a structure too short for it, EOPNOTSUPP for a mask that
/// the kernel's form cannot express, ENOMEM.
pub(super) fn encode(spec: FlowSpec<'_>, to: &mut Vec<u8>) -> Result<()> {
    match spec {
        FlowSpec::Object(spec_type, number) => encode_number(to, spec_type, number),
        FlowSpec::Plain(IBV_FLOW_SPEC_ACTION_DROP, _) => {
            header(to, IBV_FLOW_SPEC_ACTION_DROP, HEADER)
        }
        FlowSpec::Plain(IBV_FLOW_SPEC_ACTION_TAG, bytes) => {
            let at = offset_of!(ibv_flow_spec_action_tag, tag_id);
            let tag = bytes.get(at..).and_then(<[u8]>::first_chunk);
            let tag = u32::from_ne_bytes(*tag.ok_or(Errno::INVAL)?);
            encode_number(to, IBV_FLOW_SPEC_ACTION_TAG, tag)
        }
        FlowSpec::Plain(spec_type, bytes) => encode_filter(to, spec_type, bytes),
    }
}

fn header(to: &mut Vec<u8>, spec_type: u32, size: usize) -> Result<()> {
    to.try_reserve(size).map_err(|_| Errno::NOMEM)?;
    let header = ib_uverbs_flow_spec_hdr {
        type_: spec_type,
        size: u16::try_from(size).map_err(|_| Errno::INVAL)?,
        reserved: 0,
    };
    to.extend_from_slice(bytemuck::bytes_of(&header));
    Ok(())
}

/// A specification of one number, with 4 bytes of padding behind it.
fn encode_number(to: &mut Vec<u8>, spec_type: ibv_flow_spec_type, number: u32) -> Result<()> {
    const SIZE: usize = size_of::<ib_uverbs_flow_spec_action_handle>();
    header(to, spec_type, SIZE)?;
    to.extend_from_slice(&number.to_ne_bytes());
    to.extend_from_slice(&[0; 4]);
    Ok(())
}

const _: () = {
    assert!(offset_of!(ib_uverbs_flow_spec_action_handle, handle) == HEADER);
    assert!(offset_of!(ib_uverbs_flow_spec_action_count, handle) == HEADER);
    assert!(offset_of!(ib_uverbs_flow_spec_action_tag, tag_id) == HEADER);
    assert!(size_of::<ib_uverbs_flow_spec_action_count>() == HEADER + 8);
    assert!(size_of::<ib_uverbs_flow_spec_action_tag>() == HEADER + 8);
};

fn encode_filter(to: &mut Vec<u8>, spec_type: ibv_flow_spec_type, bytes: &[u8]) -> Result<()> {
    let shape = shape(spec_type)?;
    let (value, mask) = halves(spec_type, bytes)?;
    header(to, kernel_type(spec_type), shape.kernel)?;
    // Value and mask share the kernel's structure after its header.
    let half = (shape.kernel - HEADER) / 2;
    for part in [value, mask] {
        to.extend_from_slice(part);
        to.resize(to.len() + half - part.len(), 0);
    }
    Ok(())
}

/// Value and mask of a filter, both of the length that is known here.
///
/// # Errors
/// EINVAL for a type that is unknown or a structure too short for it, EOPNOTSUPP for a mask that
/// asks for more than is known here.
pub(crate) fn halves(spec_type: ibv_flow_spec_type, bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    filter(shape(spec_type)?, bytes)
}

fn filter<'a>(shape: &Shape, bytes: &'a [u8]) -> Result<(&'a [u8], &'a [u8])> {
    let len = if shape.grows {
        bytes.len().saturating_sub(HEADER) / 2
    } else {
        shape.len
    };
    let value = bytes.get(shape.from..shape.from + len);
    let mask = bytes.get(shape.from + len..shape.from + 2 * len);
    let (value, mask) = value.zip(mask).ok_or(Errno::INVAL)?;
    let value = value.get(..shape.len).ok_or(Errno::INVAL)?;
    let (mask, behind) = mask.split_at_checked(shape.len).ok_or(Errno::INVAL)?;
    if behind.iter().any(|&b| b != 0) {
        return Err(Errno::OPNOTSUPP);
    }
    Ok((value, mask))
}
