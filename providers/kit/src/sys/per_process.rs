//! A value that a forked child starts anew.
//!
//! The address of the value is in a page that the kernel zeroes in a child, however the child was
//! made (fork(2), a bare clone(2)). A child therefore does not see a lock that another thread held
//! at the moment of the fork, or a value that it was changing. Kernels before 4.14 cannot zero the
//! page; there the child keeps the parent's value.

use super::madvise::Page;
use crate::errno::Result;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire};

/// One `T` a process, made at the first use and kept for good.
pub struct PerProcess<T> {
    /// The page; null before the first use.
    cell: AtomicPtr<AtomicPtr<T>>,
}

impl<T: Default + Send + Sync> PerProcess<T> {
    /// No value yet.
    pub const fn new() -> Self {
        Self {
            cell: AtomicPtr::new(null_mut()),
        }
    }

    /// This process's value.
    ///
    /// # Errors
    /// ENOMEM at the first use.
    #[inline(always)]
    pub fn get(&self) -> Result<&T> {
        // SAFETY: a non-null cell is a leaked page that begins with an AtomicPtr (zeroed: null).
        let cell = match unsafe { self.cell.load(Acquire).as_ref() } {
            Some(cell) => cell,
            None => self.new_cell()?,
        };
        // SAFETY: a non-null value is a leaked box of this process.
        if let Some(value) = unsafe { cell.load(Acquire).as_ref() } {
            return Ok(value);
        }
        Ok(Self::new_value(cell))
    }

    /// This process's value, if it has been made.
    #[inline(always)]
    pub fn made(&self) -> Option<&T> {
        // SAFETY: as in `get`.
        let cell = unsafe { self.cell.load(Acquire).as_ref() }?;
        // SAFETY: as in `get`.
        unsafe { cell.load(Acquire).as_ref() }
    }

    #[cold]
    fn new_cell(&self) -> Result<&AtomicPtr<T>> {
        let page = Page::new()?;
        // Before 4.14, see above.
        let _ = page.wipe_on_fork();
        let new = page.as_ptr().cast();
        match self.cell.compare_exchange(null_mut(), new, AcqRel, Acquire) {
            Ok(_) => {
                let cell = page.leak().cast::<AtomicPtr<T>>();
                // SAFETY: a whole page, zeroed, kept for good.
                Ok(unsafe { cell.as_ref() })
            }
            // SAFETY: another thread was faster; its cell is kept for good.
            Err(cell) => Ok(unsafe { &*cell }),
        }
    }

    #[cold]
    fn new_value(cell: &AtomicPtr<T>) -> &T {
        let new = Box::into_raw(Box::<T>::default());
        match cell.compare_exchange(null_mut(), new, AcqRel, Acquire) {
            // SAFETY: just made, and kept for good.
            Ok(_) => unsafe { &*new },
            Err(value) => {
                // SAFETY: no other thread has seen the new value; the faster thread's stays for
                // good.
                unsafe {
                    drop(Box::from_raw(new));
                    &*value
                }
            }
        }
    }
}

impl<T: Default + Send + Sync> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}
