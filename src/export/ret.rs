//! The return conventions of the API, in one place.
//!
//! | convention | a result of ours | a provider's answer, unless the arguments are bad |
//! | --- | --- | --- |
//! | pointer, or NULL with errno set | [`pointer()`] | [`pointer_of`] |
//! | 0, or a positive errno value | [`code`] | [`code_of`] |
//! | the same, and errno set | [`command`] | |
//! | 0, or -1 with errno set | [`minus_one`] | |
//! | a count, or -1 with errno set | [`count`] | |
//! | a count, or a negative errno value | [`negative`] | |

use kit::{
    errno::{Errno, Result},
    sys::errno::set as set_errno,
};
use std::{ffi::c_int, panic::Location};

use super::observe;

/// NULL and errno on error.
pub fn pointer<T>(r: Result<*mut T>) -> *mut T {
    r.unwrap_or_else(null)
}

/// NULL, with errno set.
pub fn null<T>(e: Errno) -> *mut T {
    set_errno(e);
    std::ptr::null_mut()
}

/// The provider's pointer; NULL with errno set when the arguments are bad.
#[track_caller]
pub fn pointer_of<H, T>(arguments: Result<H>, verb: impl FnOnce(H) -> *mut T) -> *mut T {
    match arguments {
        Ok(h) => verb(h),
        Err(e) => {
            observe::refused(e, Location::caller());
            null(e)
        }
    }
}

/// 0, or the errno value itself.
pub fn code(r: Result<()>) -> c_int {
    r.map_or_else(Errno::raw, |()| 0)
}

/// 0, or the errno value itself, also in errno: the result of `ibv_cmd_*` for providers, many of
/// which return NULL to the application without setting errno.
pub fn command(r: Result<()>) -> c_int {
    r.map_or_else(
        |e| {
            set_errno(e);
            e.raw()
        },
        |()| 0,
    )
}

/// The provider's answer; the errno value when the arguments are bad.
#[track_caller]
pub fn code_of<H>(arguments: Result<H>, verb: impl FnOnce(H) -> c_int) -> c_int {
    match arguments {
        Ok(h) => verb(h),
        Err(e) => {
            observe::refused(e, Location::caller());
            e.raw()
        }
    }
}

/// 0, or -1 with errno set.
pub fn minus_one(r: Result<()>) -> c_int {
    count(r.map(|()| 0))
}

/// A value, or -1 with errno set.
pub fn count(r: Result<c_int>) -> c_int {
    r.unwrap_or_else(failed)
}

// Apart, so that a verb that succeeds saves no registers for this call.
#[cold]
#[inline(never)]
fn failed(e: Errno) -> c_int {
    set_errno(e);
    -1
}

/// A count, or the errno value negated.
pub fn negative(r: Result<isize>) -> isize {
    r.unwrap_or_else(|e| -(e.raw() as isize))
}

/// EINVAL for a NULL argument.
pub fn not_null<T>(p: *mut T) -> Result<*mut T> {
    if p.is_null() {
        Err(Errno::INVAL)
    } else {
        Ok(p)
    }
}

/// Writes for C which request of a chain was not posted, if one was not.
///
/// # Safety
/// `bad` is NULL or has room for a pointer.
pub unsafe fn posted<T>(
    r: std::result::Result<(), (*mut T, Errno)>,
    bad: *mut *mut T,
) -> Result<()> {
    r.map_err(|(request, e)| {
        // SAFETY: vouched for by the caller.
        if let Some(bad) = unsafe { bad.as_mut() } {
            *bad = request;
        }
        e
    })
}
