//! Asynchronous events: ibv_get_async_event(3) of 1.0.

use super::{context, layout::*, real, ret};
use crate::core::events::{self, Subject};
use crate::export::event as today;
use crate::symver;
use kit::abi::{ibv_async_event, ibv_async_event_element};
use kit::errno::Result;
use std::ffi::c_int;

unsafe extern "C" fn get_async_event(
    context: *mut ibv_context_1_0,
    event: *mut ibv_async_event,
) -> c_int {
    // SAFETY: the caller passes an open context and room for the event, or NULL. Objects of the
    // context were made by 1.0, so what is theirs is the wrapper; they stay until the event is
    // acknowledged.
    unsafe {
        let open = match context::real(context) {
            Ok(open) => open,
            Err(e) => return ret::minus_one(Err(e)),
        };
        let answer = today::get_async_event(open, event);
        if answer == 0 {
            let element = &mut (*event).element;
            match events::subject((*event).event_type) {
                Subject::Cq => element.cq = (*element.cq).cq_context.cast(),
                Subject::Qp => element.qp = (*element.qp).qp_context.cast(),
                Subject::Srq => element.srq = (*element.srq).srq_context.cast(),
                Subject::Wq | Subject::Port => {}
            }
        }
        answer
    }
}
symver!(old get_async_event => "ibv_get_async_event", "IBVERBS_1.0");

/// The event as it is of today's objects.
///
/// # Safety
/// The event is one of 1.0 whose object is live.
unsafe fn of_today(event: &ibv_async_event) -> Result<ibv_async_event> {
    // SAFETY: vouched for by the caller; the type tells which member is the valid one.
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
