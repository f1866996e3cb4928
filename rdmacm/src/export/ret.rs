//! The return conventions: 0 or a count, -1 with errno set; a pointer, NULL with errno set.

use crate::abi::{Address, rdma_cm_id};
use crate::{id::Id, registry};
use core::ffi::c_int;
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

/// Calls a function with the id at a pointer.
pub fn with(id: *mut rdma_cm_id, call: impl FnOnce(&Arc<Id>) -> Result<()>) -> c_int {
    minus_one(registry::id(id.addr()).and_then(|id| call(&id)))
}

/// EINVAL for NULL.
///
/// # Errors
/// As the first line says.
///
/// # Safety
/// The pointer is NULL or that of an address of the length that its family has.
pub unsafe fn address(address: *const libc::sockaddr) -> Result<Address> {
    // SAFETY: vouched for by the caller.
    unsafe { Address::from_raw(address) }?.ok_or(Errno::INVAL)
}
