//! Peers that end, and peers that take nothing of what is sent to them.

use super::core::Core;
use crate::carrier::shm::Peer;
use std::sync::Arc;

/// A peer that messages wait for.
struct Slow {
    peer: Arc<Peer>,
    /// Up to where it had taken records, and how long it was found there.
    taken: u64,
    nanos: u64,
}

/// Peers that messages wait for, as the helper sees them from time to time.
#[derive(Default)]
pub(super) struct Stalls {
    slow: Vec<Slow>,
    latest: u64,
}

/// How long there is from one look to the next, at least.
const EVERY: u64 = 40_000_000;
/// And at most, as far as it counts: where more time has passed, this process did not run, or the whole
/// machine did not, and then nobody was waited for.
const COUNTED: u64 = 100_000_000;

/// The nanoseconds from one look to the next, as far as they count.
fn counted(latest: u64, now: u64) -> u64 {
    now.saturating_sub(latest).min(COUNTED)
}

impl Stalls {
    /// Takes a look: answers who has taken nothing, for how many nanoseconds, and whose messages wait.
    fn look(&mut self, core: &Core, now: u64) -> Vec<(Arc<Peer>, u64, Vec<u32>)> {
        let Some(directory) = &core.directory else {
            return Vec::new();
        };
        if now.saturating_sub(self.latest) < EVERY {
            return Vec::new();
        }
        let step = counted(self.latest, now);
        self.latest = now;
        let mut stalled = Vec::new();
        let before = std::mem::take(&mut self.slow);
        for peer in directory.peers() {
            let (taken, senders) = peer.pending();
            if senders.is_empty() {
                continue;
            }
            let known = before
                .iter()
                .find(|slow| Arc::ptr_eq(&slow.peer, &peer) && slow.taken == taken);
            let nanos = known.map_or(0, |slow| slow.nanos + step);
            if known.is_some() {
                stalled.push((Arc::clone(&peer), nanos, senders));
            }
            self.slow.push(Slow { peer, taken, nanos });
        }
        stalled
    }
}

impl Core {
    /// For the helper, each time it wakes: at this time, perhaps because of what a process said.
    pub fn look_after_peers(&self, now: u64, said: bool) {
        let Some(directory) = &self.directory else {
            return;
        };
        if said {
            directory.attend();
        }
        let stalled = self.stalls.lock().look(self, now);
        for (peer, nanos, senders) in stalled {
            for index in senders.iter().filter_map(|number| self.index(*number)) {
                if let Some(entry) = self.table.get(index)
                    && let Some(endpoint) = entry.endpoint.read().as_deref()
                {
                    endpoint.stalled(&peer, nanos);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_counts_for_little() {
        let second = 1_000_000_000;
        assert_eq!(counted(7 * second, 7 * second + EVERY), EVERY);
        assert_eq!(counted(7 * second, 9 * second), COUNTED);
        assert_eq!(counted(7 * second, 6 * second), 0);
    }
}
