//! Work queues and their indirection tables: ibv_create_wq(3), ibv_modify_wq(3),
//! ibv_create_rwq_ind_table(3).

use super::destroy::{Method, destroy};
use super::events::destroy_reporting;
use super::{Driver, Fallback, Ioctl, Kernel, Path};
use super::{add_driver, try_ioctl, unless_imported, write, write_parts};
use crate::abi::kernel::ioctl::*;
use crate::abi::kernel::*;
use crate::abi::{IBV_WQ_ATTR_FLAGS, IBV_WQ_ATTR_RESERVED, IBV_WQ_FLAGS_RESERVED};
use crate::errno::{Errno, Result};
use crate::table::slot;
use core::ffi::c_int;
use core::mem::{offset_of, size_of};

/// A work queue to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewWq {
    /// The queue's number in the kernel's events.
    pub user_handle: u64,
    /// Number of the protection domain.
    pub pd: u32,
    /// Number of the completion queue.
    pub cq: u32,
    /// `IBV_WQT_*`.
    pub wq_type: u32,
    /// Requests, at least.
    pub max_wr: u32,
    /// Scatter elements a request, at least.
    pub max_sge: u32,
    /// `IBV_WQ_FLAGS_*`.
    pub flags: u32,
    /// The context's descriptor for asynchronous events, negative for none.
    pub async_fd: c_int,
}

/// A work queue as the kernel made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreatedWq {
    /// Its number in the kernel.
    pub handle: u32,
    /// Requests.
    pub max_wr: u32,
    /// Scatter elements a request.
    pub max_sge: u32,
    /// Its number on the device.
    pub wq_num: u32,
}

/// Makes a work queue.
///
/// # Errors
/// EOPNOTSUPP for unknown flags, and for an imported context on a kernel without the method;
/// else the kernel's own errno.
pub fn create_wq<K: Kernel + ?Sized>(
    kernel: &K,
    new: &NewWq,
    driver: &mut Driver<'_>,
) -> Result<CreatedWq> {
    if new.flags >= IBV_WQ_FLAGS_RESERVED {
        return Err(Errno::OPNOTSUPP);
    }
    let mut made = CreatedWq::default();
    let mut call = Ioctl::new(UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_CREATE);
    call.object_out(UVERBS_ATTR_CREATE_WQ_HANDLE);
    call.u64_in(UVERBS_ATTR_CREATE_WQ_USER_HANDLE, new.user_handle);
    call.object_in(UVERBS_ATTR_CREATE_WQ_PD_HANDLE, new.pd);
    call.object_in(UVERBS_ATTR_CREATE_WQ_CQ_HANDLE, new.cq);
    call.u64_in(UVERBS_ATTR_CREATE_WQ_TYPE, new.wq_type.into());
    call.u32_in(UVERBS_ATTR_CREATE_WQ_MAX_WR, new.max_wr);
    call.u32_in(UVERBS_ATTR_CREATE_WQ_MAX_SGE, new.max_sge);
    call.fd_in(UVERBS_ATTR_CREATE_WQ_EVENT_FD, new.async_fd);
    call.u32_in(UVERBS_ATTR_CREATE_WQ_FLAGS, new.flags);
    call.value_out(UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, &mut made.max_wr);
    call.value_out(UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, &mut made.max_sge);
    call.value_out(UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, &mut made.wq_num);
    add_driver(&mut call, driver);
    let fallback = unless_imported(kernel, Fallback::WriteEx);
    if try_ioctl(kernel, slot::create_wq, &mut call, fallback)? != Path::Ioctl {
        return create_by_write(kernel, new, driver);
    }
    let handle = call.object(UVERBS_ATTR_CREATE_WQ_HANDLE)?;
    Ok(CreatedWq { handle, ..made })
}

fn create_by_write<K: Kernel + ?Sized>(
    kernel: &K,
    new: &NewWq,
    driver: &mut Driver<'_>,
) -> Result<CreatedWq> {
    let command = ib_uverbs_ex_create_wq {
        wq_type: new.wq_type,
        user_handle: new.user_handle,
        pd_handle: new.pd,
        cq_handle: new.cq,
        max_wr: new.max_wr,
        max_sge: new.max_sge,
        create_flags: new.flags,
        ..Default::default()
    };
    let answer = write(kernel, &command, driver)?;
    Ok(CreatedWq {
        handle: answer.wq_handle,
        max_wr: answer.max_wr,
        max_sge: answer.max_sge,
        wq_num: answer.wqn,
    })
}

