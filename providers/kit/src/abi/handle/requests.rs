//! Chains that applications pass: work requests, and the specifications of a flow rule.

use super::{counters_number, flow_action_number};
use crate::abi::kernel::*;
use crate::abi::*;
use crate::errno::{Errno, Result};
use core::mem::{align_of, size_of};
use core::ptr::NonNull;
use core::slice;

/// A work request in the kernel's form, and its gather or scatter list.
pub type Posted<'a, W> = (W, &'a [ib_uverbs_sge]);

/// One specification of a flow rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowSpec<'a> {
    /// A filter, a tag or a drop: `IBV_FLOW_SPEC_*` and all bytes of the structure, header
    /// included.
    Plain(ibv_flow_spec_type, &'a [u8]),
    /// A specification that names an object: `IBV_FLOW_SPEC_ACTION_HANDLE` or
    /// `IBV_FLOW_SPEC_ACTION_COUNT`, and the object's number in the kernel.
    Object(ibv_flow_spec_type, u32),
}

const _: () = {
    assert!(size_of::<ibv_sge>() == size_of::<ib_uverbs_sge>());
    assert!(align_of::<ibv_sge>() == align_of::<ib_uverbs_sge>());
};

/// The elements of a request.
///
/// # Errors
/// EINVAL for a negative count, or for elements at NULL.
///
/// # Safety
/// `list` is NULL or good for `count` elements during `'a`.
unsafe fn elements<'a>(list: *const ibv_sge, count: i32) -> Result<&'a [ib_uverbs_sge]> {
    let count = usize::try_from(count).map_err(|_| Errno::INVAL)?;
    if count == 0 {
        return Ok(&[]);
    }
    if list.is_null() {
        return Err(Errno::INVAL);
    }
    // SAFETY: vouched for by the caller; both structures are an address, a length and a key.
    Ok(unsafe { slice::from_raw_parts(list.cast(), count) })
}

fn pair(low: u32, high: u32) -> u64 {
    let mut bytes = [0; 8];
    let (first, second) = bytes.split_at_mut(4);
    first.copy_from_slice(&low.to_ne_bytes());
    second.copy_from_slice(&high.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// The addressing part of a send.
///
/// # Errors
/// EINVAL for a datagram without an address handle.
///
/// # Safety
/// The members that the opcode uses are set; the address handle is live or NULL.
unsafe fn address(wr: &ibv_send_wr, datagram: bool) -> Result<[u64; 4]> {
    // SAFETY: each member of the union is plain data, and set by the opcode or the kind of
    // queue pair it is read for.
    unsafe {
        if datagram {
            let ud = wr.wr.ud;
            let ah = NonNull::new(ud.ah).ok_or(Errno::INVAL)?;
            let ah = (*ah.as_ptr()).handle;
            return Ok([pair(ah, ud.remote_qpn), pair(ud.remote_qkey, 0), 0, 0]);
        }
        Ok(match wr.opcode {
            IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM | IBV_WR_RDMA_READ => {
                let rdma = wr.wr.rdma;
                [rdma.remote_addr, pair(rdma.rkey, 0), 0, 0]
            }
            IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD => {
                let atomic = wr.wr.atomic;
                let key = pair(atomic.rkey, 0);
                [atomic.remote_addr, atomic.compare_add, atomic.swap, key]
            }
            _ => [0; 4],
        })
    }
}

/// One send in the kernel's form.
///
/// # Safety
/// As for [`sends`], for one request.
unsafe fn send<'a>(
    wr: &'a ibv_send_wr,
    qp_type: ibv_qp_type,
) -> Result<Posted<'a, ib_uverbs_send_wr>> {
    // SAFETY: vouched for by the caller; the immediate data is plain data of 4 bytes.
    let (elements, to, imm) = unsafe {
        (
            elements(wr.sg_list, wr.num_sge)?,
            address(wr, qp_type == IBV_QPT_UD)?,
            wr.imm.invalidate_rkey,
        )
    };
    let request = ib_uverbs_send_wr {
        wr_id: wr.wr_id,
        num_sge: wr.num_sge.cast_unsigned(),
        opcode: wr.opcode,
        send_flags: wr.send_flags,
        ex: imm,
        wr: to,
    };
    Ok((request, elements))
}

