//! A value that is made at its first use, and waits for no thread.
//!
//! `OnceLock` and `LazyLock` have one thread make the value and all others wait. A child that is
//! forked meanwhile waits for ever for a thread that it does not have. Here each thread that finds
//! no value makes one; the first to store it wins, and the others drop theirs. So making it must be
//! free of effects, or harmless to repeat.

use core::marker::PhantomData;
use core::ptr::null_mut;
use core::sync::atomic::{
    AtomicPtr, AtomicU8, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed,
};

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

/// A yes or no that is found at its first use, as [`First`] makes a value. It allocates no memory,
/// which a static would lose when the library is unloaded.
#[derive(Debug)]
pub struct Answer(AtomicU8);

const OPEN: u8 = 0;
const NO: u8 = 1;
const YES: u8 = 2;

impl Answer {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU8::new(OPEN))
    }

    /// The answer; found, if there is none.
    pub fn get_or_find(&self, find: impl FnOnce() -> bool) -> bool {
        let known = self.0.load(Relaxed);
        if known != OPEN {
            return known == YES;
        }
        let found = if find() { YES } else { NO };
        // No other memory goes with it.
        let first = self.0.compare_exchange(OPEN, found, Relaxed, Relaxed);
        first.err().unwrap_or(found) == YES
    }
}

impl Default for Answer {
    fn default() -> Self {
        Self::new()
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

    #[test]
    fn an_answer_stays() {
        for first in [true, false] {
            let answer = Answer::new();
            assert_eq!(answer.get_or_find(|| first), first);
            assert_eq!(answer.get_or_find(|| !first), first);
        }
    }

    #[test]
    fn the_first_of_two_answers_holds() {
        let answer = Answer::new();
        let outer = answer.get_or_find(|| {
            assert!(answer.get_or_find(|| true));
            false
        });
        assert!(outer);
    }
}
