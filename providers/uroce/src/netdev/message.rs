//! Routing netlink messages about interfaces and their addresses: bytes in, values out. No socket
//! here.
//!
//! Structures and numbers are those of `linux/include/uapi/linux/`: `rtnetlink.h`, `if_link.h`,
//! `if_addr.h`, `if.h`.

use super::interface::Interface;
use kit::errno::Result;
use kit::netlink::frame::{Kind, Question};
use kit::netlink::route::{address, attributes, exactly, split};
use std::net::IpAddr;

/// Multicast groups of the notifications used here, as bits: `RTNLGRP_LINK`, `RTNLGRP_IPV4_IFADDR`,
/// `RTNLGRP_IPV6_IFADDR`.
pub const GROUPS: u32 = 1 | 1 << 4 | 1 << 8;

/// `RTM_GETLINK`.
pub const GET_LINK: u16 = 18;
/// `RTM_GETADDR`.
pub const GET_ADDRESS: u16 = 22;

/// The structure of the question for all interfaces.
pub fn links() -> [u8; 16] {
    // struct ifinfomsg, of any family
    [0; 16]
}

/// The structure of the question for all addresses.
pub fn addresses() -> [u8; 8] {
    // struct ifaddrmsg, of any family
    [0; 8]
}

/// A question, from its parts.
pub fn question(message: u16, kind: Kind, fixed: &[u8]) -> Question<'_> {
    Question {
        message,
        kind,
        fixed,
        attributes: &[],
    }
}

/// Reads an interface; none when it has no name or a negative index. Its speed and its addresses
/// stand elsewhere.
///
/// # Errors
/// EPROTO when it cannot be read.
pub fn interface_of(payload: &[u8]) -> Result<Option<Interface>> {
    const ADDRESS: u16 = 1;
    const NAME: u16 = 3;
    const MTU: u16 = 4;
    const UP: u32 = 1;
    const RUNNING: u32 = 1 << 6;
    const LOOPBACK: u32 = 1 << 3;
    const POINT_TO_POINT: u32 = 1 << 4;
    const NO_ARP: u32 = 1 << 7;
    // struct ifinfomsg
    let ([_, _, _, _, i0, i1, i2, i3, f0, f1, f2, f3, ..], rest) = split::<16>(payload)?;
    let flags = u32::from_ne_bytes([*f0, *f1, *f2, *f3]);
    let index = i32::from_ne_bytes([*i0, *i1, *i2, *i3]);
    let mut found = Interface {
        up: flags & UP != 0,
        running: flags & UP != 0 && flags & RUNNING != 0,
        has_neighbours: flags & (LOOPBACK | POINT_TO_POINT | NO_ARP) == 0,
        ..Interface::default()
    };
    attributes(rest, |kind, value| {
        match kind {
            ADDRESS => found.mac = value.try_into().ok().filter(|mac| *mac != [0; 6]),
            NAME => found.name = text(value),
            MTU => found.mtu = u32::from_ne_bytes(exactly(value)?),
            _ => {}
        }
        Ok(())
    })?;
    let Ok(index) = u32::try_from(index) else {
        return Ok(None);
    };
    found.index = index;
    Ok((!found.name.is_empty()).then_some(found))
}

/// Names of interfaces are bytes; those that are not UTF-8 cannot be named in a configuration.
fn text(value: &[u8]) -> String {
    let bytes = value.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

/// An address of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owned {
    /// The interface that has it.
    pub interface: u32,
    /// The address.
    pub address: IpAddr,
    /// `RT_SCOPE_*`: the higher the less far it reaches.
    pub scope: u8,
}

/// Reads an address; none for one that nothing can be sent from yet (its uniqueness is still
/// being checked) or ever (it was found not to be unique), and for other families.
///
/// # Errors
/// EPROTO when it cannot be read.
pub fn address_of(payload: &[u8]) -> Result<Option<Owned>> {
    const ADDRESS: u16 = 1;
    const LOCAL: u16 = 2;
    const FLAGS: u16 = 8;
    // struct ifaddrmsg
    let ([family, _, short, scope, index @ ..], rest) = split::<8>(payload)?;
    let (mut own, mut peer, mut flags) = (None, None, u32::from(*short));
    attributes(rest, |kind, value| {
        match kind {
            // Of a point-to-point interface this is the other end's.
            ADDRESS => peer = address(*family, value)?,
            LOCAL => own = address(*family, value)?,
            FLAGS => flags = u32::from_ne_bytes(exactly(value)?),
            _ => {}
        }
        Ok(())
    })?;
    let usable = |address: &IpAddr| is_usable(flags) && !address.is_unspecified();
    Ok(own.or(peer).filter(usable).map(|address| Owned {
        interface: u32::from_ne_bytes(*index),
        address,
        scope: *scope,
    }))
}

fn is_usable(flags: u32) -> bool {
    const OPTIMISTIC: u32 = 1 << 2;
    const DUPLICATE: u32 = 1 << 3;
    const TENTATIVE: u32 = 1 << 6;
    let checking = flags & TENTATIVE != 0 && flags & OPTIMISTIC == 0;
    flags & DUPLICATE == 0 && !checking
}

#[cfg(test)]
mod tests;
