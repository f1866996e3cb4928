//! When pollers that find nothing give the processor to other programs (sched_yield(2)).
//!
//! With more programs than processors, the process that has the answer may wait for this processor;
//! a peer that runs answers long before. But a program may poll while it holds a lock for which
//! another of its threads spins (NIXL's thread does, with UCX's): it would lose the processor only
//! here, so that the other thread always finds the lock taken. If the given time went to threads of
//! this process, none is given for a while.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How often one does not give way then.
const REST: u32 = 4096;
/// A shorter absence does not count as losing the processor.
const LOST: Duration = Duration::from_micros(100);

#[derive(Default)]
pub(super) struct YieldPolicy {
    /// So often one does not give way.
    rest: AtomicU32,
    /// The last absence was long: the processor time of this process is queried only then.
    wary: AtomicBool,
}

impl YieldPolicy {
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
        if let Some(before) = used.filter(|_| away >= LOST) {
            self.learn(away, self::used().saturating_sub(before));
        }
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
}
