#![forbid(unsafe_code)]
//! Prepares events for the program: fills in addresses and paths, opens devices, moves queue pairs.
//! Some events are swallowed; they count as acknowledged.

use crate::abi::{Channel, EventBlock, Given, Param, event_type, rdma_cm_event};
use crate::backend::{Ece, Paths, Record};
use crate::id::{Id, Join};
use crate::registry::{self, Event};
use crate::verbs::Deferred;
use crate::{destroy, migrate, observe, path, transition, verbs};
use bytemuck::Zeroable;
use core::ptr::null_mut;
use kit::abi::{IBV_QPS_ERR, ibv_ece};
use kit::errno::{Errno, Result};
use kit::sys::errno;
use std::sync::Arc;

/// Turns the record of a block into an event of the program; none for an event that is swallowed.
#[inline(always)]
pub fn take(channel: Channel, block: EventBlock, thread: &Deferred) -> Option<*mut rdma_cm_event> {
    let record = block.record();
    let event = match registry::find(record.uid) {
        Some(id) if record.event != event_type::CONNECT_REQUEST => of_id(id, block, thread),
        listener => of_another(channel, listener, block, thread),
    };
    event.map(registry::add_event)
}

/// An event of a listener, a join, or an id that is found by other ways.
#[inline(never)]
fn of_another(
    channel: Channel,
    listener: Option<Arc<Id>>,
    block: EventBlock,
    thread: &Deferred,
) -> Option<Event> {
    if let Some(listener) = listener {
        return of_request(&listener, block);
    }
    match registry::find_join(block.record().uid) {
        Some(join) => Some(of_join(&join, block)),
        None => of_accepted(channel, block, thread),
    }
}

/// An event of an accepted id whose `uid` the backend does not know yet (before Linux 5.11): the
/// record has the backend's number alone.
#[cold]
fn of_accepted(channel: Channel, block: EventBlock, thread: &Deferred) -> Option<Event> {
    let number = |id: &Arc<Id>| id.backend().map(|backend| backend.number());
    let mut ids = registry::of_channel(channel).into_iter();
    let id = ids.find(|id| number(id) == Ok(block.record().id))?;
    if block.record().event == event_type::ESTABLISHED {
        return of_id(id, block, thread);
    }
    id.acknowledged.add();
    None
}

#[inline(always)]
fn of_id(id: Arc<Id>, mut block: EventBlock, thread: &Deferred) -> Option<Event> {
    let record = block.record();
    let outcome = match record.event {
        event_type::ESTABLISHED => (record.event, record.status),
        event_type::DISCONNECTED if !id.has_connect_error() => (record.event, record.status),
        event_type::ADDR_RESOLVED => match id.refresh() {
            Ok(()) => (record.event, record.status),
            Err(e) => failed(e, event_type::ADDR_ERROR),
        },
        _ => outcome(&id, record, thread)?,
    };
    observe::taken(&id, outcome.0, outcome.1);
    let param = parameters(&id, record);
    block.fill(id.block.as_ptr(), null_mut(), outcome, &param);
    Some(Event {
        block,
        counts_for: id,
        join: None,
    })
}

/// What the program is given for an event whose work failed.
#[cold]
fn failed(e: Errno, event: u32) -> (u32, i32) {
    errno::set(e);
    (event, -1)
}

/// Does the work that an event requires. Returns type and status for the program; none if the event
/// is swallowed.
#[inline(never)]
fn outcome(id: &Arc<Id>, record: &Record, thread: &Deferred) -> Option<(u32, i32)> {
    let mut outcome = (record.event, record.status);
    match record.event {
        event_type::ROUTE_RESOLVED => {
            if let Err(e) = take_paths(id) {
                outcome = failed(e, event_type::ROUTE_ERROR);
            }
        }
        event_type::CONNECT_RESPONSE => {
            id.state.lock().remote_ece = record.ece;
            match answer(id, record.ece, thread) {
                Ok(false) => {}
                Ok(true) => outcome.0 = event_type::ESTABLISHED,
                Err(e) => {
                    id.set_connect_error();
                    // The event reports the failure; the queue pair may already be in that state.
                    let _ = transition::to(id, IBV_QPS_ERR, thread);
                    outcome = failed(e, event_type::CONNECT_ERROR);
                }
            }
        }
        event_type::REJECTED | event_type::DISCONNECTED if id.has_connect_error() => {
            id.acknowledged.add();
            return None;
        }
        // The library has reported the end of a lookup to itself.
        event_type::INTERNAL if record.status == 0 => outcome.0 = event_type::ADDRINFO_RESOLVED,
        event_type::INTERNAL => outcome.0 = event_type::ADDRINFO_ERROR,
        event_type::REJECTED => {
            let _ = transition::to(id, IBV_QPS_ERR, thread);
        }
        _ => {}
    }
    Some(outcome)
}

