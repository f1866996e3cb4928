//! Objects of the library: owned, and destroyed once, before the objects that they were made with.

use std::{ffi::c_int, io, mem::ManuallyDrop, ops::Deref, ptr::NonNull};

use crate::error::{Error, Result};

/// The result of a verb: 0, an errno, -1 with the errno in C's variable, or a negative errno, which
/// providers of cards return.
pub(crate) fn status(function: &'static str, code: c_int) -> Result<()> {
    match code {
        0 => Ok(()),
        1.. => Err(Error::new(function, code)),
        -1 => Err(last(function)),
        _ => Err(Error::new(function, code.saturating_neg())),
    }
}

/// The error whose errno is in C's variable.
pub(crate) fn last(function: &'static str) -> Error {
    let errno = io::Error::last_os_error().raw_os_error();
    Error::new(function, errno.unwrap_or(libc::EIO))
}

/// A pointer that a verb returned; NULL leaves the errno in C's variable.
pub(crate) fn made<T>(function: &'static str, at: *mut T) -> Result<NonNull<T>> {
    NonNull::new(at).ok_or_else(|| last(function))
}

/// An object, the verb that destroys it, and the values that have to live as long as it: the
/// objects that it was made with, and memory that the device accesses through it. If the library
/// refuses to destroy the object, all of these stay for good.
pub(crate) struct Object<T, P> {
    at: NonNull<T>,
    destroy: unsafe extern "C" fn(*mut T) -> c_int,
    kept: ManuallyDrop<P>,
}

// SAFETY: verbs may be called from any thread, at the same time, for one object (the libraries
// lock). Members of the structures that this crate reads do not change after the object was made.
unsafe impl<T, P: Send> Send for Object<T, P> {}
// SAFETY: the same.
unsafe impl<T, P: Sync> Sync for Object<T, P> {}

impl<T, P> Object<T, P> {
    /// # Safety
    /// `at` is an object that `destroy` takes, and nothing else destroys it. `kept` has all objects
    /// that it was made with, and all memory that a device accesses through it.
    pub(crate) unsafe fn new(
        at: NonNull<T>,
        destroy: unsafe extern "C" fn(*mut T) -> c_int,
        kept: P,
    ) -> Self {
        let kept = ManuallyDrop::new(kept);
        Self { at, destroy, kept }
    }

    pub(crate) fn as_ptr(&self) -> *mut T {
        self.at.as_ptr()
    }
}

impl<T, P> Deref for Object<T, P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.kept
    }
}

impl<T, P> Drop for Object<T, P> {
    fn drop(&mut self) {
        // SAFETY: by `new`; this is the only place that destroys it.
        let code = unsafe { (self.destroy)(self.at.as_ptr()) };
        if code == 0 {
            // SAFETY: dropped here alone, and not used again.
            unsafe { ManuallyDrop::drop(&mut self.kept) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_errno_is_found_in_each_form() {
        assert_eq!(status("verb", 0), Ok(()));
        for code in [libc::ENOMEM, -libc::ENOMEM] {
            assert_eq!(status("verb", code), Err(Error::new("verb", libc::ENOMEM)));
        }
    }
}
