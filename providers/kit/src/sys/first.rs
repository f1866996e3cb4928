//! A value that is made at its first use, and waits for no thread.
//!
//! `OnceLock` and `LazyLock` have one thread make the value and all others wait. A child that is
//! forked meanwhile waits for ever for a thread that it does not have. Here each thread that finds
//! no value makes one; the first to store it wins, and the others drop theirs. So making it must be
//! free of effects, or harmless to repeat.

use core::marker::PhantomData;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire};

/// A `T`, once it is wanted.
#[derive(Debug)]
pub struct First<T> {
    value: AtomicPtr<T>,
    owns: PhantomData<T>,
}

// SAFETY: a thread that drops it drops a value that another one may have made (`Send`); all threads
// share the value (`Sync`).
unsafe impl<T: Send + Sync> Sync for First<T> {}
// SAFETY: the value goes along.
unsafe impl<T: Send> Send for First<T> {}

impl<T> First<T> {
    /// No value yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            value: AtomicPtr::new(null_mut()),
            owns: PhantomData,
        }
    }

    /// The value; made, if it is not there.
    pub fn get_or_make(&self, make: impl FnOnce() -> T) -> &T {
        // SAFETY: a pointer that is not null is a box that lives as long as this.
        if let Some(value) = unsafe { self.value.load(Acquire).as_ref() } {
            return value;
        }
        let new = Box::into_raw(Box::new(make()));
        match self
            .value
            .compare_exchange(null_mut(), new, AcqRel, Acquire)
        {
            // SAFETY: just made, and kept as long as this.
            Ok(_) => unsafe { &*new },
            Err(value) => {
                // SAFETY: no other thread has seen the new one; the other is kept as long as this.
                unsafe {
                    drop(Box::from_raw(new));
                    &*value
                }
            }
        }
    }
}

impl<T> Default for First<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for First<T> {
    fn drop(&mut self) {
        let value = *self.value.get_mut();
        if !value.is_null() {
            // SAFETY: a box, to which nothing refers any more.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Barrier};
    use std::thread;

    #[test]
    fn all_threads_have_the_same_value_and_no_other_is_left() {
        let first = First::new();
        let both = Barrier::new(2);
        let kept = Arc::new(());
        let made = || {
            first.get_or_make(|| {
                // Both threads are making one.
                both.wait();
                Arc::clone(&kept)
            })
        };
        thread::scope(|threads| {
            let other = threads.spawn(|| core::ptr::from_ref(made()).addr());
            let own = core::ptr::from_ref(made()).addr();
            assert_eq!(other.join().unwrap(), own);
        });
        assert_eq!(Arc::strong_count(&kept), 2);
        drop(first);
        assert_eq!(Arc::strong_count(&kept), 1);
    }
}
