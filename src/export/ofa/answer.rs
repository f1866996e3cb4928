#![forbid(unsafe_code)]
//! Results of current verbs, as `Result`.

use kit::errno::{Errno, Result};
use kit::sys::errno;
use std::ffi::c_int;

/// A positive errno value as a result.
pub fn result(code: c_int) -> Result<()> {
    match code {
        0 => Ok(()),
        code => Err(Errno(code)),
    }
}

/// A provider's new object.
pub fn made<T>(object: *mut T) -> Result<*mut T> {
    if object.is_null() {
        return Err(errno::get());
    }
    Ok(object)
}
