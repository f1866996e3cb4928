//! Results of the verbs that a provider leaves out.

use crate::errno::Errno;
use core::ffi::c_int;

/// The errno value itself.
pub(super) fn code() -> c_int {
    Errno::OPNOTSUPP.raw()
}

/// NULL, with errno set.
pub(super) fn null<T>() -> *mut T {
    crate::sys::errno::set(Errno::OPNOTSUPP);
    core::ptr::null_mut()
}

/// -1, with errno set.
pub(super) fn minus_one() -> c_int {
    crate::sys::errno::set(Errno::OPNOTSUPP);
    -1
}

/// No, or nothing of the kind: 0.
pub(super) fn zero() -> c_int {
    0
}

/// Does nothing.
pub(super) fn nothing() {}
