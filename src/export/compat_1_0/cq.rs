//! Completion queues: ibv_create_cq(3), ibv_get_cq_event(3) of 1.0.

use super::{channel, context, ended, idle, layout::*, made, real, ret, wrapper};
use crate::export::cq as today;
use crate::{hidden, symver};
use kit::abi::ibv_comp_channel;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

unsafe extern "C" fn create_cq(
    context: *mut ibv_context_1_0,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq_1_0 {
    // SAFETY: the caller passes an open context and a live channel of either version, or NULL.
    unsafe {
        ret::pointer_of(context::real(context), |open| {
            let (mutex, cond) = idle();
            let value = ibv_cq_1_0 {
                context,
                cq_context,
                handle: 0,
                cqe,
                mutex,
                cond,
                comp_events_completed: 0,
                async_events_completed: 0,
                real_cq: null_mut(),
            };
            made(value, |new| {
                today::create_cq(open, cqe, new.cast(), channel::real(channel), comp_vector)
            })
        })
    }
}
symver!(old create_cq => "ibv_create_cq", "IBVERBS_1.0");

unsafe extern "C" fn resize_cq(cq: *mut ibv_cq_1_0, cqe: c_int) -> c_int {
    // SAFETY: the caller passes a live queue or NULL.
    unsafe {
        ret::code_of(wrapper(cq), |queue| {
            let answer = today::resize_cq((*queue).real_cq, cqe);
            (*queue).cqe = (*(*queue).real_cq).cqe;
            answer
        })
    }
}
symver!(old resize_cq => "ibv_resize_cq", "IBVERBS_1.0");

unsafe extern "C" fn destroy_cq(cq: *mut ibv_cq_1_0) -> c_int {
    // SAFETY: the caller passes a live queue or NULL.
    unsafe { ended(cq, |object| today::destroy_cq(object)) }
}
symver!(old destroy_cq => "ibv_destroy_cq", "IBVERBS_1.0");

unsafe extern "C" fn real_channel(channel: *mut ibv_comp_channel) -> *mut ibv_comp_channel {
    // SAFETY: the caller of ibv_get_cq_event passes a live channel of either version or NULL.
    unsafe { channel::real(channel) }
}
hidden!(real_channel => "ferroverbs_real_channel");

/// The results of ibv_get_cq_event for a current queue whose context is `queue`.
///
/// # Safety
/// There is room for the answers; the queue was made by 1.0.
unsafe extern "C" fn old_cq_event(
    queue: *mut c_void,
    cq: *mut *mut ibv_cq_1_0,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: vouched for by the caller: so the queue's context is the wrapper.
    unsafe {
        *cq = queue.cast();
        *cq_context = (**cq).cq_context;
    }
    0
}
hidden!(old_cq_event => "ferroverbs_old_cq_event");

unsafe extern "C" fn ack_cq_events(cq: *mut ibv_cq_1_0, events: c_uint) {
    // SAFETY: the caller passes a live queue or NULL.
    unsafe {
        if let Ok(queue) = real(cq) {
            today::ack_cq_events(queue, events);
        }
    }
}
symver!(old ack_cq_events => "ibv_ack_cq_events", "IBVERBS_1.0");
