//! Fences of which one side pays for both (membarrier(2)).
//!
//! Two threads that each write a word and then read the other's need a full fence in between, so that
//! one at least sees the other. Where one of them does so all the time and the other hardly ever, the
//! rare one has the kernel fence all processors that run such threads, and the frequent one needs to
//! keep its compiler from exchanging the two, no more.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed, Ordering::SeqCst, compiler_fence, fence};
use rustix::thread::{MembarrierCommand, membarrier};
use std::time::Duration;

/// Longer than any processor keeps a write to itself.
const AGES: Duration = Duration::from_millis(1);

/// Whether something can be had, once that was asked.
struct Known(AtomicU8);

const UNKNOWN: u8 = 0;
const YES: u8 = 1;
const NO: u8 = 2;

impl Known {
    const fn new() -> Self {
        Self(AtomicU8::new(UNKNOWN))
    }

    #[inline]
    fn get(&self, ask: impl FnOnce() -> bool) -> bool {
        match self.0.load(Relaxed) {
            UNKNOWN => {
                let answer = if ask() { YES } else { NO };
                self.0.store(answer, Relaxed);
                answer == YES
            }
            known => known == YES,
        }
    }
}

static PRIVATE: Known = Known::new();

/// Whether [`heavy`] can be had: then [`light`] is enough for the others.
#[must_use]
pub fn is_there() -> bool {
    PRIVATE.get(registered)
}

fn registered() -> bool {
    membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
}

fn fenced() -> bool {
    membarrier(MembarrierCommand::PrivateExpedited).is_ok()
}

/// Has [`heavy_shared`] of other processes count here. Answers whether it does, and can be had.
#[must_use]
pub fn share() -> bool {
    membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok()
}

/// As [`heavy`], for the threads of all processes that [`share`]. Answers whether that was done.
#[must_use]
pub fn heavy_shared() -> bool {
    fence(SeqCst);
    membarrier(MembarrierCommand::GlobalExpedited).is_ok()
}

/// In place of a fence that cannot be had any more: waits until what others wrote before is seen.
pub fn wait_ages() {
    std::thread::sleep(AGES);
    fence(SeqCst);
}

/// Between the two steps of whoever takes them all the time.
#[inline(always)]
pub fn light() {
    compiler_fence(SeqCst);
}

/// Between the two steps of whoever hardly takes them: as if every other thread of this process that
/// has called [`light`] had called a full fence there.
pub fn heavy() {
    fence(SeqCst);
    // A child whose parent has asked for it, on a kernel that forgets that.
    if fenced() || (registered() && fenced()) {
        return;
    }
    // A filter of system calls that came later. Nobody is to rely on this again, and who does already
    // has long done what he did before.
    PRIVATE.0.store(NO, Relaxed);
    wait_ages();
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU32;

    #[test]
    fn one_of_two_sees_the_other() {
        if !is_there() || !share() {
            println!("skipped: no membarrier(2) here");
            return;
        }
        let (turn, often, seldom) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..2000 {
                    while turn.load(SeqCst) != 2 * round - 1 {
                        std::thread::yield_now();
                    }
                    often.store(round, Relaxed);
                    light();
                    let saw = seldom.load(Relaxed) == round;
                    turn.store(2 * round + u32::from(saw) * 0x8000_0000, SeqCst);
                }
            });
            for round in 1..2000 {
                turn.store(2 * round - 1, SeqCst);
                seldom.store(round, Relaxed);
                if round % 2 == 0 {
                    heavy();
                } else {
                    assert!(heavy_shared());
                }
                let saw = often.load(Relaxed) == round;
                while turn.load(SeqCst) == 2 * round - 1 {
                    std::thread::yield_now();
                }
                assert!(saw || turn.load(SeqCst) & 0x8000_0000 != 0, "round {round}");
            }
        });
    }
}
