//! The extended half of completion queues: ibv_start_poll, ibv_next_poll, ibv_end_poll and the
//! readers (ibv_create_cq_ex(3)).
//!
//! A batch locks the queue against other batches. Its current entry is the application's alone.

use super::context::Subject;
use super::cq::Completions;
use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::provider::{Polled, Provider};
use crate::sys::errno;
use crate::sys::lock::Brief;
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_uint};
use lock_api::RawMutex as _;

/// `wc_flags` that there are readers for.
pub(super) const READERS: u64 = (IBV_WC_STANDARD_FLAGS
    | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
    | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) as u64;

/// The batch under way.
pub(super) struct Batch {
    lock: Brief,
    /// The current entry.
    entry: UnsafeCell<Option<Polled>>,
}

// SAFETY: the entry is used by the thread alone that holds the lock.
unsafe impl Sync for Batch {}

impl Batch {
    pub(super) const fn new() -> Self {
        Self {
            lock: Brief::INIT,
            entry: UnsafeCell::new(None),
        }
    }
}

/// Sets the functions of a new queue: the readers of the fields that the application requested.
pub(super) fn fill<P: Provider>(cq: &mut ibv_cq_ex, flags: u64) {
    let wants = |flag: c_uint| flags & u64::from(flag) != 0;
    cq.start_poll = Some(start_poll::<P>);
    cq.next_poll = Some(next_poll::<P>);
    cq.end_poll = Some(end_poll::<P>);
    cq.read_opcode = Some(read_opcode::<P>);
    cq.read_vendor_err = Some(read_vendor_err::<P>);
    cq.read_wc_flags = Some(read_wc_flags::<P>);
    if wants(IBV_WC_EX_WITH_BYTE_LEN) {
        cq.read_byte_len = Some(read_byte_len::<P>);
    }
    if wants(IBV_WC_EX_WITH_IMM) {
        cq.read_imm_data = Some(read_imm_data::<P>);
    }
    if wants(IBV_WC_EX_WITH_QP_NUM) {
        cq.read_qp_num = Some(read_qp_num::<P>);
    }
    if wants(IBV_WC_EX_WITH_SRC_QP) {
        cq.read_src_qp = Some(read_src_qp::<P>);
    }
    if wants(IBV_WC_EX_WITH_SLID) {
        cq.read_slid = Some(read_slid::<P>);
    }
    if wants(IBV_WC_EX_WITH_SL) {
        cq.read_sl = Some(read_sl::<P>);
    }
    if wants(IBV_WC_EX_WITH_DLID_PATH_BITS) {
        cq.read_dlid_path_bits = Some(read_dlid_path_bits::<P>);
    }
    if wants(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) {
        cq.read_completion_ts = Some(read_completion_ts::<P>);
    }
    if wants(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) {
        cq.read_completion_wallclock_ns = Some(read_completion_wallclock_ns::<P>);
    }
}

/// # Safety
/// `cq` is a live extended queue of the provider.
unsafe fn subject<'a, P: Provider>(
    cq: *mut ibv_cq_ex,
) -> Result<(Subject<'a, P, Completions<P>>, &'a Batch)> {
    // SAFETY: vouched for by the caller.
    let queue = unsafe { Subject::<P, Completions<P>>::from_raw(cq) }?;
    let batch = queue
        .object
        .plain()
        .side
        .batch
        .as_ref()
        .ok_or(Errno::INVAL)?;
    Ok((queue, batch))
}

/// Moves to the next entry, if there is one; else ENOENT.
///
/// # Safety
/// `cq` is the queue of that batch, which this thread has locked.
unsafe fn advance(cq: *mut ibv_cq_ex, batch: &Batch, next: Option<Polled>) -> c_int {
    let Some(polled) = next else {
        errno::set(Errno::NOENT);
        return Errno::NOENT.raw();
    };
    // SAFETY: vouched for by the caller; the two members are the application's to read.
    unsafe {
        (*cq).status = polled.wc.status;
        (*cq).wr_id = polled.wc.wr_id;
        *batch.entry.get() = Some(polled);
    }
    0
}

