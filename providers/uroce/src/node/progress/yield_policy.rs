//! When pollers that find nothing give the processor to other programs (sched_yield(2)).
//!
//! With more programs than processors, the process that has the answer may wait for this processor;
//! a peer that runs answers long before. So a poller yields after many looks in vain. If another
//! program ran then, and gave the processor back soon, as programs that poll do, the next look in
//! vain is enough for a thread that does nothing but poll: the ranks of an MPI job that outnumber
//! the processors spend their time with messages, and not with looks. If the other program kept the
//! processor, it computes, and many looks in vain come first again.
//!
//! But a program may poll while it holds a lock for which another of its threads spins (NIXL's
//! thread does, with UCX's): it would lose the processor only here, so that the other thread always
//! finds the lock taken. If the given time went to threads of this process, none is given for a
//! while.

use kit::sys::sched;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How often one does not give way then.
const REST: u32 = 4096;
/// A shorter absence does not count as losing the processor.
const LOST: Duration = Duration::from_micros(100);
/// A call that yields to another thread takes longer, and one that does not may, on a slow
/// processor.
const SWITCH: Duration = Duration::from_micros(1);
/// A program that keeps the processor for longer computes: a time slice is 2.8 ms or more with two
/// processors (EEVDF).
const COMPUTES: Duration = Duration::from_millis(2);
/// So many calls after which no other thread ran end the time in which one look in vain is enough.
const IN_VAIN: u32 = 16;

thread_local! {
    /// The switches of this thread that are known.
    static SWITCHES: Cell<u64> = const { Cell::new(0) };
}

#[derive(Default)]
pub(super) struct YieldPolicy {
    /// So often one does not give way.
    rest: AtomicU32,
    /// The last absence was long: the processor time of this process is queried only then.
    wary: AtomicBool,
    /// The processor is shared with programs that poll, until so many more calls are in vain.
    shared: AtomicU32,
}

impl YieldPolicy {
    /// Whether other programs ran lately when this one gave way, and gave the processor back soon.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.shared.load(Relaxed) > 0
    }

    /// Yields the processor, unless that was useless recently.
    pub fn yield_processor(&self) {
        if self.rests() {
            return;
        }
        let used = self.wary.load(Relaxed).then(used);
        let began = Instant::now();
        std::thread::yield_now();
        let away = began.elapsed();
        self.wary.store(away >= LOST, Relaxed);
        self.was_away(away, is_switched);
        if let Some(before) = used.filter(|_| away >= LOST) {
            self.learn(away, self::used().saturating_sub(before));
        }
    }

    /// One was away for so long, perhaps because another thread ran.
    fn was_away(&self, away: Duration, is_switched: impl FnOnce() -> bool) {
        let shared = if away >= COMPUTES {
            0
        } else if away >= SWITCH && is_switched() {
            IN_VAIN
        } else {
            self.shared.load(Relaxed).saturating_sub(1)
        };
        self.shared.store(shared, Relaxed);
    }

    /// One was away for so long, and this process used so much of processors meanwhile.
    fn learn(&self, away: Duration, own: Duration) {
        if own >= away / 2 {
            self.rest.store(REST, Relaxed);
        }
    }

    /// That one call of two at once is not counted does no harm.
    fn rests(&self) -> bool {
        let rest = self.rest.load(Relaxed);
        self.rest.store(rest.saturating_sub(1), Relaxed);
        rest > 0
    }
}

/// Whether another thread took this one's processor since the last call; not where the process may
/// not ask.
fn is_switched() -> bool {
    let now = sched::switches().unwrap_or_default();
    let known = SWITCHES.try_with(|known| known.replace(now));
    known.is_ok_and(|known| known != now)
}

/// The processor time of this process; 0 if it may not ask.
fn used() -> Duration {
    kit::sys::clock::process_time().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_gave_way_to_its_own_process_rests() {
        let yield_policy = YieldPolicy::default();
        let [slice, little] = [3000, 10].map(Duration::from_micros);
        yield_policy.learn(slice, little);
        assert!(!yield_policy.rests(), "another program ran");
        yield_policy.learn(slice, slice - little);
        assert!((0..REST).all(|_| yield_policy.rests()));
        assert!(!yield_policy.rests());
    }

    #[test]
    fn a_processor_is_shared_after_another_program_ran_for_a_short_time() {
        let yield_policy = YieldPolicy::default();
        let [call, turn, slice] = [400, 5000, 3_000_000].map(Duration::from_nanos);
        yield_policy.was_away(call, || unreachable!("too short"));
        yield_policy.was_away(turn, || false);
        assert!(!yield_policy.is_shared(), "no other thread ran");
        for away in [call, turn] {
            yield_policy.was_away(turn, || true);
            for _ in 0..IN_VAIN {
                assert!(yield_policy.is_shared());
                yield_policy.was_away(away, || false);
            }
            assert!(!yield_policy.is_shared());
        }
        yield_policy.was_away(turn, || true);
        yield_policy.was_away(slice, || true);
        assert!(!yield_policy.is_shared(), "the other program computes");
    }

    #[test]
    fn switches_are_counted_once() {
        is_switched();
        while is_switched() {}
        SWITCHES.set(SWITCHES.get() + 1);
        assert!(is_switched());
    }
}
