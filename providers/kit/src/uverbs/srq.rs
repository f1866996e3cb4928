//! Shared receive queues: ibv_create_srq(3), ibv_create_srq_ex(3), ibv_modify_srq(3),
//! ibv_query_srq(3).

use super::destroy::Method;
use super::events::destroy_reporting;
use super::{Driver, Fallback, Ioctl, Kernel, Path};
use super::{add_driver, try_ioctl, unless_imported, write};
use crate::abi::kernel::ioctl::*;
use crate::abi::kernel::*;
use crate::errno::Result;
use crate::table::slot;
use core::ffi::c_int;

/// The kind of queue, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SrqKind {
    /// For queue pairs of one protection domain.
    Basic,
    /// For XRC: the numbers of the XRC domain and of the completion queue in the kernel.
    Xrc {
        /// The XRC domain.
        xrcd: u32,
        /// The completion queue.
        cq: u32,
    },
    /// With tag matching.
    TagMatching {
        /// The completion queue.
        cq: u32,
        /// Tags in the matching list, at most.
        max_num_tags: u32,
    },
}

/// A queue to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewSrq {
    /// The queue's number in the kernel's events.
    pub user_handle: u64,
    /// Number of the protection domain.
    pub pd: u32,
    /// Requests, at least.
    pub max_wr: u32,
    /// Scatter elements a request, at least.
    pub max_sge: u32,
    /// Requests left that raise an event.
    pub srq_limit: u32,
    /// Its kind.
    pub kind: SrqKind,
    /// The context's descriptor for asynchronous events, negative for none.
    pub async_fd: c_int,
}

/// A queue as the kernel made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreatedSrq {
    /// Its number in the kernel.
    pub handle: u32,
    /// Requests.
    pub max_wr: u32,
    /// Scatter elements a request.
    pub max_sge: u32,
    /// Number on the wire, of an XRC queue; else 0.
    pub srq_num: u32,
}

impl NewSrq {
    fn kernel_type(&self) -> u32 {
        match self.kind {
            SrqKind::Basic => IB_UVERBS_SRQT_BASIC,
            SrqKind::Xrc { .. } => IB_UVERBS_SRQT_XRC,
            SrqKind::TagMatching { .. } => IB_UVERBS_SRQT_TM,
        }
    }

    fn create(&self) -> ib_uverbs_create_srq {
        ib_uverbs_create_srq {
            response: 0,
            user_handle: self.user_handle,
            pd_handle: self.pd,
            max_wr: self.max_wr,
            max_sge: self.max_sge,
            srq_limit: self.srq_limit,
        }
    }

    fn create_extended(&self) -> ib_uverbs_create_xsrq {
        let (xrcd_handle, cq_handle, max_num_tags) = match self.kind {
            SrqKind::Basic => (0, 0, 0),
            SrqKind::Xrc { xrcd, cq } => (xrcd, cq, 0),
            SrqKind::TagMatching { cq, max_num_tags } => (0, cq, max_num_tags),
        };
        ib_uverbs_create_xsrq {
            response: 0,
            user_handle: self.user_handle,
            srq_type: self.kernel_type(),
            pd_handle: self.pd,
            max_wr: self.max_wr,
            max_sge: self.max_sge,
            srq_limit: self.srq_limit,
            max_num_tags,
            xrcd_handle,
            cq_handle,
        }
    }
}

impl From<ib_uverbs_create_srq_resp> for CreatedSrq {
    fn from(answer: ib_uverbs_create_srq_resp) -> Self {
        Self {
            handle: answer.srq_handle,
            max_wr: answer.max_wr,
            max_sge: answer.max_sge,
            srq_num: answer.srqn,
        }
    }
}

