//! A lock that is held for a moment, on paths where instructions count.
//!
//! It is taken by one atomic exchange and released by a plain store. Other locks need two
//! exchanges, each of which waits until all earlier writes have left the processor. A thread that
//! finds it taken tries again a few times, and then sleeps (futex(2)).
//!
//! The owner releases it by a store, and then looks for sleepers. There is no fence between the
//! two, so the store may wait in the processor during the look. A thread that is going to sleep
//! therefore registers as a sleeper, makes all other threads pass a barrier ([`barrier::private`]),
//! and looks at the lock once more. Either it sees the store then, or the owner sees the sleeper.

use super::barrier;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicU32, Ordering, compiler_fence};
use lock_api::{GuardSend, RawMutex};
use rustix::thread::futex::{self, Flags, Timespec};

/// A value behind such a lock.
pub type Lock<T> = lock_api::Mutex<Brief, T>;

/// It, taken.
pub type Guard<'a, T> = lock_api::MutexGuard<'a, Brief, T>;

/// The lock itself.
pub struct Brief {
    taken: AtomicU32,
    /// Threads that sleep, or are about to.
    sleepers: AtomicU32,
}

const FREE: u32 = 0;
const TAKEN: u32 = 1;

/// How often a taken lock is looked at before its thread sleeps.
const LOOKS: u32 = 100;

/// How long a thread sleeps at most where there is no barrier: a wake may be missed there.
const LONGEST_SLEEP: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 1_000_000,
};

impl Brief {
    #[cold]
    #[inline(never)]
    fn wait(&self) {
        if self.look() {
            return;
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let timeout = (!barrier::private()).then_some(&LONGEST_SLEEP);
        while !self.look() {
            // Interrupted, woken, out of time, or not asleep at all since it was given back: all
            // the same.
            let _ = futex::wait(&self.taken, Flags::PRIVATE, TAKEN, timeout);
        }
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes the lock, if it is given back soon.
    fn look(&self) -> bool {
        for _ in 0..LOOKS {
            if self.taken.load(Ordering::Relaxed) == FREE && self.try_lock() {
                return true;
            }
            spin_loop();
        }
        false
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) {
        // There is no error that a futex of one's own could have.
        let _ = futex::wake(&self.taken, Flags::PRIVATE, 1);
    }
}

// SAFETY: only one of the threads that exchange finds the lock free, and that thread acquires the
// writes that the previous owner released.
unsafe impl RawMutex for Brief {
    const INIT: Self = Self {
        taken: AtomicU32::new(FREE),
        sleepers: AtomicU32::new(0),
    };

    type GuardMarker = GuardSend;

    #[inline]
    fn lock(&self) {
        if !self.try_lock() {
            self.wait();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        let exchanged =
            self.taken
                .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
        exchanged.is_ok()
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.taken.store(FREE, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            self.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    #[test]
    fn one_at_a_time() {
        const THREADS: u32 = 4;
        const TURNS: u32 = if cfg!(miri) { 50 } else { 20_000 };
        let count = Lock::new([0u32; 2]);
        let together = Barrier::new(4);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    together.wait();
                    for _ in 0..TURNS {
                        let mut count = count.lock();
                        count[0] += 1;
                        assert_eq!(count[0], count[1] + 1);
                        count[1] += 1;
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), [THREADS * TURNS; 2]);
    }

    #[test]
    fn one_that_is_taken_is_not_had_by_trying() {
        let lock = Lock::new(());
        let held = lock.try_lock();
        assert!(held.is_some() && lock.try_lock().is_none());
        drop(held);
        assert!(lock.try_lock().is_some());
    }

    /// Waits until a thread sleeps at the lock, or is about to.
    fn await_sleepers(lock: &Brief, count: u32) {
        while lock.sleepers.load(Ordering::Relaxed) < count {
            thread::yield_now();
        }
    }

    #[test]
    fn a_sleeping_thread_is_woken() {
        const SLEEPERS: u32 = 3;
        const ROUNDS: u32 = if cfg!(miri) { 3 } else { 200 };
        let lock = Lock::new(0u32);
        // SAFETY: it is looked at, neither taken nor given back.
        let raw = unsafe { lock.raw() };
        for _ in 0..ROUNDS {
            *lock.lock() = 0;
            thread::scope(|scope| {
                let held = lock.lock();
                for _ in 0..SLEEPERS {
                    scope.spawn(|| *lock.lock() += 1);
                }
                await_sleepers(raw, SLEEPERS);
                drop(held);
            });
            assert_eq!(*lock.lock(), SLEEPERS);
            assert_eq!(raw.sleepers.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn no_wake_is_missed_where_the_lock_changes_hands_at_the_last_moment() {
        const TURNS: u32 = if cfg!(miri) { 20 } else { 20_000 };
        // One holds it just about as long as the other looks, so that it is given back while that
        // one goes to sleep.
        let lock = Lock::new(0u32);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut spins = 0;
                while !done.load(Ordering::Relaxed) {
                    let held = lock.lock();
                    spins = (spins + 7) % 3000;
                    for _ in 0..spins {
                        spin_loop();
                    }
                    drop(held);
                }
            });
            for _ in 0..TURNS {
                *lock.lock() += 1;
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(lock.into_inner(), TURNS);
    }
}
