//! The C library's errno of this thread.

use crate::errno::Errno;

/// Sets errno.
pub fn set(e: Errno) {
    // SAFETY: __errno_location points at this thread's own errno.
    unsafe { *libc::__errno_location() = e.raw() }
}

/// Reads errno.
pub fn get() -> Errno {
    // SAFETY: as above.
    Errno(unsafe { *libc::__errno_location() })
}