/// The sends of a chain for a queue pair of that type, each with its address, in the kernel's form;
/// EINVAL for a request without a valid form.
///
/// # Safety
/// `first` is NULL or starts a chain of requests as ibv_post_send(3) wants them, which stays so
/// for `'a`.
pub unsafe fn sends<'a>(
    first: *mut ibv_send_wr,
    qp_type: ibv_qp_type,
) -> impl Iterator<Item = (*mut ibv_send_wr, Result<Posted<'a, ib_uverbs_send_wr>>)> {
    let mut next = NonNull::new(first);
    core::iter::from_fn(move || {
        let at = next?;
        // SAFETY: vouched for by the caller.
        let (wr, posted) = unsafe {
            let wr: &'a ibv_send_wr = at.as_ref();
            (wr, send(wr, qp_type))
        };
        next = NonNull::new(wr.next);
        Some((at.as_ptr(), posted))
    })
}

/// The receives of a chain, each with its address, in the kernel's form; EINVAL for a request
/// without a valid form.
///
/// # Safety
/// `first` is NULL or starts a chain of requests as ibv_post_recv(3) wants them, which stays so
/// for `'a`.
pub unsafe fn receives<'a>(
    first: *mut ibv_recv_wr,
) -> impl Iterator<Item = (*mut ibv_recv_wr, Result<Posted<'a, ib_uverbs_recv_wr>>)> {
    let mut next = NonNull::new(first);
    core::iter::from_fn(move || {
        let at = next?;
        // SAFETY: vouched for by the caller.
        let (wr, elements) = unsafe {
            let wr = at.as_ref();
            (wr, elements(wr.sg_list, wr.num_sge))
        };
        next = NonNull::new(wr.next);
        let request = ib_uverbs_recv_wr {
            wr_id: wr.wr_id,
            num_sge: wr.num_sge.cast_unsigned(),
            reserved: 0,
        };
        Some((at.as_ptr(), elements.map(|e| (request, e))))
    })
}

/// The specification that starts at `at`, and its length.
///
/// # Errors
/// EINVAL when its length is shorter than its header, or an object is missing.
///
/// # Safety
/// As for [`specs`], for one specification.
unsafe fn spec<'a>(at: *const u8) -> Result<(FlowSpec<'a>, usize)> {
    // SAFETY: vouched for by the caller; a member is read only once the length covers it.
    unsafe {
        let head: ibv_flow_spec_u0_hdr = at.cast::<ibv_flow_spec_u0_hdr>().read_unaligned();
        let len = usize::from(head.size);
        let covers = |needed| {
            if len < needed {
                Err(Errno::INVAL)
            } else {
                Ok(())
            }
        };
        covers(size_of::<ibv_flow_spec_u0_hdr>())?;
        let number = match head.type_ {
            IBV_FLOW_SPEC_ACTION_HANDLE => {
                covers(size_of::<ibv_flow_spec_action_handle>())?;
                let spec = at.cast::<ibv_flow_spec_action_handle>().read_unaligned();
                flow_action_number(spec.action)
            }
            IBV_FLOW_SPEC_ACTION_COUNT => {
                covers(size_of::<ibv_flow_spec_counter_action>())?;
                let spec = at.cast::<ibv_flow_spec_counter_action>().read_unaligned();
                counters_number(spec.counters)
            }
            plain => return Ok((FlowSpec::Plain(plain, slice::from_raw_parts(at, len)), len)),
        };
        Ok((
            FlowSpec::Object(head.type_, number.ok_or(Errno::INVAL)?),
            len,
        ))
    }
}

/// The specifications that stand behind the attributes of a flow rule. The first bad one ends
/// them.
///
/// # Safety
/// `attr` points to the attributes, followed by as many specifications as they state, each of the
/// length that it states, with live objects where they name any; all of it is valid for `'a`.
pub unsafe fn specs<'a>(attr: *const ibv_flow_attr) -> impl Iterator<Item = Result<FlowSpec<'a>>> {
    // SAFETY: vouched for by the caller.
    let (mut left, mut at) = unsafe { ((*attr).num_of_specs, attr.add(1).cast::<u8>()) };
    core::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        // SAFETY: vouched for by the caller.
        match unsafe { spec(at) } {
            Ok((spec, len)) => {
                // SAFETY: the next one stands right behind, or nothing does.
                at = unsafe { at.add(len) };
                Some(Ok(spec))
            }
            Err(e) => {
                left = 0;
                Some(Err(e))
            }
        }
    })
}

#[cfg(test)]
mod tests;
