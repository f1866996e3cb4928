//! Objects of the library: owned, given back once.

use std::{ffi::c_int, io, mem::ManuallyDrop, ptr::NonNull};

/// Results of verbs: 0, an errno, or a negative number with the errno in C's variable.
pub(crate) fn status(code: c_int) -> io::Result<()> {
    match code {
        0 => Ok(()),
        1.. => Err(io::Error::from_raw_os_error(code)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A pointer that a verb returned; NULL leaves the errno where C keeps it.
pub(crate) fn made<T>(at: *mut T) -> io::Result<NonNull<T>> {
    NonNull::new(at).ok_or_else(io::Error::last_os_error)
}

/// An object, and the verb that takes it back.
pub(crate) struct Handle<T> {
    at: NonNull<T>,
    give_back: unsafe extern "C" fn(*mut T) -> c_int,
}

impl<T> Handle<T> {
    /// # Safety
    /// `at` is an object that `give_back` takes, and nothing else gives it back. The objects that
    /// it was made with live as long as the handle.
    pub(crate) unsafe fn new(
        at: NonNull<T>,
        give_back: unsafe extern "C" fn(*mut T) -> c_int,
    ) -> Self {
        Self { at, give_back }
    }

    pub(crate) fn as_ptr(&self) -> *mut T {
        self.at.as_ptr()
    }

    /// Gives the object back. If the library refuses, it stays as it is, for good.
    pub(crate) fn destroy(self) -> io::Result<()> {
        let this = ManuallyDrop::new(self);
        // SAFETY: by `new`, and `this` is not dropped.
        status(unsafe { (this.give_back)(this.as_ptr()) })
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: by `new`. After an error the object remains with the library; there is no other
        // action possible here.
        unsafe { (self.give_back)(self.as_ptr()) };
    }
}
