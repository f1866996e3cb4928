#![forbid(unsafe_code)]
//! Queue pairs and shared receive queues of ids, with the completion queues that the library makes
//! for them.

use crate::backend::Ece;
use crate::id::Id;
use crate::verbs::{self, CompChannel, Context, Cq, Deferred, Pd, Qp, Srq};
use crate::{abi::rdma_cm_id, transition};
use core::ptr::null_mut;
use kit::abi::*;
use kit::errno::{Errno, Result};

/// Makes a queue pair for an id, in INIT, or in RTS for datagrams. Objects that the attributes lack
/// are the id's, or are made. The attributes afterwards contain the objects and sizes of the queue
/// pair.
///
/// # Errors
/// EINVAL if the id has a queue pair, for a domain of another device, and for completion queues
/// other than the id's; the backend's for an id without a device; those of verbs.
pub fn create(id: &Id, attr: &mut ibv_qp_init_attr_ex) -> Result<()> {
    if id.qp().is_some() {
        return Err(Errno::INVAL);
    }
    let context = Context::of(id.block.verbs()).ok_or(Errno::INVAL)?;
    if attr.comp_mask & IBV_QP_INIT_ATTR_PD == 0 {
        attr.comp_mask |= IBV_QP_INIT_ATTR_PD;
        attr.pd = id.block.pd();
    }
    let pd = Pd::of(attr.pd).ok_or(Errno::INVAL)?;
    if pd.context() != context.as_ptr()
        || differ(id.block.send_cq(), attr.send_cq)
        || differ(id.block.recv_cq(), attr.recv_cq)
    {
        return Err(Errno::INVAL);
    }
    if attr.qp_type == IBV_QPT_XRC_RECV && attr.comp_mask & IBV_QP_INIT_ATTR_XRCD == 0 {
        attr.xrcd = anonymous_xrcd(id)?;
        attr.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
    }
    make_completion_queues(id, context, attr)?;
    if attr.send_cq.is_null() {
        attr.send_cq = id.block.send_cq();
    }
    if attr.recv_cq.is_null() {
        attr.recv_cq = id.block.recv_cq();
    }
    if attr.srq.is_null() && attr.qp_type != IBV_QPT_XRC_RECV {
        attr.srq = id.block.srq();
    }
    let made = context.create_qp(attr).and_then(|qp| {
        verbs::deferred(|thread| {
            let begun = begin(id, qp, thread);
            if begun.is_err() {
                qp.destroy(thread);
            }
            begun.map(|()| qp)
        })
    });
    let qp = made.inspect_err(|_| verbs::deferred(|t| destroy_completion_queues(id, t)))?;
    // An XRC target may have no completion queue; its shared receive queue uses the id's.
    if !qp.pd().is_null() {
        id.block.set_pd(qp.pd());
    }
    id.block.set_qp(qp.as_ptr());
    Ok(())
}

/// Whether the attributes have a queue that differs from the id's.
fn differ(own: *mut ibv_cq, given: *mut ibv_cq) -> bool {
    !own.is_null() && !given.is_null() && own != given
}

fn anonymous_xrcd(id: &Id) -> Result<*mut ibv_xrcd> {
    let state = id.state.lock();
    let lease = state.lease.as_ref().ok_or(Errno::INVAL)?;
    Ok(lease.xrcd()?.as_ptr())
}

/// ECE options are set before the first transition.
fn begin(id: &Id, qp: Qp, thread: &Deferred) -> Result<()> {
    exchange_options(id, qp)?;
    transition::to_init(id, qp, thread)?;
    if id.is_datagram() {
        transition::datagram_to_rts(qp, thread)?;
    }
    Ok(())
}

/// The queue pair takes the options of the peer's request; its own options go to the peer.
fn exchange_options(id: &Id, qp: Qp) -> Result<()> {
    let remote = id.state.lock().remote_ece;
    if remote.vendor_id != 0 {
        qp.set_ece(ibv_ece {
            vendor_id: remote.vendor_id,
            options: remote.attr_mod,
            comp_mask: 0,
        })?;
    }
    match qp.query_ece() {
        Ok(ece) => {
            id.state.lock().local_ece = Ece {
                vendor_id: ece.vendor_id,
                attr_mod: ece.options,
            };
            Ok(())
        }
        // Most devices have no ECE options.
        Err(e) if e == Errno::OPNOTSUPP || e == Errno::NOSYS => Ok(()),
        Err(e) => Err(e),
    }
}

/// A completion queue with a channel, whose events contain the id, because rdma_get_send_comp(3)
/// reads it.
fn completion_queue(id: &Id, context: Context, entries: u32) -> Result<(Cq, CompChannel)> {
    let channel = context.create_comp_channel()?;
    let cq_context: *mut rdma_cm_id = id.block.as_ptr();
    let made = context.create_cq(entries, cq_context.cast(), channel);
    let cq = made.inspect_err(|_| channel.destroy())?;
    Ok((cq, channel))
}

