//! One at a time.

use super::Bias;
use core::fmt;
use core::ops::{Deref, DerefMut};
use parking_lot::{Condvar, MutexGuard};

/// A mutual exclusion, as [`parking_lot::Mutex`], with a favourite.
pub struct Mutex<T> {
    bias: Bias,
    lock: parking_lot::Mutex<T>,
}

/// What a [`Mutex`] holds, alone.
pub struct Guard<'a, T> {
    mutex: &'a Mutex<T>,
    /// `None` for the favourite. Not `Send`, so that who leaves is who entered.
    pub(super) held: Option<MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// Unlocked.
    pub const fn new(value: T) -> Self {
        Self {
            bias: Bias::new(),
            lock: parking_lot::Mutex::new(value),
        }
    }

    /// Waits until nobody else has it.
    #[inline(always)]
    pub fn lock(&self) -> Guard<'_, T> {
        if self.bias.enter(true) {
            return Guard {
                mutex: self,
                held: None,
            };
        }
        self.lock_itself()
    }

    #[inline]
    fn lock_itself(&self) -> Guard<'_, T> {
        let held = self.lock.lock();
        self.bias.close();
        self.bias.wait();
        self.bias.note();
        Guard {
            mutex: self,
            held: Some(held),
        }
    }

    /// `None` if another has it.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        if self.bias.enter(true) {
            return Some(Guard {
                mutex: self,
                held: None,
            });
        }
        if self.bias.is_inside() {
            return None;
        }
        let held = self.lock.try_lock()?;
        self.bias.close();
        if self.bias.is_inside() {
            return None;
        }
        self.bias.note();
        Some(Guard {
            mutex: self,
            held: Some(held),
        })
    }

    /// Nobody else can have it.
    pub fn get_mut(&mut self) -> &mut T {
        self.lock.get_mut()
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

impl<T> Guard<'_, T> {
    /// Gives it up until there is news by the condition, or no reason at all: to be called until what
    /// is waited for is there.
    pub fn wait(&mut self, condition: &Condvar) {
        match &mut self.held {
            Some(held) => condition.wait(held),
            None => {
                // Nobody tells of news in between but who has the lock, so the caller has to look.
                self.mutex.bias.leave();
                self.held = Some(self.mutex.lock.lock());
            }
        }
        self.mutex.bias.close();
        self.mutex.bias.wait();
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: whoever has a guard is alone: it has the lock, and the favourite is outside and finds
        // it closed; or it is the favourite, and who has the lock waits.
        unsafe { &*self.mutex.lock.data_ptr() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.mutex.lock.data_ptr() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.held.is_none() {
            self.mutex.bias.leave();
        }
    }
}
