//! XRC: domains, their receive queues and their receiving queue pairs.

use std::{
    os::fd::{AsRawFd, BorrowedFd},
    ptr,
    sync::Arc,
};

use kit::abi::*;

use super::{
    extended::{extended, init_attr},
    flight::WorkQueue,
    object::{Object, made, status},
    raw,
};
use crate::{
    completion::CompletionQueue,
    context::Context,
    domain::ProtectionDomain,
    error::{Error, Result},
    xrc::XrcDomain,
};

/// A domain.
pub(crate) type Domain = Object<ibv_xrcd, Context>;

/// ibv_open_xrcd(3): that of a file, or a new one.
pub(crate) fn open(context: &Context, file: Option<BorrowedFd<'_>>) -> Result<Domain> {
    let device = context.object();
    let open = extended!(device, "ibv_open_xrcd", open_xrcd)?;
    let close = extended!(device, "ibv_close_xrcd", close_xrcd)?;
    let mut attr = ibv_xrcd_init_attr {
        comp_mask: IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
        fd: file.map_or(-1, |file| file.as_raw_fd()),
        oflags: libc::O_CREAT,
    };
    // SAFETY: the device is open, and is kept; the file is open. The domain is new.
    unsafe {
        let at = made("ibv_open_xrcd", open(device.as_ptr(), &raw mut attr))?;
        Ok(Object::new(at, close, context.clone()))
    }
}

/// A receive queue: the objects that it was made with, and its requests in flight.
pub(crate) type Srq = Object<ibv_srq, Kept>;

pub(crate) struct Kept {
    pub pd: ProtectionDomain,
    pub queue: Arc<WorkQueue>,
    pub _domain: XrcDomain,
    pub _cq: CompletionQueue,
}

/// ibv_create_srq_ex(3).
pub(crate) fn create_srq(
    domain: &XrcDomain,
    pd: &ProtectionDomain,
    cq: &CompletionQueue,
    (requests, segments): (u32, u32),
) -> Result<Srq> {
    const VERB: &str = "ibv_create_srq_ex";
    let device = pd.context().object();
    let create = extended!(device, "ibv_create_srq_ex", create_srq_ex)?;
    let queue = Arc::new(WorkQueue::of_shared_receives(VERB, requests)?);
    cq.serve(VERB, &queue)?;
    let mut attr = ibv_srq_init_attr_ex {
        srq_context: ptr::null_mut(),
        attr: ibv_srq_attr {
            max_wr: requests,
            max_sge: segments,
            srq_limit: 0,
        },
        comp_mask: IBV_SRQ_INIT_ATTR_TYPE
            | IBV_SRQ_INIT_ATTR_XRCD
            | IBV_SRQ_INIT_ATTR_CQ
            | IBV_SRQ_INIT_ATTR_PD,
        srq_type: IBV_SRQT_XRC,
        pd: pd.object().as_ptr(),
        xrcd: domain.object().as_ptr(),
        cq: cq.object().as_ptr(),
        tm_cap: ibv_tm_cap {
            max_num_tags: 0,
            max_ops: 0,
        },
    };
    let parts = Kept {
        pd: pd.clone(),
        queue,
        _domain: domain.clone(),
        _cq: cq.clone(),
    };
    // SAFETY: all objects live, and are kept. The queue is new.
    unsafe {
        let at = made(VERB, create(device.as_ptr(), &raw mut attr))?;
        Ok(Object::new(at, raw::ibv_destroy_srq, parts))
    }
}

/// ibv_get_srq_num(3).
pub(crate) fn srq_number(srq: &Srq) -> Result<u32> {
    let device = srq.pd.context().object();
    let verb = extended!(device, "ibv_get_srq_num", get_srq_num)?;
    let mut number = 0;
    // SAFETY: the queue lives, and the number may be written.
    let code = unsafe { verb(srq.as_ptr(), &raw mut number) };
    status("ibv_get_srq_num", code)?;
    Ok(number)
}

/// A receiving queue pair.
pub(crate) type Target = Object<ibv_qp, XrcDomain>;

/// ibv_open_qp(3): a receiving queue pair that was made before.
pub(crate) fn open_target(domain: &XrcDomain, number: u32) -> Result<Target> {
    const VERB: &str = "ibv_open_qp";
    let device = domain.context().object();
    let open = extended!(device, "ibv_open_qp", open_qp)?;
    let mut attr = ibv_qp_open_attr {
        comp_mask: IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
        qp_num: number,
        xrcd: domain.object().as_ptr(),
        qp_context: ptr::null_mut(),
        qp_type: IBV_QPT_XRC_RECV,
    };
    // SAFETY: the domain lives, and is kept. The object is new.
    unsafe {
        let at = made(VERB, open(device.as_ptr(), &raw mut attr))?;
        Ok(Object::new(at, raw::ibv_destroy_qp, domain.clone()))
    }
}

/// ibv_create_qp_ex(3).
pub(crate) fn create_target(domain: &XrcDomain) -> Result<Target> {
    const VERB: &str = "ibv_create_qp_ex";
    let device = domain.context().object();
    let create = extended!(device, "ibv_create_qp_ex", create_qp_ex)?;
    let mut attr = ibv_qp_init_attr_ex {
        comp_mask: IBV_QP_INIT_ATTR_XRCD,
        xrcd: domain.object().as_ptr(),
        ..init_attr(IBV_QPT_XRC_RECV)
    };
    // SAFETY: the domain lives, and is kept. The queue pair is new.
    unsafe {
        let at = made(VERB, create(device.as_ptr(), &raw mut attr))?;
        Ok(Object::new(at, raw::ibv_destroy_qp, domain.clone()))
    }
}
