#![forbid(unsafe_code)]
//! What an event reports: a failure, or which device an address led to.

use super::{call, explain, explains, kept_errno, reject, shown};
use crate::abi::{event_name, event_type};
use crate::id::{Id, Join};
use kit::errno::{Errno, named};
use kit::sys::errno;
use std::sync::Arc;

/// The program is about to get an event of an id.
#[inline]
pub fn taken(id: &Arc<Id>, event: u32, status: i32) {
    id.set_last_event(event);
    if explains() {
        explain_taken(id, event, status);
    }
}

#[cold]
#[inline(never)]
fn explain_taken(id: &Arc<Id>, event: u32, status: i32) {
    // Of a status of -1 the library has set errno.
    let left = errno::get();
    kept_errno(|| {
        if let Some(text) = text(id, event, status, left) {
            explain(&text);
        }
    });
}

/// The same, of a multicast group.
pub fn join(join: &Join, event: u32, status: i32) {
    if !explains() || event != event_type::MULTICAST_ERROR {
        return;
    }
    let left = errno::get();
    kept_errno(|| {
        let why = match status {
            -1 => format!(
                "The queue pair could not be attached to the group: {}.",
                named(left)
            ),
            status => format!("The group could not be joined: {}.", named(code(status))),
        };
        let event = report(&join.id, event, status);
        explain(&format!("{event}. {why}"));
    });
}

fn code(status: i32) -> Errno {
    Errno(status.saturating_abs())
}

fn report(id: &Arc<Id>, event: u32, status: i32) -> String {
    let name = event_name(event).map_or("?".into(), |name| name.to_string_lossy());
    let id = shown(id);
    match status {
        ..0 => format!(
            "{id} reports {name}, status {status} ({})",
            named(code(status))
        ),
        status => format!("{id} reports {name}, status {status}"),
    }
}

fn text(id: &Arc<Id>, event: u32, status: i32, left: Errno) -> Option<String> {
    if event == event_type::ADDR_RESOLVED && status == 0 {
        return Some(device_of(id));
    }
    let why = match event {
        event_type::REJECTED => rejected(status),
        event_type::ADDR_ERROR if status == -1 => format!(
            "The device that the address led to could not be opened: {}.",
            named(left)
        ),
        event_type::ADDR_ERROR => call::of_address(id, code(status)),
        event_type::ROUTE_ERROR => "The connection manager found no path to the destination: on \
                                    InfiniBand the subnet manager has to answer, within timeout_ms \
                                    of rdma_resolve_route."
            .to_owned(),
        event_type::CONNECT_ERROR if status == -1 => format!(
            "The peer accepted, and the queue pair could not be moved to RTS: {}. ibv_modify_qp \
             says why if IBVERBS_EXPLAIN was set when the device was opened.",
            named(left)
        ),
        event_type::CONNECT_ERROR => "The connection could not be made.".to_owned(),
        event_type::UNREACHABLE => unreachable(id, status),
        event_type::DEVICE_REMOVAL => "The device is gone: destroy the id and everything that was \
                                       made with it."
            .to_owned(),
        event_type::DISCONNECTED if status != 0 => {
            "The peer did not answer that the connection ends: it was killed, or is not reachable \
             any more."
                .to_owned()
        }
        event_type::ADDRINFO_ERROR => "The name or service was not found.".to_owned(),
        _ => return None,
    };
    Some(format!("{}. {why}", report(id, event, status)))
}

/// The answer of an address that was resolved.
fn device_of(id: &Arc<Id>) -> String {
    let port = id.block.port_num();
    format!(
        "{} reports RDMA_CM_EVENT_ADDR_RESOLVED: the address led to this device, port {port}",
        shown(id)
    )
}

fn rejected(status: i32) -> String {
    match status {
        // iWARP has no reasons.
        ..0 => "The peer refused the connection: no process listens there, or its program called \
                rdma_reject."
            .to_owned(),
        status => format!(
            "Reason {status}, {}. {}",
            reject::meaning(status),
            reject::cause(status)
        ),
    }
}

fn unreachable(id: &Arc<Id>, status: i32) -> String {
    if status > 0 && id.is_datagram() {
        let meaning = match status {
            1 => "the service id is not supported: no process listens at that port",
            2 => "the service provider rejected: its program called rdma_reject",
            3 => "no queue pair available",
            4 => "redirected",
            5 => "the version is not supported",
            _ => "a status that the specification does not name",
        };
        return format!("Status {status} of the answer, {meaning}.");
    }
    "The peer's connection manager answered none of the requests: no device at that address, no \
     connection manager there (a host that has an RDMA device in user space alone answers while a \
     process has the device open), or UDP port 4791 is filtered on the way."
        .to_owned()
}
