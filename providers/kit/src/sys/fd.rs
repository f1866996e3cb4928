//! Descriptors that the kernel answers.

use crate::errno::{Errno, Result};
use std::ffi::c_int;
use std::os::fd::{FromRawFd, OwnedFd};

/// Takes over a descriptor that a command has just made for its caller. Only for numbers that
/// stand in an answer of the kernel.
///
/// # Errors
/// EBADF for a number that is no descriptor.
pub(crate) fn made(number: u64) -> Result<OwnedFd> {
    let fd = c_int::try_from(number).map_err(|_| Errno(libc::EBADF))?;
    // SAFETY: the kernel made it just now for this call, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
