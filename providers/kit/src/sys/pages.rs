//! Whole pages of this process's own (mmap(2)).

use crate::errno::{Errno, Result};
use core::ffi::c_void;
use core::ptr::null_mut;
use rustix::mm::{MapFlags, ProtFlags};

/// Pages of zero, enough for `size` bytes; nothing else lies in them.
///
/// # Errors
/// EINVAL for no byte, ENOMEM.
pub fn map(size: usize) -> Result<*mut c_void> {
    // The kernel rounds up, and must not come to 0 by that.
    if isize::try_from(size).is_err() {
        return Err(Errno::NOMEM);
    }
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, at a place that the kernel chooses.
    let at =
        unsafe { rustix::mm::mmap_anonymous(null_mut(), size, protection, MapFlags::PRIVATE) }?;
    Ok(at)
}

/// Gives pages back.
///
/// # Safety
/// They came from [`map`] with that size, and they are not used any more.
pub unsafe fn unmap(at: *mut c_void, size: usize) {
    // SAFETY: vouched for by the caller. It fails only for an address without a mapping.
    let _ = unsafe { rustix::mm::munmap(at, size) };
}
