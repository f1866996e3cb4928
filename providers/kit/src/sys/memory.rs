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

/// A new block that holds `value`.
///
/// # Errors
/// ENOMEM.
pub fn new<T>(value: T) -> Result<*mut T> {
    const { assert!(align_of::<T>() <= align_of::<libc::max_align_t>()) };
    // SAFETY: malloc has no precondition.
    let block = unsafe { libc::malloc(size_of::<T>()) }.cast::<T>();
    if block.is_null() {
        return Err(Errno::NOMEM);
    }
    // SAFETY: the block is new, of that size, and aligned for any C type.
    unsafe { block.write(value) };
    Ok(block)
}

/// Room for `count` values, which are not written yet. Glibc provides it sooner than zeros:
/// calloc(3) does not take the blocks that its thread has freed last.
///
/// # Errors
/// ENOMEM.
pub fn room<T>(count: usize) -> Result<*mut T> {
    const { assert!(align_of::<T>() <= align_of::<libc::max_align_t>()) };
    let size = count.checked_mul(size_of::<T>()).ok_or(Errno::NOMEM)?;
    // SAFETY: malloc has no precondition.
    let block = unsafe { libc::malloc(size) };
    if block.is_null() {
        return Err(Errno::NOMEM);
    }
    Ok(block.cast())
}

/// Frees a block of [`zeroed`], [`new`] or [`room`].
///
/// # Safety
/// `block` came from one of them or malloc(3) and is freed once.
pub unsafe fn free(block: *mut c_void) {
    // SAFETY: vouched for by the caller.
    unsafe { libc::free(block) }
}
