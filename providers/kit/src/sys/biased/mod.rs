//! Locks that cost no atomic operation while one thread alone uses them.
//!
//! Such a lock gets a favourite: the first thread that takes it many times in succession. The favourite
//! takes it by saying so in a word of its own, as long as the lock is open to it; another thread that
//! comes closes it, with a fence on the favourite's behalf (`sys::barrier`), and waits until the
//! favourite is out. From then on it is a lock as any other, until the favourite was alone with it for
//! longer than the last time.

mod mutex;
mod rwlock;
#[cfg(test)]
mod tests;

pub use mutex::{Guard, Mutex};
pub use rwlock::{ReadGuard, RwLock};

use super::{barrier, thread};
use core::cell::Cell;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::time::Duration;

/// So often in succession a thread takes a lock before it is open to it; twice as often after each
/// time that another came, up to a number beside which the fence is nothing.
const FIRST: u32 = 64;
const LAST: u32 = 4096;
/// Looks at a favourite that is inside, before it is given time.
const SPINS: u32 = 256;
const YIELDS: u32 = 1024;
const PAUSE: Duration = Duration::from_micros(50);

thread_local! {
    static HELPS: Cell<bool> = const { Cell::new(false) };
}

/// This thread is nobody's favourite: it only helps out others, who use the same locks more often.
pub fn helps() {
    HELPS.set(true);
}

/// To whom a lock is open.
struct Bias {
    /// The thread; 0 for none. It never changes to another: who was the favourite may be on the way in.
    favourite: AtomicUsize,
    /// How often the favourite is inside. Nobody else writes it.
    inside: AtomicUsize,
    /// The favourite need not take the lock itself.
    open: AtomicBool,
    /// How often the lock itself was taken in succession by the same thread, and which.
    run: AtomicU32,
    needed: AtomicU32,
    latest: AtomicUsize,
}

impl Bias {
    const fn new() -> Self {
        Self {
            favourite: AtomicUsize::new(0),
            inside: AtomicUsize::new(0),
            open: AtomicBool::new(false),
            run: AtomicU32::new(0),
            needed: AtomicU32::new(FIRST),
            latest: AtomicUsize::new(0),
        }
    }

    /// Whether this is the favourite, who is inside now and says [`Bias::leave`] later; with `alone`
    /// not if he is inside already.
    #[inline(always)]
    fn enter(&self, alone: bool) -> bool {
        if !self.open.load(Relaxed) || self.favourite.load(Relaxed) != thread::number() {
            return false;
        }
        let inside = self.inside.load(Relaxed);
        if alone && inside != 0 {
            return false;
        }
        self.inside.store(inside + 1, Relaxed);
        barrier::light();
        if self.open.load(Acquire) {
            return true;
        }
        self.inside.store(inside, Release);
        false
    }

    /// The favourite leaves.
    #[inline(always)]
    fn leave(&self) {
        let inside = self.inside.load(Relaxed);
        self.inside.store(inside - 1, Release);
    }

    fn is_inside(&self) -> bool {
        self.inside.load(Acquire) != 0
    }

    /// The favourite takes the lock itself from now on. The caller has it.
    fn close(&self) {
        if !self.open.load(Relaxed) {
            return;
        }
        self.open.store(false, Relaxed);
        self.run.store(0, Relaxed);
        let needed = self.needed.load(Relaxed);
        self.needed.store((needed * 2).min(LAST), Relaxed);
        if self.favourite.load(Relaxed) != thread::number() {
            barrier::heavy();
        }
    }

    /// Waits until the favourite is out. The caller has the lock, and has closed it.
    #[inline]
    fn wait(&self) {
        let mut turns: u32 = 0;
        while self.is_inside() {
            turns = turns.saturating_add(1);
            if turns < SPINS {
                core::hint::spin_loop();
            } else if turns < YIELDS {
                std::thread::yield_now();
            } else {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// A thread has taken the lock itself.
    #[inline]
    fn note(&self) {
        if self.open.load(Relaxed) {
            // Others read beside the favourite.
            return;
        }
        let this = thread::number();
        if self.latest.load(Relaxed) != this {
            self.latest.store(this, Relaxed);
            self.run.store(0, Relaxed);
            return;
        }
        let run = self.run.load(Relaxed).saturating_add(1);
        self.run.store(run, Relaxed);
        if run >= self.needed.load(Relaxed) {
            self.reopen(this);
        }
    }

    #[cold]
    fn reopen(&self, this: usize) {
        if HELPS.get() {
            self.run.store(0, Relaxed);
            return;
        }
        if !barrier::is_there() {
            self.needed.store(u32::MAX, Relaxed);
            return;
        }
        // Two may be here at once, where the lock is one for reading.
        let favourite = self
            .favourite
            .compare_exchange(0, this, Relaxed, Relaxed)
            .unwrap_or_else(|there| there);
        if favourite == 0 || favourite == this {
            self.open.store(true, Relaxed);
        }
    }
}
