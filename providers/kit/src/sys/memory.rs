//! Memory that C frees with free(3).

use crate::errno::{Errno, Result};
use core::ffi::c_void;

/// `size` bytes of zero, aligned for any C type.
///
/// # Errors
/// ENOMEM.
pub fn zeroed(size: usize) -> Result<*mut c_void> {
    // SAFETY: calloc has no precondition.
    let block = unsafe { libc::calloc(1, size) };
    if block.is_null() {
        return Err(Errno::NOMEM);
    }
    Ok(block)
}

/// Frees a block of [`zeroed`].
///
/// # Safety
/// `block` came from `zeroed` or malloc(3) and is freed once.
pub unsafe fn free(block: *mut c_void) {
    // SAFETY: vouched for by the caller.
    unsafe { libc::free(block) }
}
