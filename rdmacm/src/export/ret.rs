//! The return conventions: 0 or a count, -1 with errno set; a pointer, NULL with errno set.

use crate::abi::{Address, rdma_cm_id};
use crate::id::Id;
use crate::observe::{self, About};
use crate::registry;
use core::ffi::c_int;
use kit::cm::Call;
use kit::errno::{Errno, Result};
use kit::sys::errno;
use std::sync::Arc;

/// 0, or -1 with errno set.
pub fn minus_one(answer: Result<()>) -> c_int {
    answer.map_or_else(failed, |()| 0)
}

/// -1, with errno set.
pub fn failed(e: Errno) -> c_int {
    errno::set(e);
    -1
}

/// NULL on error, with errno set.
pub fn pointer<T>(answer: Result<*mut T>) -> *mut T {
    answer.unwrap_or_else(|e| {
        errno::set(e);
        core::ptr::null_mut()
    })
}

/// A call about the id at a pointer, with the words behind it that are recorded.
pub fn with(
    call: Call,
    id: *mut rdma_cm_id,
    words: &[u64],
    run: impl FnOnce(&Arc<Id>) -> Result<()>,
) -> c_int {
    with_more(call, id, words, || About::Nothing, run)
}

/// The same, of whose arguments more says why it failed.
pub fn with_more(
    call: Call,
    id: *mut rdma_cm_id,
    words: &[u64],
    about: impl FnOnce() -> About,
    run: impl FnOnce(&Arc<Id>) -> Result<()>,
) -> c_int {
    let at = id.addr();
    let run = || registry::id(at).and_then(|id| run(&id));
    minus_one(observe::call((call, at, words), about, |()| 0, run))
}

/// A call that answers nothing, about the id at a pointer.
pub fn unanswered(call: Call, id: *mut rdma_cm_id, run: impl FnOnce(&Arc<Id>)) {
    let at = id.addr();
    let run = || registry::id(at).map(|id| run(&id));
    // A pointer that is no id's is left alone.
    let _ = observe::call((call, at, &[]), || About::Nothing, |()| 0, run);
}

/// A number as it is recorded.
pub fn word(number: c_int) -> u64 {
    i64::from(number).cast_unsigned()
}

/// EINVAL for NULL.
///
/// # Errors
/// As the first line says.
///
/// # Safety
/// The pointer is NULL or that of an address of the length that its family has.
#[inline(always)]
pub unsafe fn address(address: *const libc::sockaddr) -> Result<Address> {
    // SAFETY: vouched for by the caller.
    unsafe { Address::from_raw(address) }?.ok_or(Errno::INVAL)
}
