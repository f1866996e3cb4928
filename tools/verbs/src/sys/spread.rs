//! Work queues, tables of them, and queue pairs that spread frames over a table.

use std::{ptr, sync::Arc};

use kit::abi::*;

use super::{
    extended::{extended, init_attr},
    flight::{InFlight, Unposted, WorkQueue},
    object::{Object, made, status},
    post, raw,
};
use crate::{
    completion::CompletionQueue,
    context::Context,
    domain::ProtectionDomain,
    error::{Error, Result},
};

/// A work queue: the objects that it was made with, and its requests in flight.
pub(crate) type Wq = Object<ibv_wq, Kept>;

pub(crate) struct Kept {
    pub pd: ProtectionDomain,
    pub queue: Arc<WorkQueue>,
    _cq: CompletionQueue,
}

/// ibv_create_wq(3).
pub(crate) fn create_wq(
    pd: &ProtectionDomain,
    cq: &CompletionQueue,
    (requests, segments): (u32, u32),
) -> Result<Wq> {
    const VERB: &str = "ibv_create_wq";
    let device = pd.context().object();
    let create = extended!(device, "ibv_create_wq", create_wq)?;
    let destroy = extended!(device, "ibv_destroy_wq", destroy_wq)?;
    let queue = Arc::new(WorkQueue::of_receives(VERB, requests)?);
    cq.serve(VERB, &queue)?;
    let mut attr = ibv_wq_init_attr {
        wq_context: ptr::null_mut(),
        wq_type: IBV_WQT_RQ,
        max_wr: requests,
        max_sge: segments,
        pd: pd.object().as_ptr(),
        cq: cq.object().as_ptr(),
        comp_mask: 0,
        create_flags: 0,
    };
    let kept = Kept {
        pd: pd.clone(),
        queue,
        _cq: cq.clone(),
    };
    // SAFETY: domain and queue live, and are kept. The work queue is new.
    unsafe {
        let at = made(VERB, create(device.as_ptr(), &raw mut attr))?;
        Ok(Object::new(at, destroy, kept))
    }
}

/// ibv_modify_wq(3): its state.
pub(crate) fn modify_wq(wq: &Wq, state: ibv_wq_state) -> Result<()> {
    let verb = extended!(wq.pd.context().object(), "ibv_modify_wq", modify_wq)?;
    let mut attr = ibv_wq_attr {
        attr_mask: IBV_WQ_ATTR_STATE,
        wq_state: state,
        curr_wq_state: 0,
        flags: 0,
        flags_mask: 0,
    };
    // SAFETY: the queue lives; the structure lives during the call.
    status("ibv_modify_wq", unsafe { verb(wq.as_ptr(), &raw mut attr) })
}

/// The number of a work queue.
pub(crate) fn wq_number(wq: &Wq) -> u32 {
    // SAFETY: the queue lives; its number does not change.
    unsafe { (&raw const (*wq.as_ptr()).wq_num).read() }
}

/// ibv_post_wq_recv(3).
pub(crate) fn receive(wq: &Wq, request: InFlight) -> std::result::Result<(), Unposted> {
    let at = wq.as_ptr();
    post::receive("ibv_post_wq_recv", &wq.queue, request, |wr, bad| {
        // SAFETY: the queue lives. The memory that the request names is owned by its entry in the
        // queue until it has completed or the queue is destroyed.
        unsafe { Some((&raw const (*at).post_recv).read()?(at, wr, bad)) }
    })
}

/// A table of work queues.
pub(crate) type Table = Object<ibv_rwq_ind_table, (Context, Vec<Arc<Wq>>)>;

/// ibv_create_rwq_ind_table(3). The queues are a power of two.
pub(crate) fn create_table(context: &Context, queues: Vec<Arc<Wq>>) -> Result<Table> {
    const VERB: &str = "ibv_create_rwq_ind_table";
    let device = context.object();
    let create = extended!(device, "ibv_create_rwq_ind_table", create_rwq_ind_table)?;
    let destroy = extended!(device, "ibv_destroy_rwq_ind_table", destroy_rwq_ind_table)?;
    let mut list: Vec<_> = queues.iter().map(|one| one.as_ptr()).collect();
    let mut attr = ibv_rwq_ind_table_init_attr {
        log_ind_tbl_size: list.len().trailing_zeros(),
        ind_tbl: list.as_mut_ptr(),
        comp_mask: 0,
    };
    // SAFETY: the device is open, the queues live; all are kept. The list has as many as is said,
    // and lives during the call. The table is new.
    unsafe {
        let at = made(VERB, create(device.as_ptr(), &raw mut attr))?;
        Ok(Object::new(at, destroy, (context.clone(), queues)))
    }
}

/// A queue pair that spreads frames.
pub(crate) type Spread = Object<ibv_qp, (ProtectionDomain, Arc<Table>)>;

/// ibv_create_qp_ex(3), with a Toeplitz hash of these fields.
pub(crate) fn create_spread(
    pd: &ProtectionDomain,
    table: &Arc<Table>,
    fields: u64,
    key: &[u8],
) -> Result<Spread> {
    const VERB: &str = "ibv_create_qp_ex";
    let device = pd.context().object();
    let create = extended!(device, "ibv_create_qp_ex", create_qp_ex)?;
    let invalid = |_| Error::new(VERB, libc::EINVAL);
    let mut key = key.to_vec();
    let mut attr = ibv_qp_init_attr_ex {
        comp_mask: IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE,
        pd: pd.object().as_ptr(),
        rwq_ind_tbl: table.as_ptr(),
        rx_hash_conf: ibv_rx_hash_conf {
            // The number of the function fits.
            rx_hash_function: u8::try_from(IBV_RX_HASH_FUNC_TOEPLITZ).map_err(invalid)?,
            rx_hash_key_len: u8::try_from(key.len()).map_err(invalid)?,
            rx_hash_key: key.as_mut_ptr(),
            rx_hash_fields_mask: fields,
        },
        ..init_attr(IBV_QPT_RAW_PACKET)
    };
    // SAFETY: domain and table live, and are kept; the key lives during the call. The queue pair is
    // new.
    unsafe {
        let at = made(VERB, create(device.as_ptr(), &raw mut attr))?;
        let kept = (pd.clone(), Arc::clone(table));
        Ok(Object::new(at, raw::ibv_destroy_qp, kept))
    }
}
