//! References that may outlive their targets.

use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;

/// A reference to memory that the function holding it may free. A plain reference, as an argument
/// or within one, promises that its target exists until that function returns.
pub(super) struct Lent<'a, T> {
    at: NonNull<T>,
    lifetime: PhantomData<&'a T>,
}

impl<'a, T> Lent<'a, T> {
    pub(super) fn new(it: &'a T) -> Self {
        Self {
            at: NonNull::from(it),
            lifetime: PhantomData,
        }
    }

    /// A plain reference, for code that does not free the place.
    pub(super) fn plain(&self) -> &'a T {
        // SAFETY: made of a reference; code that frees the place early vouches that it is not used
        // after.
        unsafe { self.at.as_ref() }
    }
}

impl<T> Deref for Lent<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.plain()
    }
}
