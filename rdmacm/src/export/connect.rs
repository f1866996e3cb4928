//! Connections, requests, ECE.

use super::{id::room, ret, step};
use crate::abi::{Conn, rdma_cm_id, rdma_conn_param};
use crate::backend::Ece;
use crate::connect::{self, Given};
use crate::id::Id;
use crate::observe::About;
use crate::sync::{self, Step};
use crate::verbs::Deferred;
use crate::{endpoint, symver};
use core::ffi::{c_int, c_void};
use kit::abi::ibv_ece;
use kit::cm::Call;
use kit::errno::{Errno, Result};

/// The reason of a REJ from the consumer, and the reason for an unknown vendor option.
const CONSUMER: u8 = 0;
const VENDOR_OPTION: u8 = 35;

/// # Safety
/// The pointer is NULL or that of as many bytes, which stay as they are during the call.
unsafe fn private_data<'a>(data: *const c_void, length: u8) -> &'a [u8] {
    if data.is_null() || length == 0 {
        return &[];
    }
    // SAFETY: vouched for by the caller.
    unsafe { core::slice::from_raw_parts(data.cast::<u8>(), length.into()) }
}

/// # Safety
/// The pointer is NULL or that of whole parameters, which stay as they are during the call.
unsafe fn parameters<'a>(param: *const rdma_conn_param) -> Option<Given<'a>> {
    // SAFETY: vouched for by the caller.
    let param = unsafe { param.as_ref() }?;
    // SAFETY: `private_data_len` is the length of the buffer at `private_data`.
    let data = unsafe { private_data(param.private_data, param.private_data_len) };
    Some((Conn::from(param), data))
}

/// Parameters as they are recorded.
fn recorded(given: Option<&Given<'_>>) -> [u64; 4] {
    given.map_or([0; 4], |(conn, data)| {
        let (resources, depth) = (conn.responder_resources, conn.initiator_depth);
        [
            conn.qp_num.into(),
            resources.into(),
            depth.into(),
            data.len() as u64,
        ]
    })
}

fn depths(given: Option<&Given<'_>>) -> About {
    About::Depths(given.map(|(conn, _)| (conn.responder_resources, conn.initiator_depth)))
}

unsafe extern "C" fn connect(
    id: *mut rdma_cm_id,
    param: *mut rdma_conn_param,
    waiting: *mut step::Waiting,
) -> c_int {
    // SAFETY: the program passes whole parameters, or NULL.
    let given = unsafe { parameters(param) };
    let looked_at = || (recorded(given.as_ref()), depths(given.as_ref()));
    let started = step::started(Call::Connect, id, looked_at);
    started.run(waiting, |id| {
        connect::connect(id, given)?;
        Ok(sync::complete(id))
    })
}
crate::hidden!(connect => "ferroverbs_cm_connect");

unsafe extern "C" fn accept(
    id: *mut rdma_cm_id,
    param: *mut rdma_conn_param,
    waiting: *mut step::Waiting,
) -> c_int {
    // SAFETY: the program passes whole parameters, or NULL.
    let given = unsafe { parameters(param) };
    let looked_at = || (recorded(given.as_ref()), depths(given.as_ref()));
    let started = step::started(Call::Accept, id, looked_at);
    started.run(waiting, |id| {
        // SAFETY: wait.c defers cancellation during this step.
        let thread = unsafe { Deferred::by_caller() };
        connect::accept(id, given, &thread)?;
        if id.is_datagram() {
            return Ok(Step::Done(0));
        }
        Ok(sync::complete(id))
    })
}
crate::hidden!(accept => "ferroverbs_cm_accept");

unsafe extern "C" fn rdma_establish(id: *mut rdma_cm_id) -> c_int {
    ret::with(Call::Establish, id, &[], |id| connect::establish(id))
}
symver!(rdma_establish => "rdma_establish", "RDMACM_1.2");

unsafe extern "C" fn rdma_reject(id: *mut rdma_cm_id, data: *const c_void, length: u8) -> c_int {
    // SAFETY: the program passes a buffer of the length that it states.
    let data = unsafe { private_data(data, length) };
    ret::with(Call::Reject, id, &[length.into()], |id| {
        connect::reject(id, CONSUMER, data)
    })
}
symver!(rdma_reject => "rdma_reject", "RDMACM_1.0");

unsafe extern "C" fn rdma_reject_ece(
    id: *mut rdma_cm_id,
    data: *const c_void,
    length: u8,
) -> c_int {
    // SAFETY: as above.
    let data = unsafe { private_data(data, length) };
    ret::with(Call::RejectEce, id, &[length.into()], |id| {
        connect::reject(id, VENDOR_OPTION, data)
    })
}
symver!(rdma_reject_ece => "rdma_reject_ece", "RDMACM_1.3");

unsafe extern "C" fn rdma_notify(id: *mut rdma_cm_id, event: u32) -> c_int {
    ret::with(Call::Notify, id, &[event.into()], |id| {
        id.backend()?.notify(event)
    })
}
symver!(rdma_notify => "rdma_notify", "RDMACM_1.0");

unsafe extern "C" fn disconnect(id: *mut rdma_cm_id, waiting: *mut step::Waiting) -> c_int {
    let started = step::started(Call::Disconnect, id, || ([], About::Nothing));
    started.run(waiting, |id| {
        // SAFETY: as in `accept`.
        let thread = unsafe { Deferred::by_caller() };
        connect::disconnect(id, &thread)?;
        Ok(sync::complete(id))
    })
}
crate::hidden!(disconnect => "ferroverbs_cm_disconnect");

unsafe extern "C" fn get_request(
    listener: *mut rdma_cm_id,
    at: *mut *mut rdma_cm_id,
    waiting: *mut step::Waiting,
) -> c_int {
    let started = step::started(Call::GetRequest, listener, || ([], About::Nothing));
    started.run(waiting, |listener| {
        let at = room(at)?;
        endpoint::get_request(listener, move |id| {
            // SAFETY: the program passes room for a pointer.
            unsafe { at.write(id.block.as_ptr()) };
        })
    })
}
crate::hidden!(get_request => "ferroverbs_cm_get_request");

/// A program may set ECE only if it manages the queue pair.
fn without_queue_pair(id: &Id) -> Result<()> {
    match id.qp() {
        None => Ok(()),
        Some(_) => Err(Errno::INVAL),
    }
}

unsafe extern "C" fn rdma_set_local_ece(id: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int {
    // SAFETY: the program passes whole options, or NULL.
    let ece = unsafe { ece.as_ref() };
    ret::with(Call::SetLocalEce, id, &[], |id| {
        without_queue_pair(id)?;
        let ece = ece.filter(|ece| ece.vendor_id != 0 && ece.comp_mask == 0);
        let ece = ece.ok_or(Errno::INVAL)?;
        id.state.lock().local_ece = Ece {
            vendor_id: ece.vendor_id,
            attr_mod: ece.options,
        };
        Ok(())
    })
}
symver!(rdma_set_local_ece => "rdma_set_local_ece", "RDMACM_1.3");

unsafe extern "C" fn rdma_get_remote_ece(id: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int {
    ret::with(Call::GetRemoteEce, id, &[], |id| {
        without_queue_pair(id)?;
        let ece = room(ece)?;
        let remote = id.state.lock().remote_ece;
        // SAFETY: the program passes room for options.
        unsafe {
            ece.write(ibv_ece {
                vendor_id: remote.vendor_id,
                options: remote.attr_mod,
                comp_mask: 0,
            });
        }
        Ok(())
    })
}
symver!(rdma_get_remote_ece => "rdma_get_remote_ece", "RDMACM_1.3");
