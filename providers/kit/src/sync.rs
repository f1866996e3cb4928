//! Locks and conditions for this process's threads: those of std, without poisoning (a panic ends
//! the process).
//!
//! Such a lock consists only of its value: threads wait at its address (futex(2)). Locks that keep
//! their waiting threads in a process-wide table are unsuitable for this library. A child of
//! fork(2) may find the table locked by a thread that does not exist in the child, and entries of
//! threads whose stacks are gone: it would hang at any lock that two of its threads want, or crash.
//!
//! [`crate::sys::forks`] describes the state of such a value in a child, and of a lock that another
//! thread held. Where instructions count, there is [`crate::sys::lock`].
#![forbid(unsafe_code)]

use std::sync::{self, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// A value that one thread at a time has.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(sync::Mutex<T>);

/// It, locked.
pub type MutexGuard<'a, T> = sync::MutexGuard<'a, T>;

impl<T> Mutex<T> {
    /// A free one.
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until no other thread has it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` if a thread has it.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The value of a lock to which there is no other reference.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A value that one thread changes or several read at a time.
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(sync::RwLock<T>);

/// It, locked to be read.
pub type RwLockReadGuard<'a, T> = sync::RwLockReadGuard<'a, T>;

/// It, locked to be changed.
pub type RwLockWriteGuard<'a, T> = sync::RwLockWriteGuard<'a, T>;

impl<T> RwLock<T> {
    /// A free one.
    pub const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no thread changes the value or waits for that.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other thread has it.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A condition on which threads wait that hold a [`Mutex`]. Spurious wake-ups are possible.
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// One for which no thread waits.
    pub const fn new() -> Self {
        Self(sync::Condvar::new())
    }

    /// Wakes one thread.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Gives the lock back, waits, and takes it again.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Self::wait`], for so long at most; also returns whether that time has passed.
    pub fn wait_for<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let waited = self.0.wait_timeout(guard, time);
        let (guard, result) = waited.unwrap_or_else(PoisonError::into_inner);
        (guard, result.timed_out())
    }

    /// As [`Self::wait`], until then at most; also returns whether that time has come.
    pub fn wait_until<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        until: Instant,
    ) -> (MutexGuard<'a, T>, bool) {
        self.wait_for(guard, until.saturating_duration_since(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn a_lock_that_is_taken_is_not_had_by_trying() {
        let mut lock = Mutex::new(1);
        let held = lock.try_lock();
        assert!(held.is_some() && lock.try_lock().is_none());
        drop(held);
        *lock.get_mut() += 1;
        assert_eq!(*lock.lock(), 2);
        assert_eq!(lock.into_inner(), 2);
    }

    #[test]
    fn a_panic_spoils_nothing() {
        let shared = Arc::new((Mutex::new(1), RwLock::new(2)));
        let of_thread = Arc::clone(&shared);
        let panicked = thread::spawn(move || {
            let _held = (of_thread.0.lock(), of_thread.1.write());
            // Without a message.
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(panicked.join().is_err());
        assert_eq!((*shared.0.lock(), *shared.1.read()), (1, 2));
        assert!(shared.0.try_lock().is_some());
    }

    #[test]
    fn waiting_ends_with_a_notification_or_in_time() {
        let (count, changed) = (Mutex::new(0), Condvar::new());
        let (guard, late) = changed.wait_for(count.lock(), Duration::from_millis(1));
        drop(guard);
        let past = Instant::now();
        assert!(late || changed.wait_until(count.lock(), past).1);
        thread::scope(|threads| {
            threads.spawn(|| {
                *count.lock() += 1;
                changed.notify_all();
            });
            let mut count = count.lock();
            while *count == 0 {
                count = changed.wait(count);
            }
        });
        assert_eq!(count.into_inner(), 1);
    }
}
