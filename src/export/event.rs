//! Asynchronous events: ibv_get_async_event(3).

use super::{observe, ret};
use crate::{
    core::events::{self, Record, Subject, kept},
    hidden, symver,
};
use kit::{
    abi::{
        handle::{Cq, Ctx, Qp, Srq, Wq},
        *,
    },
    errno::Result,
};
use std::{ffi::c_int, os::fd::AsRawFd, ptr};

/// Result of a function that `cancel.c` calls first, if it has written the record itself.
pub(super) const HAVE_RECORD: c_int = -2;

/// The descriptor from which `cancel.c` reads the context's next record; or the record, if one was
/// kept.
///
/// # Safety
/// As for ibv_get_async_event(3); there is room for the record.
unsafe extern "C" fn async_event_begin(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
    record: *mut Record,
) -> c_int {
    // SAFETY: the caller passes an open context and room for the event, or NULL. A record is kept
    // only while its object is live.
    unsafe {
        let arguments = ret::not_null(event).and_then(|_| Ctx::from_raw(context));
        ret::count(arguments.and_then(|ctx| {
            let Some(kept) = kept::take(context.addr()) else {
                return Ok(ctx.async_fd()?.as_raw_fd());
            };
            // It was counted as acknowledged when it was kept.
            acknowledge(&event_of(kept)?, 1u32.wrapping_neg());
            record.write(kept);
            Ok(HAVE_RECORD)
        }))
    }
}
hidden!(async_event_begin => "ferroverbs_async_event_begin");

/// The event of a record that was read.
///
/// # Safety
/// `async_event_begin` accepted the arguments, and the record is one of the context.
unsafe extern "C" fn async_event_end(
    context: *mut ibv_context,
    record: *const Record,
    event: *mut ibv_async_event,
) -> c_int {
    // SAFETY: vouched for by the caller.
    ret::minus_one(unsafe {
        Ctx::from_raw(context).and_then(|ctx| {
            *event = event_of(record.read())?;
            (ctx.table().async_event())(context, event);
            observe::event(ctx, &*event);
            Ok(())
        })
    })
}
hidden!(async_event_end => "ferroverbs_async_event_end");

/// Keeps the record of a cancelled reader for the next call. Until then it counts as acknowledged,
/// so that its object can be destroyed.
///
/// # Safety
/// The context is open, and the record is one of it.
unsafe extern "C" fn async_event_keep(context: *mut ibv_context, record: *const Record) {
    // SAFETY: vouched for by the caller.
    unsafe {
        let record = record.read();
        let Ok(event) = event_of(record) else { return };
        acknowledge(&event, 1);
        let (_, number) = events::asynchronous(record);
        let object = events::element(number).unwrap_or(0);
        // Without memory the event is lost.
        let _ = kept::keep(context.addr(), object, record);
    }
}
hidden!(async_event_keep => "ferroverbs_async_event_keep");

fn event_of(record: Record) -> Result<ibv_async_event> {
    let (event_type, number) = events::asynchronous(record);
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
    // SAFETY: the caller passes an event that it received, whose object is live, or NULL.
    unsafe {
        if let Some(event) = event.as_ref() {
            acknowledge(event, 1);
        }
    }
}
symver!(ack_async_event => "ibv_ack_async_event", "IBVERBS_1.1");

/// Counts the acknowledgement of the event's object, if it has one.
///
/// # Safety
/// The object of the event is live.
unsafe fn acknowledge(event: &ibv_async_event, times: u32) {
    // SAFETY: vouched for by the caller; the type determines the valid member of the union.
    unsafe {
        match events::subject(event.event_type) {
            Subject::Cq => Cq::from_raw(event.element.cq).map_or((), |cq| cq.ack_async(times)),
            Subject::Qp => Qp::from_raw(event.element.qp).map_or((), |qp| qp.ack_async(times)),
            Subject::Srq => Srq::from_raw(event.element.srq).map_or((), |srq| srq.ack_async(times)),
            Subject::Wq => Wq::from_raw(event.element.wq).map_or((), |wq| wq.ack_async(times)),
            Subject::Port => {}
        }
    }
}
