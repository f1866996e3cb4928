//! Completion queues: ibv_create_cq(3), ibv_get_cq_event(3) of 1.0.

use super::{channel, context, ended, idle, layout::*, made, real, ret, wrapper};
use crate::export::cq as today;
use crate::symver;
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
    unsafe { ended(cq, today::destroy_cq) }
}
symver!(old destroy_cq => "ibv_destroy_cq", "IBVERBS_1.0");

unsafe extern "C" fn get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq_1_0,
    cq_context: *mut *mut c_void,
) -> c_int {
    if let Err(e) = ret::not_null(cq).and_then(|_| ret::not_null(cq_context)) {
        return ret::minus_one(Err(e));
    }
    let (mut found, mut queue) = (null_mut(), null_mut());
    // SAFETY: the caller passes a live channel of either version or NULL. Its queues were made
    // by 1.0, so what is theirs is the wrapper.
    unsafe {
        let answer = today::get_cq_event(channel::real(channel), &raw mut found, &raw mut queue);
        if answer == 0 {
            *cq = queue.cast();
            *cq_context = (**cq).cq_context;
        }
        answer
    }
}
symver!(old get_cq_event => "ibv_get_cq_event", "IBVERBS_1.0");

unsafe extern "C" fn ack_cq_events(cq: *mut ibv_cq_1_0, events: c_uint) {
    // SAFETY: the caller passes a live queue or NULL.
    unsafe {
        if let Ok(queue) = real(cq) {
            today::ack_cq_events(queue, events);
        }
    }
}
symver!(old ack_cq_events => "ibv_ack_cq_events", "IBVERBS_1.0");
