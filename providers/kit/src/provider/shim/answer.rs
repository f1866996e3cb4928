#![forbid(unsafe_code)]
//! The return conventions of verbs, as providers of the C kind keep them: errno is always set.

use crate::errno::{Errno, Result};
use crate::sys::errno;
use core::ffi::c_int;

/// 0, or the errno value.
pub(super) fn code(result: Result<()>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(e) => {
            errno::set(e);
            e.raw()
        }
    }
}

/// The object, or NULL.
pub(super) fn pointer<T>(result: Result<*mut T>) -> *mut T {
    result.unwrap_or_else(|e| {
        errno::set(e);
        core::ptr::null_mut()
    })
}

/// A count, or the errno value negated.
#[inline]
pub(super) fn count(result: Result<usize>) -> c_int {
    match result.map(c_int::try_from) {
        Ok(Ok(count)) => count,
        Ok(Err(_)) => negated(Errno::OVERFLOW),
        Err(e) => negated(e),
    }
}

#[cold]
#[inline(never)]
fn negated(e: Errno) -> c_int {
    errno::set(e);
    -e.raw()
}