/// Ends a work queue. Returns how many events were reported of it; nothing if its device is
/// gone.
///
/// # Errors
/// The kernel's own errno, EBUSY while an indirection table holds it.
pub fn destroy_wq<K: Kernel + ?Sized>(kernel: &K, handle: u32) -> Result<Option<u32>> {
    const METHOD: Method = Method {
        slot: slot::destroy_wq,
        object: UVERBS_OBJECT_WQ,
        method: UVERBS_METHOD_WQ_DESTROY,
        attr: UVERBS_ATTR_DESTROY_WQ_HANDLE,
    };
    let command = ib_uverbs_ex_destroy_wq {
        comp_mask: 0,
        wq_handle: handle,
    };
    let events = UVERBS_ATTR_DESTROY_WQ_RESP;
    destroy_reporting(kernel, &METHOD, events, handle, &command, |answer| {
        answer.events_reported
    })
}

/// Makes the changes of `command`.
///
/// # Errors
/// EINVAL for a mask with unknown bits, EOPNOTSUPP for unknown flags; else the kernel's own
/// errno.
pub fn modify_wq<K: Kernel + ?Sized>(
    kernel: &K,
    command: &ib_uverbs_ex_modify_wq,
    driver: &mut Driver<'_>,
) -> Result<()> {
    if command.attr_mask >= IBV_WQ_ATTR_RESERVED {
        return Err(Errno::INVAL);
    }
    if command.attr_mask & IBV_WQ_ATTR_FLAGS == 0 {
        let without = ib_uverbs_ex_modify_wq {
            flags: 0,
            flags_mask: 0,
            ..*command
        };
        return write(kernel, &without, driver);
    }
    if command.flags_mask >= IBV_WQ_FLAGS_RESERVED {
        return Err(Errno::OPNOTSUPP);
    }
    write(kernel, command, driver)
}

/// Largest logarithm of a table's length (`IB_USER_VERBS_MAX_LOG_IND_TBL_SIZE` of
/// rdma/ib_user_verbs.h).
pub const MAX_LOG_TABLE: u32 = 0x0d;

/// Entries of an indirection table whose length has this logarithm.
///
/// # Errors
/// EINVAL beyond [`MAX_LOG_TABLE`].
pub fn table_len(log_ind_tbl_size: u32) -> Result<usize> {
    if log_ind_tbl_size > MAX_LOG_TABLE {
        return Err(Errno::INVAL);
    }
    Ok(1 << log_ind_tbl_size)
}

/// Makes an indirection table of the work queues with these numbers; returns the table's
/// handle and number.
///
/// # Errors
/// EINVAL when the length is no power of two up to two to the [`MAX_LOG_TABLE`], or when the
/// kernel did not report all of it (the table is destroyed then); else the kernel's own errno.
pub fn create_rwq_ind_table<K: Kernel + ?Sized>(
    kernel: &K,
    queues: &[u32],
    driver: &mut Driver<'_>,
) -> Result<(u32, u32)> {
    let log_ind_tbl_size = queues.len().checked_ilog2().ok_or(Errno::INVAL)?;
    if table_len(log_ind_tbl_size)? != queues.len() {
        return Err(Errno::INVAL);
    }
    let command = ib_uverbs_ex_create_rwq_ind_table {
        comp_mask: 0,
        log_ind_tbl_size,
    };
    // The kernel counts in 8 bytes.
    let mut padded = [0, 0];
    let more = match queues {
        [only] => {
            padded[0] = *only;
            &padded[..]
        }
        queues => queues,
    };
    let more = bytemuck::cast_slice(more);
    let answer = write_parts(kernel, &command, more, driver, &mut [])?;
    complete(kernel, &answer)
}

fn complete<K: Kernel + ?Sized>(
    kernel: &K,
    answer: &ib_uverbs_ex_create_rwq_ind_table_resp,
) -> Result<(u32, u32)> {
    let reported = usize::try_from(answer.response_length).unwrap_or(0);
    if reported >= size_of::<ib_uverbs_ex_create_rwq_ind_table_resp>() {
        return Ok((answer.ind_tbl_handle, answer.ind_tbl_num));
    }
    if reported >= offset_of!(ib_uverbs_ex_create_rwq_ind_table_resp, ind_tbl_num) {
        // The application does not have the table, so it could not destroy it.
        destroy_rwq_ind_table(kernel, answer.ind_tbl_handle)?;
    }
    Err(Errno::INVAL)
}

/// Ends an indirection table.
///
/// # Errors
/// The kernel's own errno, EBUSY while a queue pair uses it.
pub fn destroy_rwq_ind_table<K: Kernel + ?Sized>(kernel: &K, handle: u32) -> Result<()> {
    const METHOD: Method = Method {
        slot: slot::destroy_rwq_ind_table,
        object: UVERBS_OBJECT_RWQ_IND_TBL,
        method: UVERBS_METHOD_RWQ_IND_TBL_DESTROY,
        attr: UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE,
    };
    let command = ib_uverbs_ex_destroy_rwq_ind_table {
        comp_mask: 0,
        ind_tbl_handle: handle,
    };
    destroy(kernel, &METHOD, handle, &command)
}
