#![forbid(unsafe_code)]
//! Endpoints: rdma_create_ep(3), rdma_get_request(3).

use crate::abi::{Given, Hints, event_type};
use crate::id::{Id, Template};
use crate::queue_pair;
use crate::sync::{self, Outcome, Step};
use crate::{address, destroy, registry};
use core::ptr::null_mut;
use kit::abi::{IBV_QP_INIT_ATTR_PD, ibv_pd, ibv_qp_init_attr, ibv_qp_init_attr_ex};
use kit::errno::{Errno, Result};
use std::sync::Arc;

/// Time limit of address and route resolution, in milliseconds.
const PATIENCE: i32 = 2000;

pub const RAI_PASSIVE: i32 = 1;
/// `RDMA_OPTION_IB`, `RDMA_OPTION_IB_PATH`
const IB_PATH: (i32, i32) = (1, 1);

/// The attributes, with the extended ones that `ibv_qp_init_attr` lacks.
pub fn extended(attr: &ibv_qp_init_attr, pd: *mut ibv_pd) -> ibv_qp_init_attr_ex {
    ibv_qp_init_attr_ex {
        qp_context: attr.qp_context,
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: attr.srq,
        cap: attr.cap,
        qp_type: attr.qp_type,
        sq_sig_all: attr.sq_sig_all,
        comp_mask: if pd.is_null() { 0 } else { IBV_QP_INIT_ATTR_PD },
        pd,
        xrcd: null_mut(),
        create_flags: 0,
        max_tso_header: 0,
        rwq_ind_tbl: null_mut(),
        rx_hash_conf: kit::abi::ibv_rx_hash_conf {
            rx_hash_function: 0,
            rx_hash_key_len: 0,
            rx_hash_key: null_mut(),
            rx_hash_fields_mask: 0,
        },
        source_qpn: 0,
        send_ops_flags: 0,
    }
}

/// Writes the chosen values back.
pub fn write_back(attr: &mut ibv_qp_init_attr, taken: &ibv_qp_init_attr_ex) {
    attr.send_cq = taken.send_cq;
    attr.recv_cq = taken.recv_cq;
    attr.srq = taken.srq;
    attr.cap = taken.cap;
}

/// An id that is destroyed unless it is finished.
struct Unfinished(Option<Arc<Id>>);

impl Unfinished {
    fn keep(&mut self) {
        self.0 = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(id) = self.0.take() {
            destroy(&id);
        }
    }
}

/// A synchronous id: bound, or with a route and a queue pair. `finish` receives it.
///
/// # Errors
/// Those of each step.
pub fn create<'a>(
    wanted: Hints,
    pd: *mut ibv_pd,
    attr: Option<&'a mut ibv_qp_init_attr>,
    finish: impl FnOnce(&Id) + 'a,
) -> Result<Step<'a>> {
    let space = wanted.port_space.cast_unsigned();
    let qp_type = wanted.qp_type.cast_unsigned();
    let id = address::create(None, null_mut(), space, qp_type)?;
    let uid = id.uid();
    let mut made = Unfinished(Some(id.clone()));
    let finish = move |id: Arc<Id>| {
        made.keep();
        finish(&id);
    };
    if wanted.flags & RAI_PASSIVE != 0 {
        passive(&id, &wanted, pd, attr)?;
        finish(id);
        return Ok(Step::Done(uid));
    }
    active(id, wanted, pd, attr, finish)
}

fn passive(
    id: &Id,
    wanted: &Hints,
    pd: *mut ibv_pd,
    attr: Option<&mut ibv_qp_init_attr>,
) -> Result<()> {
    let source = wanted.source.as_ref().ok_or(Errno::INVAL)?;
    address::bind(id, source)?;
    if let Some(attr) = attr {
        id.state.lock().make_rare().template = Some(Template {
            pd: Given(pd),
            attr: Given(ibv_qp_init_attr {
                qp_type: wanted.qp_type.cast_unsigned(),
                ..*attr
            }),
        });
    }
    Ok(())
}

fn active<'a>(
    id: Arc<Id>,
    wanted: Hints,
    pd: *mut ibv_pd,
    attr: Option<&'a mut ibv_qp_init_attr>,
    finish: impl FnOnce(Arc<Id>) + 'a,
) -> Result<Step<'a>> {
    let destination = wanted.destination.as_ref().ok_or(Errno::INVAL)?;
    address::resolve_addr(&id, wanted.source.as_ref(), destination, PATIENCE)?;
    let of_call = id.clone();
    Ok(sync::wait(&id, move |address| {
        sync::error_of(address)?;
        if wanted.route.is_empty() {
            address::resolve_route(&of_call, PATIENCE)?;
        } else {
            address::set_option(&of_call, IB_PATH.0, IB_PATH.1, &wanted.route)?;
        }
        let id = of_call.clone();
        Ok(sync::wait(&of_call, move |route| {
            sync::error_of(route)?;
            if let Some(attr) = attr {
                attr.qp_type = wanted.qp_type.cast_unsigned();
                let mut taken = extended(attr, pd);
                queue_pair::create(&id, &mut taken)?;
                write_back(attr, &taken);
            }
            if !wanted.connect.is_empty() {
                id.state.lock().make_rare().connect = wanted.connect;
            }
            let uid = id.uid();
            finish(id);
            Ok(Step::Done(uid))
        }))
    }))
}

/// Ends an id with all objects that the library made for it.
pub fn destroy(id: &Arc<Id>) {
    queue_pair::destroy(id);
    queue_pair::destroy_srq(id);
    // The function has no result to report an error by.
    let _ = destroy::id(id);
}

/// Waits for a request of a synchronous listener. `finish` receives the request's id.
///
/// # Errors
/// EINVAL for an id that does not listen, and for another event; the event's status; those of
/// making the queue pair.
pub fn get_request<'a>(listener: &Arc<Id>, finish: impl FnOnce(&Id) + 'a) -> Result<Step<'a>> {
    if !listener.is_sync() {
        return Err(Errno::INVAL);
    }
    let of_call = listener.clone();
    Ok(sync::wait(listener, move |outcome| {
        finish(&*requested(&of_call, outcome)?);
        Ok(Step::Done(0))
    }))
}

/// The id of the request that the listener's event is.
fn requested(listener: &Id, outcome: Outcome) -> Result<Arc<Id>> {
    match outcome {
        (event_type::REJECTED, _) => return Err(Errno(libc::ECONNREFUSED)),
        (event_type::CONNECT_REQUEST, 0) => {}
        (_, 0) => return Err(Errno::INVAL),
        (_, status) => return Err(Errno(status.saturating_abs())),
    }
    let request = listener.block.event();
    let id = registry::id(registry::subject_of(request.addr())?)?;
    let template = listener.state.lock().rare().and_then(|rare| rare.template);
    if let Some(Template { pd, attr }) = template {
        let mut attr = extended(&attr.0, pd.0);
        if let Err(e) = queue_pair::create(&id, &mut attr) {
            // The request is rejected; the listener keeps its event.
            destroy(&id);
            return Err(e);
        }
    }
    // The new id keeps the event, because the program reads the private data there.
    id.block.set_event(request);
    listener.block.set_event(null_mut());
    Ok(id)
}
