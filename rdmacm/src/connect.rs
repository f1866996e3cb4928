#![forbid(unsafe_code)]
//! Making and ending connections.

use crate::abi::{Conn, MAX_DEPTH, port_space};
use crate::device::Capabilities;
use crate::id::Id;
use crate::verbs::Deferred;
use crate::{ack, transition};
use kit::abi::{IBV_QPS_ERR, IBV_QPS_SQD};
use kit::errno::{Errno, Result};

/// Retry count of a connection without parameters.
const RETRIES: u8 = 7;

/// Parameters of a program, and its private data.
pub type Given<'a> = (Conn, &'a [u8]);

/// Whether the parameters are valid for an id of a device.
fn check(id: &Id, given: Option<&Given<'_>>, device: Option<&Capabilities>) -> Result<()> {
    if id.block.ps() != port_space::RDMA_PS_TCP {
        return Ok(());
    }
    let Some((conn, _)) = given else {
        return id.qp().map(|_| ()).ok_or(Errno::INVAL);
    };
    let exceeds = |wanted: u8, most: u8| wanted != MAX_DEPTH && wanted > most;
    match device {
        Some(device)
            if exceeds(conn.responder_resources, device.max_responder_resources)
                || exceeds(conn.initiator_depth, device.max_initiator_depth) =>
        {
            Err(Errno::INVAL)
        }
        _ => Ok(()),
    }
}

/// Parameters that follow from the id's queue pair.
fn of_queue_pair(id: &Id, mut conn: Conn) -> Conn {
    if let Some(qp) = id.qp() {
        conn.qp_num = qp.number();
        conn.srq = qp.has_srq().into();
    }
    conn
}

fn most(device: Option<&Capabilities>) -> (u8, u8) {
    device.map_or((MAX_DEPTH, MAX_DEPTH), |device| {
        (device.max_responder_resources, device.max_initiator_depth)
    })
}

/// 255 means the device's maximum.
fn or_most(wanted: u8, most: u8) -> u8 {
    if wanted == MAX_DEPTH { most } else { wanted }
}

/// Default parameters of a call.
fn defaults(flow_control: u8) -> Given<'static> {
    let conn = Conn {
        responder_resources: MAX_DEPTH,
        initiator_depth: MAX_DEPTH,
        flow_control,
        retry_count: RETRIES,
        rnr_retry_count: RETRIES,
        ..Conn::default()
    };
    (conn, &[])
}

/// Requests a connection; an event answers.
///
/// # Errors
/// EINVAL for an id of RDMA_PS_TCP with neither queue pair nor parameters, and for depths that the
/// device does not have; the backend's.
#[inline(always)]
pub fn connect(id: &Id, given: Option<Given<'_>>) -> Result<()> {
    let backend = id.backend()?;
    let device = id.capabilities();
    check(id, given.as_ref(), device.as_ref())?;
    let (most_resources, most_depth) = most(device.as_ref());
    let (mut conn, data) = given.unwrap_or_else(|| defaults(1));
    conn.responder_resources = or_most(conn.responder_resources, most_resources);
    conn.initiator_depth = or_most(conn.initiator_depth, most_depth);
    let mut state = id.state.lock();
    state.responder_resources = conn.responder_resources;
    state.initiator_depth = conn.initiator_depth;
    let before = state.rare().map(|rare| std::mem::take(&mut rare.connect));
    let ece = state.local_ece;
    drop(state);
    let conn = of_queue_pair(id, conn);
    match before {
        None => backend.connect(&conn, [&[], data], ece),
        Some(before) => backend.connect(&conn, [&before, data], ece),
    }
}

/// Accepts a request. The queue pair is moved to RTS first. An event reports the connection, unless
/// the id is one of datagrams.
///
/// # Errors
/// As [`connect`]; those of ibv_modify_qp(3).
pub fn accept(id: &Id, given: Option<Given<'_>>, thread: &Deferred) -> Result<()> {
    let device = id.capabilities();
    check(id, given.as_ref(), device.as_ref())?;
    let backend = id.backend()?;
    let (most_resources, most_depth) = most(device.as_ref());
    let (mut conn, data) = given.unwrap_or_else(|| defaults(0));
    let ece = {
        let mut state = id.state.lock();
        // The depths of the peer's request, limited to those of the device.
        let resources = state.responder_resources.min(most_resources);
        let depth = state.initiator_depth.min(most_depth);
        conn.responder_resources = or_most(conn.responder_resources, resources);
        conn.initiator_depth = or_most(conn.initiator_depth, depth);
        state.responder_resources = conn.responder_resources;
        state.initiator_depth = conn.initiator_depth;
        state.local_ece
    };
    if let Some(qp) = id.qp()
        && !id.is_datagram()
    {
        transition::to_rts(
            id,
            qp,
            conn.responder_resources,
            conn.initiator_depth,
            thread,
        )?;
    }
    let conn = of_queue_pair(id, conn);
    let accepted = backend.accept(id.uid(), Some((&conn, data)), ece);
    accepted.inspect_err(|_| {
        let _ = transition::to(id, IBV_QPS_ERR, thread);
    })?;
    if id.is_datagram() && id.is_sync() {
        ack::release(id);
    }
    Ok(())
}

/// Answers a response to a request whose queue pair the program manages.
///
/// # Errors
/// EINVAL if the id has a queue pair; the backend's.
pub fn establish(id: &Id) -> Result<()> {
    if id.qp().is_some() {
        return Err(Errno::INVAL);
    }
    id.backend()?
        .accept(id.uid(), None, crate::backend::Ece::default())
}

/// # Errors
/// The backend's.
pub fn reject(id: &Id, reason: u8, data: &[u8]) -> Result<()> {
    id.backend()?.reject(reason, data)
}

/// Ends a connection: the queue pair goes to ERR at once, on iWARP to SQD. An event follows.
///
/// # Errors
/// EINVAL for an id without device or connection.
pub fn disconnect(id: &Id, thread: &Deferred) -> Result<()> {
    let device = id.capabilities().ok_or(Errno::INVAL)?;
    let state = if device.is_iwarp {
        IBV_QPS_SQD
    } else {
        IBV_QPS_ERR
    };
    if let Some(qp) = id.qp() {
        transition::to_state(qp, state, thread)?;
    }
    id.backend()?.disconnect()
}
