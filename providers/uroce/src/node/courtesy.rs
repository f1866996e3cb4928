//! How pollers that find nothing give way to other programs.
//!
//! Who has the answer may be waiting for this processor. But a program may poll with a lock of its own held,
//! for which another of its threads spins: it would lose the processor nowhere else, so that the lock is taken
//! whenever the other one looks. Where the time that was given went to threads of this process, none is given
//! for a while, and the end of a slice of time comes anywhere.

use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How often one does not give way then.
const REST: u32 = 4096;
/// Who was away for less has not lost the processor to anybody for long.
const LOST: Duration = Duration::from_micros(100);

#[derive(Default)]
pub struct Courtesy {
    /// So often one does not give way.
    rest: AtomicU32,
    /// One was away for long the last time: to ask what this process uses is not for every time.
    wary: AtomicBool,
}

impl Courtesy {
    /// Lets others have the processor, unless that has turned out to be of no use lately.
    pub fn give_way(&self) {
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

/// What this process has used of processors.
fn used() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gave_to_its_own_threads_rests() {
        let courtesy = Courtesy::default();
        let [slice, little] = [3000, 10].map(Duration::from_micros);
        courtesy.learn(slice, little);
        assert!(!courtesy.rests(), "another program ran");
        courtesy.learn(slice, slice - little);
        assert!((0..REST).all(|_| courtesy.rests()));
        assert!(!courtesy.rests());
    }
}