fn take_paths(id: &Id) -> Result<()> {
    let mut found = Paths::zeroed();
    id.backend()?.paths(&mut found)?;
    id.block.set_paths(path::records(&found))
}

/// Moves the queue pair and answers the peer's reply. False if the program manages the queue pair.
fn answer(id: &Id, ece: Ece, thread: &Deferred) -> Result<bool> {
    let Some(qp) = id.qp() else {
        return Ok(false);
    };
    if ece.vendor_id != 0 {
        qp.set_ece(ibv_ece {
            vendor_id: ece.vendor_id,
            options: ece.attr_mod,
            comp_mask: 0,
        })?;
    }
    // The negotiated depths apply.
    let most = crate::abi::MAX_DEPTH;
    transition::to_rts(id, qp, most, most, thread)?;
    id.backend()?.accept(id.uid(), None, Ece::default())?;
    Ok(true)
}

/// The parameters of an event.
#[inline(always)]
fn parameters(id: &Id, record: &Record) -> Param {
    let is_conn = !matches!(record.event, event_type::USER | event_type::INTERNAL);
    if is_conn && !id.is_datagram() {
        return Param::Conn;
    }
    other_parameters(record)
}

#[inline(never)]
fn other_parameters(record: &Record) -> Param {
    match record.event {
        event_type::USER => Param::Arg(record.arg()),
        event_type::INTERNAL => Param::Arg(0),
        _ => Param::Ud {
            ah_attr: verbs::ah_attr(&record.ud().ah_attr),
        },
    }
}

/// A request makes an id. If that fails, the request is rejected and the event swallowed.
fn of_request(listener: &Arc<Id>, mut block: EventBlock) -> Option<Event> {
    let record = block.record();
    let Ok(id) = requested(listener, record) else {
        listener.acknowledged.add();
        return None;
    };
    let outcome = (record.event, record.status);
    let (own, listening) = (id.block.as_ptr(), listener.block.as_ptr());
    observe::taken(&id, outcome.0, outcome.1);
    let param = parameters(&id, record);
    block.fill(own, listening, outcome, &param);
    Some(Event {
        block,
        counts_for: listener.clone(),
        join: None,
    })
}

fn requested(listener: &Id, record: &Record) -> Result<Arc<Id>> {
    let manager = listener.of_request(record.id)?;
    let block = &listener.block;
    let mut id = Arc::new(Id::new(
        block.channel(),
        block.context(),
        block.ps(),
        block.qp_type(),
    ));
    id.set_backend(manager);
    registry::add_id(&id)?;
    let prepared = prepare(listener, &id, record);
    if let Err(e) = prepared {
        let _ = destroy::id(&id);
        return Err(e);
    }
    Ok(id)
}

fn prepare(listener: &Id, id: &Arc<Id>, record: &Record) -> Result<()> {
    if listener.is_sync() {
        migrate::migrate(id, None)?;
    }
    id.refresh()?;
    let backend = id.backend()?;
    // A datagram service has no route.
    let mut found = Paths::zeroed();
    if backend.paths(&mut found).is_ok() {
        id.block.set_paths(path::records(&found))?;
    }
    let conn = record.conn();
    let mut state = id.state.lock();
    state.remote_ece = record.ece;
    if !id.is_datagram() {
        state.responder_resources = conn.responder_resources;
        state.initiator_depth = conn.initiator_depth;
    }
    Ok(())
}

/// Membership in a group, or its end.
fn of_join(join: &Arc<Join>, mut block: EventBlock) -> Event {
    let (record, ud) = (block.record(), block.record().ud());
    let mut outcome = (record.event, record.status);
    if record.event == event_type::MULTICAST_JOIN
        && record.status == 0
        && !join.is_send_only
        && let Some(qp) = join.id.qp()
    {
        let (gid, lid) = (ud.ah_attr.grh.dgid, ud.ah_attr.dlid);
        match qp.attach(gid, lid) {
            Ok(()) => *join.attached.lock() = Some((gid, lid)),
            Err(e) => {
                errno::set(e);
                outcome = (event_type::MULTICAST_ERROR, -1);
            }
        }
    }
    observe::join(join, outcome.0, outcome.1);
    let Given(context) = join.context;
    let param = Param::Join {
        context,
        ah_attr: verbs::ah_attr(&ud.ah_attr),
    };
    block.fill(join.id.block.as_ptr(), null_mut(), outcome, &param);
    Event {
        block,
        counts_for: join.id.clone(),
        join: Some(join.clone()),
    }
}
