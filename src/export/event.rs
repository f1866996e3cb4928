//! Asynchronous events: ibv_get_async_event(3).

use super::{observe, ret};
use crate::{
    core::events::{self, Subject},
    symver,
};
use kit::{
    abi::{
        handle::{Cq, Ctx, Qp, Srq, Wq},
        *,
    },
    errno::Result,
};
use std::{ffi::c_int, ptr};

pub(super) unsafe extern "C" fn get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    // SAFETY: the caller passes an open context and room for the event, or NULL.
    let got = unsafe {
        ret::not_null(event)
            .and_then(|_| Ctx::from_raw(context))
            .and_then(|ctx| {
                *event = next(ctx)?;
                (ctx.table().async_event())(context, event);
                observe::event(ctx, &*event);
                Ok(())
            })
    };
    ret::minus_one(got)
}
symver!(get_async_event => "ibv_get_async_event", "IBVERBS_1.1");

fn next(ctx: Ctx<'_>) -> Result<ibv_async_event> {
    let (event_type, number) = events::next_async(ctx.async_fd()?)?;
    let object = ptr::with_exposed_provenance_mut::<u8>(events::element(number)?);
    let element = match events::subject(event_type) {
        Subject::Cq => ibv_async_event_element { cq: object.cast() },
        Subject::Qp => ibv_async_event_element { qp: object.cast() },
        Subject::Srq => ibv_async_event_element { srq: object.cast() },
        Subject::Wq => ibv_async_event_element { wq: object.cast() },
        // Port numbers are small; the kernel's field is wider.
        Subject::Port => ibv_async_event_element {
            port_num: c_int::try_from(number).unwrap_or(-1),
        },
    };
    Ok(ibv_async_event {
        element,
        event_type,
    })
}

pub(super) unsafe extern "C" fn ack_async_event(event: *mut ibv_async_event) {
    // SAFETY: the caller passes an event that it got, whose object is live, or NULL; the type
    // tells which member of the union is the valid one.
    unsafe {
        let Some(event) = event.as_ref() else { return };
        match events::subject(event.event_type) {
            Subject::Cq => Cq::from_raw(event.element.cq).map_or((), Cq::ack_async),
            Subject::Qp => Qp::from_raw(event.element.qp).map_or((), Qp::ack_async),
            Subject::Srq => Srq::from_raw(event.element.srq).map_or((), Srq::ack_async),
            Subject::Wq => Wq::from_raw(event.element.wq).map_or((), Wq::ack_async),
            Subject::Port => {}
        }
    }
}
symver!(ack_async_event => "ibv_ack_async_event", "IBVERBS_1.1");
