//! The return conventions of the API, in one place.
//!
//! | convention | function |
//! | --- | --- |
//! | pointer, or NULL with errno set | [`pointer`] |
//! | 0, or a positive errno value (errno set too) | [`code`] |
//! | 0, or -1 with errno set | [`minus_one`] |
//! | a count or value, or -1 with errno set | [`count`] |
//! | a count, or a negative errno value | [`negative`] |

use kit::{errno::Result, sys::errno::set as set_errno};
use std::ffi::c_int;

/// NULL and errno on error.
pub fn pointer<T>(r: Result<*mut T>) -> *mut T {
    r.unwrap_or_else(|e| {
        set_errno(e);
        std::ptr::null_mut()
    })
}

/// 0, or the errno value itself; errno is set as well.
pub fn code(r: Result<()>) -> c_int {
    match r {
        Ok(()) => 0,
        Err(e) => {
            set_errno(e);
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
    r.unwrap_or_else(|e| {
        set_errno(e);
        -1
    })
}

/// A count, or the errno value negated.
pub fn negative(r: Result<isize>) -> isize {
    r.unwrap_or_else(|e| -(e.raw() as isize))
}
