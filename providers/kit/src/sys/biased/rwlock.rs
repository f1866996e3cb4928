//! Many who read, or one who writes.

use super::Bias;
use core::fmt;
use core::ops::Deref;
use parking_lot::{RwLockReadGuard, RwLockWriteGuard};

/// A lock for many who read or one who writes, as [`parking_lot::RwLock`], with a favourite among those
/// who read.
pub struct RwLock<T> {
    bias: Bias,
    lock: parking_lot::RwLock<T>,
}

/// What a [`RwLock`] holds, to be read.
pub struct ReadGuard<'a, T> {
    lock: &'a RwLock<T>,
    /// `None` for the favourite. Not `Send`, so that who leaves is who entered.
    pub(super) held: Option<RwLockReadGuard<'a, T>>,
}

impl<T> RwLock<T> {
    /// Unlocked.
    pub const fn new(value: T) -> Self {
        Self {
            bias: Bias::new(),
            lock: parking_lot::RwLock::new(value),
        }
    }

    /// Waits until nobody writes. Who reads already may read once more, though another waits to write.
    #[inline(always)]
    pub fn read(&self) -> ReadGuard<'_, T> {
        if self.bias.enter(false) {
            return ReadGuard {
                lock: self,
                held: None,
            };
        }
        self.read_itself()
    }

    #[inline]
    fn read_itself(&self) -> ReadGuard<'_, T> {
        let held = self.lock.read_recursive();
        self.bias.note();
        ReadGuard {
            lock: self,
            held: Some(held),
        }
    }

    /// Waits until nobody else has it.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let held = self.lock.write();
        self.bias.close();
        self.bias.wait();
        held
    }
}

impl<T> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").finish_non_exhaustive()
    }
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: while there is a guard nobody writes: it has the lock; or it is the favourite's, and
        // who has the lock to write waits.
        unsafe { &*self.lock.lock.data_ptr() }
    }
}

impl<T> Drop for ReadGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.held.is_none() {
            self.lock.bias.leave();
        }
    }
}