fn make_completion_queues(id: &Id, context: Context, attr: &ibv_qp_init_attr_ex) -> Result<()> {
    if attr.send_cq.is_null() && id.block.send_cq().is_null() && attr.cap.max_send_wr > 0 {
        let (cq, channel) = completion_queue(id, context, attr.cap.max_send_wr)?;
        id.block.set_send_cq(cq.as_ptr());
        id.block.set_send_cq_channel(channel.as_ptr());
        id.state.lock().made_send_cq = true;
    }
    if attr.recv_cq.is_null() && id.block.recv_cq().is_null() && attr.cap.max_recv_wr > 0 {
        make_receive_queue(id, context, attr.cap.max_recv_wr)
            .inspect_err(|_| verbs::deferred(|t| destroy_completion_queues(id, t)))?;
    }
    Ok(())
}

fn make_receive_queue(id: &Id, context: Context, entries: u32) -> Result<()> {
    let (cq, channel) = completion_queue(id, context, entries)?;
    id.block.set_recv_cq(cq.as_ptr());
    id.block.set_recv_cq_channel(channel.as_ptr());
    id.state.lock().made_recv_cq = true;
    Ok(())
}

/// Destroys the completion queues that the library made.
fn destroy_completion_queues(id: &Id, thread: &Deferred) {
    let (send, receive) = {
        let mut state = id.state.lock();
        let made = (state.made_send_cq, state.made_recv_cq);
        (state.made_send_cq, state.made_recv_cq) = (false, false);
        made
    };
    let destroy = |cq, channel| match (Cq::of(cq), CompChannel::of(channel)) {
        (Some(cq), _) => cq.destroy(channel, thread),
        (None, Some(channel)) => channel.destroy(),
        (None, None) => {}
    };
    if receive {
        destroy(id.block.recv_cq(), id.block.recv_cq_channel());
        id.block.set_recv_cq(null_mut());
        id.block.set_recv_cq_channel(null_mut());
    }
    if send {
        destroy(id.block.send_cq(), id.block.send_cq_channel());
        id.block.set_send_cq(null_mut());
        id.block.set_send_cq_channel(null_mut());
    }
}

/// Destroys the queue pair of an id, if there is one.
pub fn destroy(id: &Id) {
    verbs::deferred(|thread| {
        if let Some(qp) = id.qp() {
            qp.destroy(thread);
            id.block.set_qp(null_mut());
        }
        // The completion queues of an XRC receiver belong to its shared receive queue as long as
        // that exists.
        if id.block.qp_type() != IBV_QPT_XRC_RECV || id.block.srq().is_null() {
            destroy_completion_queues(id, thread);
        }
    });
}

/// Makes the shared receive queue of an id.
///
/// # Errors
/// EINVAL without a type, and for an id without a device; those of verbs.
pub fn create_srq(id: &Id, attr: &mut ibv_srq_init_attr_ex) -> Result<()> {
    if attr.comp_mask & IBV_SRQ_INIT_ATTR_TYPE == 0 {
        return Err(Errno::INVAL);
    }
    let context = Context::of(id.block.verbs()).ok_or(Errno::INVAL)?;
    if attr.comp_mask & IBV_SRQ_INIT_ATTR_PD == 0 || attr.pd.is_null() {
        attr.pd = id.block.pd();
        attr.comp_mask |= IBV_SRQ_INIT_ATTR_PD;
    }
    if attr.srq_type == IBV_SRQT_XRC {
        if attr.comp_mask & IBV_SRQ_INIT_ATTR_XRCD == 0 || attr.xrcd.is_null() {
            attr.xrcd = anonymous_xrcd(id)?;
            attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
        }
        if attr.comp_mask & IBV_SRQ_INIT_ATTR_CQ == 0 || attr.cq.is_null() {
            if id.block.recv_cq().is_null() {
                make_receive_queue(id, context, attr.attr.max_wr)?;
            }
            attr.cq = id.block.recv_cq();
            attr.comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
        }
    }
    let made = context.create_srq(attr);
    let srq = made.inspect_err(|_| {
        if id.qp().is_none() {
            verbs::deferred(|thread| destroy_completion_queues(id, thread));
        }
    })?;
    if id.block.pd().is_null() {
        id.block.set_pd(attr.pd);
    }
    id.block.set_srq(srq.as_ptr());
    Ok(())
}

/// Destroys the shared receive queue of an id, if there is one.
pub fn destroy_srq(id: &Id) {
    verbs::deferred(|thread| {
        if let Some(srq) = Srq::of(id.block.srq()) {
            srq.destroy();
            id.block.set_srq(null_mut());
        }
        if id.qp().is_none() {
            destroy_completion_queues(id, thread);
        }
    });
}
