//! Completion queues: ibv_create_cq(3), ibv_create_cq_ex(3), ibv_resize_cq(3), ibv_get_cq_event(3).

use super::{ended, event::HAVE_RECORD, ret};
use crate::{
    core::events::{self, Record, kept},
    hidden, symver,
};
use kit::{
    abi::{
        handle::{CompChannel, Cq, Ctx},
        *,
    },
    errno::{Errno, Result},
};
use std::{
    ffi::{c_int, c_uint, c_void},
    os::fd::AsRawFd,
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
    // queue is valid and nothing else refers to it yet.
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

/// Destroys a queue for another function of the library. No cancellation point, as ibv_destroy_cq
/// in `cancel.c` is.
///
/// # Safety
/// As for ibv_destroy_cq(3).
pub(super) unsafe fn destroy_cq(cq: *mut ibv_cq) -> c_int {
    // SAFETY: vouched for by the caller; its channel is read before it is freed.
    unsafe {
        ret::code_of(Cq::from_raw(cq), |h| {
            let channel = h.channel().map_or(ptr::null_mut(), CompChannel::as_ptr);
            let (destroy, acked) = (h.table().destroy_cq(), || h.acked());
            let answer = ended::whole(|| destroy(cq), acked, |seen| h.wait_acked(seen));
            if answer == 0 {
                destroy_cq_end(cq, channel);
            }
            answer
        })
    }
}

/// 0 and the object that destroys the queue, or an errno.
///
/// # Safety
/// As for ibv_destroy_cq(3); there is room for the answer.
unsafe extern "C" fn destroy_cq_begin(
    cq: *mut ibv_cq,
    destroy: *mut unsafe extern "C" fn(*mut ibv_cq) -> c_int,
) -> c_int {
    // SAFETY: vouched for by the caller.
    unsafe {
        ret::code_of(Cq::from_raw(cq), |h| {
            destroy.write(h.table().destroy_cq());
            0
        })
    }
}
hidden!(destroy_cq_begin => "ferroverbs_destroy_cq_begin");

/// A queue has been destroyed, which was on this channel or on none.
///
/// # Safety
/// The channel is live or NULL.
pub(super) unsafe extern "C" fn destroy_cq_end(cq: *mut ibv_cq, channel: *mut ibv_comp_channel) {
    kept::forget(cq.addr());
    // SAFETY: vouched for by the caller.
    if let Ok(channel) = unsafe { CompChannel::from_raw(channel) } {
        channel.release();
    }
}
hidden!(destroy_cq_end => "ferroverbs_destroy_cq_end");

/// The descriptor from which `cancel.c` reads the channel's next record; or the record, if one was
/// kept.
///
/// # Safety
/// As for ibv_get_cq_event(3); there is room for the record.
unsafe extern "C" fn cq_event_begin(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
    record: *mut Record,
) -> c_int {
    // SAFETY: the caller passes a live channel and room for the answers, or NULL. A record is kept
    // only while its queue is live.
    unsafe {
        let arguments = ret::not_null(cq)
            .and_then(|_| ret::not_null(cq_context))
            .and_then(|_| CompChannel::from_raw(channel));
        ret::count(arguments.and_then(|channel| {
            let Some(kept) = kept::take(channel.as_ptr().addr()) else {
                return Ok(channel.fd()?.as_raw_fd());
            };
            // It was counted as acknowledged when it was kept.
            queue_of(kept)?.ack_comp(1u32.wrapping_neg());
            record.write(kept);
            Ok(HAVE_RECORD)
        }))
    }
}
hidden!(cq_event_begin => "ferroverbs_cq_event_begin");

/// # Safety
/// The record is one of a channel: it names a queue that was created on it.
unsafe fn queue_of<'a>(record: Record) -> Result<Cq<'a>> {
    let queue = ptr::with_exposed_provenance_mut(events::completion(record)?);
    // SAFETY: vouched for by the caller; a queue lives until its events are acknowledged.
    unsafe { Cq::from_raw(queue) }
}

/// The answers of a record that was read.
///
/// # Safety
/// `cq_event_begin` accepted the arguments, and the record is one of the channel.
unsafe extern "C" fn cq_event_end(
    record: *const Record,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: vouched for by the caller.
    ret::minus_one(unsafe {
        queue_of(record.read()).map(|found| {
            *cq = found.as_ptr();
            *cq_context = found.cq_context();
            (found.table().cq_event())(found.as_ptr());
        })
    })
}
hidden!(cq_event_end => "ferroverbs_cq_event_end");

/// Keeps the record of a cancelled reader for the next call. Until then it counts as acknowledged,
/// so that the queue can be destroyed.
///
/// # Safety
/// The channel is live, and the record is one of it.
unsafe extern "C" fn cq_event_keep(channel: *mut ibv_comp_channel, record: *const Record) {
    // SAFETY: vouched for by the caller.
    unsafe {
        let record = record.read();
        if let Ok(queue) = queue_of(record) {
            queue.ack_comp(1);
            // Without memory the event is lost.
            let _ = kept::keep(channel.addr(), queue.as_ptr().addr(), record);
        }
    }
}
hidden!(cq_event_keep => "ferroverbs_cq_event_keep");

pub(super) unsafe extern "C" fn ack_cq_events(cq: *mut ibv_cq, events: c_uint) {
    // SAFETY: the caller passes a live queue or NULL.
    if let Ok(cq) = unsafe { Cq::from_raw(cq) } {
        cq.ack_comp(events);
    }
}
symver!(ack_cq_events => "ibv_ack_cq_events", "IBVERBS_1.1");
