//! Asynchronous events: ibv_get_async_event(3) of 1.0.

use super::{context, layout::*, real, ret};
use crate::core::events::{self, Subject};
use crate::export::event as today;
use crate::{hidden, symver};
use kit::abi::{ibv_async_event, ibv_async_event_element, ibv_context};
use kit::errno::Result;
use std::ffi::c_int;

/// 0 and the context of today, or -1 with errno set.
///
/// # Safety
/// `context` is NULL or a live context of either version.
unsafe extern "C" fn real_context(
    context: *mut ibv_context_1_0,
    found: *mut *mut ibv_context,
) -> c_int {
    // SAFETY: vouched for by the caller; cancel.c has room for the answer.
    ret::minus_one(unsafe { context::real(context).map(|open| *found = open) })
}
hidden!(real_context => "ferroverbs_real_context");

/// Turns an event of today into one of 1.0.
///
/// # Safety
/// The event was just got, and its object was made by 1.0.
unsafe extern "C" fn old_async_event(event: *mut ibv_async_event) {
    // SAFETY: vouched for by the caller: so the object's context is the wrapper. Objects exist
    // until the event is acknowledged.
    unsafe {
        let element = &mut (*event).element;
        match events::subject((*event).event_type) {
            Subject::Cq => element.cq = (*element.cq).cq_context.cast(),
            Subject::Qp => element.qp = (*element.qp).qp_context.cast(),
            Subject::Srq => element.srq = (*element.srq).srq_context.cast(),
            Subject::Wq | Subject::Port => {}
        }
    }
}
hidden!(old_async_event => "ferroverbs_old_async_event");

/// The event as it is of today's objects.
///
/// # Safety
/// The event is one of 1.0 whose object is live.
unsafe fn of_today(event: &ibv_async_event) -> Result<ibv_async_event> {
    // SAFETY: vouched for by the caller; the type determines the valid member.
    let element = unsafe {
        match events::subject(event.event_type) {
            Subject::Cq => ibv_async_event_element {
                cq: real::<ibv_cq_1_0>(event.element.cq.cast())?,
            },
            Subject::Qp => ibv_async_event_element {
                qp: real::<ibv_qp_1_0>(event.element.qp.cast())?,
            },
            Subject::Srq => ibv_async_event_element {
                srq: real::<ibv_srq_1_0>(event.element.srq.cast())?,
            },
            Subject::Wq | Subject::Port => event.element,
        }
    };
    Ok(ibv_async_event { element, ..*event })
}

unsafe extern "C" fn ack_async_event(event: *mut ibv_async_event) {
    // SAFETY: the caller passes an event that it got, or NULL.
    unsafe {
        let Some(event) = event.as_ref() else { return };
        if let Ok(mut event) = of_today(event) {
            today::ack_async_event(&raw mut event);
        }
    }
}
symver!(old ack_async_event => "ibv_ack_async_event", "IBVERBS_1.0");
