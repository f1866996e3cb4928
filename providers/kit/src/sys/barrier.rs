//! Barriers that one thread has others pass (membarrier(2)), so that they need none themselves.
//!
//! Where each of two threads writes a word and then reads the other's, one of them has to see the
//! other's write. That takes a full fence on both sides, or a barrier on the side that does it less
//! often.
//!
//! A process has to request such barriers ([`prepare`]). If it has several threads by then, the
//! kernel takes milliseconds for the request, so it is not made when a barrier is needed: until the
//! request there are no barriers.

use core::sync::atomic::{AtomicBool, Ordering};
use rustix::thread::{MembarrierCommand, membarrier};

/// A kind of barrier: its command, and the command that has to precede it.
struct Kind {
    registration: MembarrierCommand,
    command: MembarrierCommand,
    is_ready: AtomicBool,
}

static PRIVATE: Kind = Kind {
    registration: MembarrierCommand::RegisterPrivateExpedited,
    command: MembarrierCommand::PrivateExpedited,
    is_ready: AtomicBool::new(false),
};

static SHARED: Kind = Kind {
    registration: MembarrierCommand::RegisterGlobalExpedited,
    command: MembarrierCommand::GlobalExpedited,
    is_ready: AtomicBool::new(false),
};

impl Kind {
    /// Whether this process may use it. One that was forked may if its parent might.
    fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    fn register(&self) {
        if !cfg!(miri) && !self.is_ready() && membarrier(self.registration).is_ok() {
            self.is_ready.store(true, Ordering::Release);
        }
    }

    fn pass(&self) -> bool {
        self.is_ready() && membarrier(self.command).is_ok()
    }
}

/// From when this returns on there are barriers, if the kernel has them. In a process of several
/// threads it takes some 20 ms: two grace periods of RCU, for which the kernel waits.
pub fn prepare() {
    PRIVATE.register();
    SHARED.register();
}

/// Makes all threads of this process pass a full barrier. When this returns, the caller sees all
/// writes of each thread before its barrier, and each thread sees after its barrier all writes of
/// the caller before the call. `false`, without any guarantee, before [`prepare`], and if the
/// kernel lacks the call or a filter forbids it.
#[must_use]
pub fn private() -> bool {
    PRIVATE.pass()
}

/// Whether this process passes barriers that others ask for by [`shared`], and may ask for some
/// itself.
#[must_use]
pub fn takes_part() -> bool {
    SHARED.is_ready()
}

/// As [`private`], for the threads of all processes that take part ([`takes_part`]).
#[must_use]
pub fn shared() -> bool {
    SHARED.pass()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::{Relaxed, Release};
    use std::sync::atomic::compiler_fence;
    use std::thread;

    /// Two write and look, one with a plain store, the other with a barrier: one of them sees the
    /// other.
    fn one_sees_the_other(barrier: fn() -> bool) {
        const TURNS: u32 = 2_000;
        let (quick, slow, turn) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        let saw = AtomicU32::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=TURNS {
                    while turn.load(Relaxed) != number {
                        thread::yield_now();
                    }
                    quick.store(number, Release);
                    compiler_fence(Ordering::SeqCst);
                    let seen = u32::from(slow.load(Relaxed) == number);
                    saw.store(number << 1 | seen, Release);
                }
            });
            for number in 1..=TURNS {
                turn.store(number, Release);
                slow.store(number, Release);
                assert!(barrier());
                let seen = quick.load(Relaxed) == number;
                while saw.load(Ordering::Acquire) >> 1 != number {
                    thread::yield_now();
                }
                assert!(seen || saw.load(Relaxed) & 1 == 1, "turn {number}");
            }
        });
    }

    #[test]
    fn one_of_two_threads_sees_the_other() {
        prepare();
        if private() {
            one_sees_the_other(private);
        } else {
            println!("skipped: no membarrier(2)");
        }
    }

    #[test]
    fn so_does_one_of_two_that_take_part() {
        prepare();
        if takes_part() {
            one_sees_the_other(shared);
        } else {
            println!("skipped: no membarrier(2)");
        }
    }
}
