//! What this process uses of its peers at the moment, said in its own segment so that they wait.
//!
//! An initiator says what it is going to use, and then reads the peer's tables; who takes something
//! away writes his table, and then reads what peers say. Between the two steps of each is a full fence,
//! so that at least one of them sees the other: either the initiator finds the thing gone, or it is
//! waited for.

use super::super::directory::Directory;
use super::super::peer::Peer;
use super::{CLAIMS, Segment, part};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, fence};
use std::time::Duration;

/// Threads that use a peer at the same time. Whoever comes next goes another way.
const PLACES: usize = 64;
/// How often a peer is looked at before it is given time.
const SPINS: u32 = 4096;
const PAUSE: Duration = Duration::from_micros(50);
/// Words of a place: the gate, the key.
const WORDS: usize = 2;

/// A part of a peer that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The gate of the queue pair of that index.
    Gate(u32),
    /// The key of that index.
    Key(u32),
}

fn word(slot: u16, index: u32) -> u64 {
    1 << 63 | u64::from(slot) << 32 | u64::from(index)
}

fn places(segment: &Segment) -> &[AtomicU64] {
    part(segment, CLAIMS, PLACES * WORDS).unwrap_or_default()
}

impl Segment {
    /// Whether the process of this segment says that it uses that part of the process of `slot`.
    #[must_use]
    pub fn claims(&self, slot: u16, what: Use) -> bool {
        let (offset, wanted) = match what {
            Use::Gate(index) => (0, word(slot, index)),
            Use::Key(index) => (1, word(slot, index)),
        };
        let mut words = places(self).iter().skip(offset).step_by(WORDS);
        words.any(|place| place.load(Acquire) == wanted)
    }
}

impl Peer {
    /// Waits until the peer does not use that part of the process of `slot`, which has taken it away
    /// from its tables. A peer that has ended uses nothing. One that was stopped while it copies is
    /// waited for until it goes on.
    pub fn wait_for(&self, slot: u16, what: Use) {
        let mut turns: u32 = 0;
        while self.segment().claims(slot, what) {
            turns = turns.saturating_add(1);
            if turns < SPINS {
                std::hint::spin_loop();
            } else if self.has_ended() {
                return;
            } else {
                std::thread::sleep(PAUSE);
            }
        }
    }
}

impl Directory {
    /// Waits until nobody uses the gate of the queue pair of that index.
    pub fn wait_for_gate(&self, index: u32) {
        self.wait_for_all(Use::Gate(index));
    }

    /// Waits until no peer uses that part of this process, which was taken away from its tables.
    pub fn wait_for_all(&self, what: Use) {
        fence(SeqCst);
        for peer in self.peers() {
            peer.wait_for(self.slot(), what);
        }
    }
}

/// The places of this process, each of one thread at a time.
#[derive(Debug)]
pub struct Claims {
    taken: [AtomicBool; PLACES],
}

impl Default for Claims {
    fn default() -> Self {
        Self {
            taken: [const { AtomicBool::new(false) }; PLACES],
        }
    }
}

impl Claims {
    /// Says that a gate and a key of the process of `slot` are going to be used, until the answer is
    /// dropped. What is read of the peer's tables from then on holds as long. `None` if too many
    /// threads are at it.
    pub fn claim<'a>(
        &'a self,
        own: &'a Segment,
        slot: u16,
        gate: u32,
        key: u32,
    ) -> Option<Claim<'a>> {
        let places = places(own).chunks_exact(WORDS).zip(&self.taken);
        for (place, taken) in places {
            if taken.load(Relaxed) || taken.swap(true, Acquire) {
                continue;
            }
            let [gate_place, key_place] = place else {
                return None;
            };
            gate_place.store(word(slot, gate), Relaxed);
            key_place.store(word(slot, key), Relaxed);
            fence(SeqCst);
            return Some(Claim { place, taken });
        }
        None
    }
}

/// Something of a peer is in use.
#[derive(Debug)]
pub struct Claim<'a> {
    place: &'a [AtomicU64],
    taken: &'a AtomicBool,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        for word in self.place {
            // What was done is done before anybody sees that it is over.
            word.store(0, Release);
        }
        self.taken.store(false, Release);
    }
}