unsafe extern "C" fn start_poll<P: Provider>(
    cq: *mut ibv_cq_ex,
    attr: *mut ibv_poll_cq_attr,
) -> c_int {
    // SAFETY: the caller passes a live extended queue, and attributes or NULL.
    unsafe {
        let (queue, batch) = match subject::<P>(cq) {
            Ok(found) => found,
            Err(e) => return e.raw(),
        };
        if attr.as_ref().is_some_and(|attr| attr.comp_mask != 0) {
            errno::set(Errno::INVAL);
            return Errno::INVAL.raw();
        }
        batch.lock.lock();
        let first = queue.provider.poll_ex(&queue.object.side.cq);
        let answer = advance(cq, batch, first);
        if answer != 0 {
            // There is no end_poll after an error.
            batch.lock.unlock();
        }
        answer
    }
}

unsafe extern "C" fn next_poll<P: Provider>(cq: *mut ibv_cq_ex) -> c_int {
    // SAFETY: the caller passes a live extended queue, in a batch that it started.
    unsafe {
        match subject::<P>(cq) {
            Ok((queue, batch)) if batch.lock.is_locked() => {
                let next = queue.provider.poll_next(&queue.object.side.cq);
                advance(cq, batch, next)
            }
            _ => Errno::INVAL.raw(),
        }
    }
}

unsafe extern "C" fn end_poll<P: Provider>(cq: *mut ibv_cq_ex) {
    // SAFETY: the caller passes a live extended queue, in a batch that it started.
    unsafe {
        if let Ok((_, batch)) = subject::<P>(cq)
            && batch.lock.is_locked()
        {
            *batch.entry.get() = None;
            batch.lock.unlock();
        }
    }
}

/// A value of the current entry; zeros outside of a batch.
///
/// # Safety
/// `cq` is a live extended queue of the provider, in a batch that this thread started.
unsafe fn read<P: Provider, T: Default>(cq: *mut ibv_cq_ex, read: impl FnOnce(&Polled) -> T) -> T {
    // SAFETY: vouched for by the caller.
    unsafe {
        match subject::<P>(cq) {
            Ok((_, batch)) => (*batch.entry.get()).as_ref().map(read).unwrap_or_default(),
            Err(_) => T::default(),
        }
    }
}

macro_rules! readers {
    ($($name:ident -> $type:ty = $read:expr;)*) => { $(
        unsafe extern "C" fn $name<P: Provider>(cq: *mut ibv_cq_ex) -> $type {
            // SAFETY: the caller passes a live extended queue, in a batch that it started.
            unsafe { read::<P, $type>(cq, $read) }
        }
    )* };
}

readers! {
    read_opcode -> ibv_wc_opcode = |entry| entry.wc.opcode;
    read_vendor_err -> u32 = |entry| entry.wc.vendor_err;
    read_byte_len -> u32 = |entry| entry.wc.byte_len;
    read_imm_data -> be32 = imm;
    read_qp_num -> u32 = |entry| entry.wc.qp_num;
    read_src_qp -> u32 = |entry| entry.wc.src_qp;
    read_wc_flags -> c_uint = |entry| entry.wc.wc_flags;
    read_slid -> u32 = |entry| entry.wc.slid.into();
    read_sl -> u8 = |entry| entry.wc.sl;
    read_dlid_path_bits -> u8 = |entry| entry.wc.dlid_path_bits;
    read_completion_ts -> u64 = |entry| entry.timestamp;
    read_completion_wallclock_ns -> u64 = |entry| entry.wallclock;
}

/// Immediate data, or the R_Key that was invalidated: both are read through this one.
fn imm(entry: &Polled) -> be32 {
    // SAFETY: both members of the union are numbers of that size.
    unsafe { entry.wc.imm.imm_data }
}
