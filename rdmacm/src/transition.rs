#![forbid(unsafe_code)]
//! State transitions of the queue pairs of ids, with attributes from the backend.

use crate::abi::MAX_DEPTH;
use crate::id::{Id, Manager};
use crate::verbs::{self, Deferred, Qp};
use bytemuck::Zeroable;
use core::ffi::c_int;
use kit::abi::{kernel::ib_uverbs_qp_attr, *};
use kit::errno::Result;

/// Queries the backend's attributes of a transition, and returns their mask. Members that the mask
/// leaves out may keep their values.
///
/// # Errors
/// The backend's: EINVAL in the wrong state.
pub fn attributes(id: &Id, state: ibv_qp_state, attr: &mut ibv_qp_attr) -> Result<c_int> {
    let mut found = ib_uverbs_qp_attr::zeroed();
    fill(id.backend()?, state, attr, &mut found)
}

/// The same, with room for the backend's answer.
#[inline(always)]
fn fill(
    backend: &Manager,
    state: ibv_qp_state,
    attr: &mut ibv_qp_attr,
    found: &mut ib_uverbs_qp_attr,
) -> Result<c_int> {
    backend.qp_attr(state, found)?;
    attr.qp_state = state;
    Ok(verbs::fill_qp_attr(attr, found))
}

fn mask(bits: ibv_qp_attr_mask) -> c_int {
    bits.cast_signed()
}

/// # Errors
/// The backend's; ibv_modify_qp(3)'s.
pub fn to_init(id: &Id, qp: Qp, thread: &Deferred) -> Result<()> {
    let mut attr = ibv_qp_attr::zeroed();
    let mask = attributes(id, IBV_QPS_INIT, &mut attr)?;
    qp.modify(&mut attr, mask, thread)
}

/// INIT, RTR and RTS. A depth of 255 leaves the backend's value.
///
/// # Errors
/// The backend's; ibv_modify_qp(3)'s.
pub fn to_rts(
    id: &Id,
    qp: Qp,
    responder_resources: u8,
    initiator_depth: u8,
    thread: &Deferred,
) -> Result<()> {
    let backend = id.backend()?;
    let mut attr = ibv_qp_attr::zeroed();
    let mut found = ib_uverbs_qp_attr::zeroed();
    for state in [IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS] {
        let mask = fill(backend, state, &mut attr, &mut found)?;
        if state == IBV_QPS_RTR && responder_resources != MAX_DEPTH {
            attr.max_dest_rd_atomic = responder_resources;
        }
        if state == IBV_QPS_RTS && initiator_depth != MAX_DEPTH {
            attr.max_rd_atomic = initiator_depth;
        }
        qp.modify(&mut attr, mask, thread)?;
    }
    Ok(())
}

/// RTR and RTS of a datagram queue pair, which needs no peer.
///
/// # Errors
/// ibv_modify_qp(3)'s.
pub fn datagram_to_rts(qp: Qp, thread: &Deferred) -> Result<()> {
    let mut attr = ibv_qp_attr::zeroed();
    attr.qp_state = IBV_QPS_RTR;
    qp.modify(&mut attr, mask(IBV_QP_STATE), thread)?;
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = 0;
    qp.modify(&mut attr, mask(IBV_QP_STATE | IBV_QP_SQ_PSN), thread)
}

/// To ERR, or another state that needs no attributes; without a queue pair there is no transition.
///
/// # Errors
/// ibv_modify_qp(3)'s.
pub fn to(id: &Id, state: ibv_qp_state, thread: &Deferred) -> Result<()> {
    let Some(qp) = id.qp() else {
        return Ok(());
    };
    to_state(qp, state, thread)
}

/// The same, of a queue pair.
///
/// # Errors
/// As above.
pub fn to_state(qp: Qp, state: ibv_qp_state, thread: &Deferred) -> Result<()> {
    let mut attr = ibv_qp_attr::zeroed();
    attr.qp_state = state;
    qp.modify(&mut attr, mask(IBV_QP_STATE), thread)
}
