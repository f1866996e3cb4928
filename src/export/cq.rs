//! Completion queues: ibv_create_cq(3), ibv_create_cq_ex(3), ibv_resize_cq(3), ibv_get_cq_event(3).

use super::ret;
use crate::{core::events, symver};
use kit::{
    abi::{
        handle::{CompChannel, Cq, Ctx},
        *,
    },
    errno::{Errno, Result},
};
use std::{
    ffi::{c_int, c_uint, c_void},
    ptr,
};

/// A channel that the caller may leave out.
///
/// # Safety
/// `channel` is live or NULL.
unsafe fn optional<'a>(channel: *mut ibv_comp_channel) -> Result<Option<CompChannel<'a>>> {
    if channel.is_null() {
        return Ok(None);
    }
    // SAFETY: vouched for by the caller.
    unsafe { CompChannel::from_raw(channel) }.map(Some)
}

pub(super) unsafe extern "C" fn create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq {
    // SAFETY: the caller passes an open context and a live channel, or NULL; a provider's new
    // queue is valid and nobody else has it yet.
    unsafe {
        let arguments = Ctx::from_raw(context).and_then(|ctx| Ok((ctx, optional(channel)?)));
        ret::pointer_of(arguments, |(ctx, notifies)| {
            let cq = (ctx.table().create_cq())(context, cqe, channel, comp_vector);
            if !cq.is_null() {
                Cq::init(cq, ctx, notifies, cq_context);
            }
            cq
        })
    }
}
symver!(create_cq => "ibv_create_cq", "IBVERBS_1.1");

/// The slot `create_cq_ex` of `verbs_context`.
pub unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    // SAFETY: the caller passes an open context and its attributes, or NULL; a new queue starts
    // with an ibv_cq.
    unsafe {
        let arguments = ret::not_null(attr).and_then(|_| {
            let ctx = Ctx::from_raw(context)?;
            Ok((ctx, optional((*attr).channel)?))
        });
        ret::pointer_of(arguments, |(ctx, notifies)| {
            if (*attr).wc_flags & !u64::from(IBV_CREATE_CQ_SUP_WC_FLAGS) != 0 {
                return ret::null(Errno::OPNOTSUPP);
            }
            let cq = (ctx.table().create_cq_ex())(context, attr);
            if !cq.is_null() {
                Cq::init(cq.cast(), ctx, notifies, (*attr).cq_context);
            }
            cq
        })
    }
}

pub(super) unsafe extern "C" fn resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int {
    // SAFETY: the caller passes a live queue or NULL.
    unsafe { ret::code_of(Cq::from_raw(cq), |h| (h.table().resize_cq())(cq, cqe)) }
}
symver!(resize_cq => "ibv_resize_cq", "IBVERBS_1.1");

pub(super) unsafe extern "C" fn destroy_cq(cq: *mut ibv_cq) -> c_int {
    // SAFETY: the caller passes a live queue or NULL; its channel is read before it is freed.
    unsafe {
        ret::code_of(Cq::from_raw(cq), |h| {
            let channel = h.channel();
            let answer = (h.table().destroy_cq())(cq);
            if let Some(channel) = channel
                && answer == 0
            {
                channel.release();
            }
            answer
        })
    }
}
symver!(destroy_cq => "ibv_destroy_cq", "IBVERBS_1.1");

pub(super) unsafe extern "C" fn get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller passes a live channel and room for the answers, or NULL; the kernel
    // answers with the queue that was created on the channel.
    let got = unsafe {
        ret::not_null(cq)
            .and_then(|_| ret::not_null(cq_context))
            .and_then(|_| CompChannel::from_raw(channel))
            .and_then(|h| events::next_completion(h.fd()?))
            .and_then(|element| Cq::from_raw(ptr::with_exposed_provenance_mut(element)))
            .map(|found| {
                *cq = found.as_ptr();
                *cq_context = found.cq_context();
                (found.table().cq_event())(found.as_ptr());
            })
    };
    ret::minus_one(got)
}
symver!(get_cq_event => "ibv_get_cq_event", "IBVERBS_1.1");

pub(super) unsafe extern "C" fn ack_cq_events(cq: *mut ibv_cq, events: c_uint) {
    // SAFETY: the caller passes a live queue or NULL.
    if let Ok(cq) = unsafe { Cq::from_raw(cq) } {
        cq.ack_comp(events);
    }
}
symver!(ack_cq_events => "ibv_ack_cq_events", "IBVERBS_1.1");
