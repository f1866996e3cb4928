#![forbid(unsafe_code)]
//! State transitions of the queue pairs of ids, with attributes from the backend.

use crate::abi::MAX_DEPTH;
use crate::id::Id;
use crate::verbs::{self, Qp};
use core::ffi::c_int;
use kit::abi::*;
use kit::errno::Result;

/// Queries the backend's attributes of a transition.
///
/// # Errors
/// The backend's: EINVAL in the wrong state.
pub fn attributes(id: &Id, state: ibv_qp_state) -> Result<(ibv_qp_attr, c_int)> {
    let attributes = id.backend()?.qp_attr(state)?;
    Ok(verbs::qp_attr(&attributes, state))
}

fn mask(bits: ibv_qp_attr_mask) -> c_int {
    bits.cast_signed()
}

/// # Errors
/// The backend's; ibv_modify_qp(3)'s.
pub fn to_init(id: &Id, qp: Qp) -> Result<()> {
    let (mut attr, mask) = attributes(id, IBV_QPS_INIT)?;
    qp.modify(&mut attr, mask)
}

/// INIT, RTR and RTS. A depth of 255 leaves the backend's value.
///
/// # Errors
/// The backend's; ibv_modify_qp(3)'s.
pub fn to_rts(id: &Id, qp: Qp, responder_resources: u8, initiator_depth: u8) -> Result<()> {
    to_init(id, qp)?;
    let (mut attr, mask) = attributes(id, IBV_QPS_RTR)?;
    if responder_resources != MAX_DEPTH {
        attr.max_dest_rd_atomic = responder_resources;
    }
    qp.modify(&mut attr, mask)?;
    let (mut attr, mask) = attributes(id, IBV_QPS_RTS)?;
    if initiator_depth != MAX_DEPTH {
        attr.max_rd_atomic = initiator_depth;
    }
    qp.modify(&mut attr, mask)
}

/// RTR and RTS of a datagram queue pair, which needs no peer.
///
/// # Errors
/// ibv_modify_qp(3)'s.
pub fn datagram_to_rts(qp: Qp) -> Result<()> {
    let mut attr: ibv_qp_attr = bytemuck::Zeroable::zeroed();
    attr.qp_state = IBV_QPS_RTR;
    qp.modify(&mut attr, mask(IBV_QP_STATE))?;
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = 0;
    qp.modify(&mut attr, mask(IBV_QP_STATE | IBV_QP_SQ_PSN))
}

/// To ERR, or another state that needs no attributes; without a queue pair there is no transition.
///
/// # Errors
/// ibv_modify_qp(3)'s.
pub fn to(id: &Id, state: ibv_qp_state) -> Result<()> {
    let Some(qp) = id.qp() else {
        return Ok(());
    };
    let mut attr: ibv_qp_attr = bytemuck::Zeroable::zeroed();
    attr.qp_state = state;
    qp.modify(&mut attr, mask(IBV_QP_STATE))
}
