//! The lock of a queue that is posted to and polled.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, Ordering};
use parking_lot::lock_api::{self, GuardSend, RawMutex};

/// A queue behind a lock that is taken and given back in a few instructions. Whoever finds it
/// taken tries again, and lets others run after a while: it is held for as long as it takes to
/// write or read some entries.
pub type Lock<T> = lock_api::Mutex<Spin, T>;

/// The lock itself.
pub struct Spin(AtomicBool);

/// How often a taken lock is looked at before others are let run.
const LOOKS: u32 = 100;

impl Spin {
    #[cold]
    #[inline(never)]
    fn wait(&self) {
        loop {
            for _ in 0..LOOKS {
                if !self.0.load(Ordering::Relaxed) && self.try_lock() {
                    return;
                }
                spin_loop();
            }
            std::thread::yield_now();
        }
    }
}

// SAFETY: only one of those who exchange finds that it was not taken, and acquires what was
// released by whoever gave it back.
unsafe impl RawMutex for Spin {
    const INIT: Self = Self(AtomicBool::new(false));

    type GuardMarker = GuardSend;

    #[inline]
    fn lock(&self) {
        if !self.try_lock() {
            self.wait();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        !self.0.swap(true, Ordering::Acquire)
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }
}