/// Makes a shared receive queue.
///
/// # Errors
/// EOPNOTSUPP for an imported context on a kernel without the method; else the kernel's own
/// errno.
pub fn create_srq<K: Kernel + ?Sized>(
    kernel: &K,
    new: &NewSrq,
    driver: &mut Driver<'_>,
) -> Result<CreatedSrq> {
    let (mut max_wr, mut max_sge, mut srq_num) = (0, 0, 0);
    let mut call = Ioctl::new(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE);
    call.object_out(UVERBS_ATTR_CREATE_SRQ_HANDLE);
    call.u64_in(UVERBS_ATTR_CREATE_SRQ_TYPE, new.kernel_type().into());
    call.u64_in(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, new.user_handle);
    call.object_in(UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, new.pd);
    call.u32_in(UVERBS_ATTR_CREATE_SRQ_MAX_WR, new.max_wr);
    call.u32_in(UVERBS_ATTR_CREATE_SRQ_MAX_SGE, new.max_sge);
    call.u32_in(UVERBS_ATTR_CREATE_SRQ_LIMIT, new.srq_limit);
    call.fd_in(UVERBS_ATTR_CREATE_SRQ_EVENT_FD, new.async_fd);
    call.value_out(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, &mut max_wr);
    call.value_out(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, &mut max_sge);
    match new.kind {
        SrqKind::Basic => (),
        SrqKind::Xrc { xrcd, cq } => {
            call.object_in(UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE, xrcd);
            call.object_in(UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, cq);
            call.value_out(UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, &mut srq_num);
        }
        SrqKind::TagMatching { cq, max_num_tags } => {
            call.object_in(UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, cq);
            call.u32_in(UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS, max_num_tags);
        }
    }
    add_driver(&mut call, driver);
    let fallback = unless_imported(kernel, Fallback::Write);
    if try_ioctl(kernel, slot::create_srq, &mut call, fallback)? != Path::Ioctl {
        return create_by_write(kernel, new, driver);
    }
    let handle = call.object(UVERBS_ATTR_CREATE_SRQ_HANDLE)?;
    Ok(CreatedSrq {
        handle,
        max_wr,
        max_sge,
        srq_num,
    })
}

fn create_by_write<K: Kernel + ?Sized>(
    kernel: &K,
    new: &NewSrq,
    driver: &mut Driver<'_>,
) -> Result<CreatedSrq> {
    if new.kind == SrqKind::Basic {
        return write(kernel, &new.create(), driver).map(CreatedSrq::from);
    }
    write(kernel, &new.create_extended(), driver).map(CreatedSrq::from)
}

/// Ends a shared receive queue. Returns how many events were reported of it; nothing if its
/// device is gone.
///
/// # Errors
/// The kernel's own errno, EBUSY while queue pairs use it.
pub fn destroy_srq<K: Kernel + ?Sized>(kernel: &K, handle: u32) -> Result<Option<u32>> {
    const METHOD: Method = Method {
        slot: slot::destroy_srq,
        object: UVERBS_OBJECT_SRQ,
        method: UVERBS_METHOD_SRQ_DESTROY,
        attr: UVERBS_ATTR_DESTROY_SRQ_HANDLE,
    };
    let command = ib_uverbs_destroy_srq {
        srq_handle: handle,
        ..Default::default()
    };
    let events = UVERBS_ATTR_DESTROY_SRQ_RESP;
    destroy_reporting(kernel, &METHOD, events, handle, &command, |answer| {
        answer.events_reported
    })
}

/// Makes the changes of `command`.
///
/// # Errors
/// The kernel's own errno.
pub fn modify_srq<K: Kernel + ?Sized>(
    kernel: &K,
    command: &ib_uverbs_modify_srq,
    driver: &mut Driver<'_>,
) -> Result<()> {
    write(kernel, command, driver)
}

/// Asks for size and limit of a queue.
///
/// # Errors
/// The kernel's own errno.
pub fn query_srq<K: Kernel + ?Sized>(
    kernel: &K,
    handle: u32,
    driver: &mut Driver<'_>,
) -> Result<ib_uverbs_query_srq_resp> {
    let command = ib_uverbs_query_srq {
        srq_handle: handle,
        ..Default::default()
    };
    write(kernel, &command, driver)
}
