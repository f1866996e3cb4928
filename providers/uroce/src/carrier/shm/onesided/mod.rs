//! RDMA writes and reads that the initiator carries out by itself, in the memory of a process of this
//! host: what processes show each other for it.
//!
//! A process shows two tables in its segment: a [`Gate`] for each of its queue pairs and a [`Key`] for
//! each of its regions and windows. Both are copies of what it goes by itself; where they do not say
//! that a request is all right, the request goes by packets, and the other side's word counts. Before
//! an initiator uses what it has read there, it says so in its own segment ([`claims::Claim`]), and reads it
//! again. A process that takes a gate or a key away changes the table first, and then waits until no
//! peer says that it uses it.

mod claims;
mod credit;
mod gate;
mod key;
mod mapped;
mod record;
#[cfg(test)]
mod tests;

pub use claims::{Claims, Use};
pub use credit::Credit;
pub use gate::{Gate, Right};
pub use key::Key;
pub use mapped::Mapped;

use super::segment::Segment;
use std::sync::atomic::AtomicU64;

/// Where the parts of the tables begin, in words from the beginning of [`Segment::tables`]. Gates are
/// as many as a process has queue pairs, and so are credits; keys as many as there is room for, the rest
/// is not shown.
const CLAIMS: usize = 0;
const GATES: usize = 1024;
const CREDITS: usize = GATES + QPS * gate::WORDS;
const KEYS: usize = CREDITS + QPS * credit::WORDS;
/// Queue pairs that a process may have.
const QPS: usize = 1 << 14;

fn part(segment: &Segment, start: usize, words: usize) -> Option<&[AtomicU64]> {
    segment.tables().get(start..start.checked_add(words)?)
}

/// What is shown of a queue pair, in the part of the tables that begins there; `None` for an index that there
/// is not.
#[inline]
fn of_qp(segment: &Segment, start: usize, index: u32, words: usize) -> Option<&[AtomicU64]> {
    let index = usize::try_from(index).ok().filter(|index| *index < QPS)?;
    part(segment, start + index * words, words)
}

/// The place of a queue pair's gate.
#[inline]
fn gate_at(segment: &Segment, index: u32) -> Option<&[AtomicU64]> {
    of_qp(segment, GATES, index, gate::WORDS)
}

/// The place of a queue pair's credit.
#[inline]
fn credit_at(segment: &Segment, index: u32) -> Option<&[AtomicU64]> {
    of_qp(segment, CREDITS, index, credit::WORDS)
}

/// A gate that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateSeen {
    index: u32,
    /// How often it had been changed.
    count: u64,
}

/// The place of a key; `None` for one that is not shown.
fn key_at(segment: &Segment, index: u32) -> Option<&[AtomicU64]> {
    let start = usize::try_from(index).ok()?.checked_mul(key::WORDS)?;
    part(segment, KEYS.checked_add(start)?, key::WORDS)
}

/// A gate and a key, as they were read.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// The gate.
    pub gate: Gate,
    /// What the key stands for.
    pub key: Key,
    index: u32,
    rkey: u32,
    /// How often the gate and the key had been changed.
    counts: [u64; 2],
}

impl Shown {
    /// Whether it is of that gate and that key.
    #[must_use]
    #[inline]
    pub fn is_of(&self, index: u32, rkey: u32) -> bool {
        self.index == index && self.rkey == rkey
    }

    /// Whether the other is of the same key, which has not been changed between the two.
    #[must_use]
    pub fn has_key_of(&self, other: &Self) -> bool {
        let ([_, count], [_, others]) = (self.counts, other.counts);
        self.rkey == other.rkey && count == others
    }
}

/// What a segment shows.
impl Segment {
    fn read_gate(&self, index: u32) -> Option<(Gate, u64)> {
        let (count, words) = record::read(gate_at(self, index)?)?;
        Some((Gate::of(words)?, count))
    }

    /// `None` also for a key that is not shown, or of another tag.
    fn read_key(&self, key: u32) -> Option<(Key, u64)> {
        let (count, words) = record::read(key_at(self, key >> 8)?)?;
        let there = Key::of(words)?;
        (u32::from(there.tag) == key & 0xff).then_some((there, count))
    }

    /// The gate of the queue pair of that index, and what a key stands for; `None` unless both are there.
    #[must_use]
    pub fn shown(&self, index: u32, rkey: u32) -> Option<Shown> {
        let (gate, gate_count) = self.read_gate(index)?;
        let (key, key_count) = self.read_key(rkey)?;
        Some(Shown {
            gate,
            key,
            index,
            rkey,
            counts: [gate_count, key_count],
        })
    }

    /// The gate of the queue pair of that index.
    #[must_use]
    pub fn gate_seen(&self, index: u32) -> Option<(Gate, GateSeen)> {
        let (gate, count) = self.read_gate(index)?;
        Some((gate, GateSeen { index, count }))
    }

    /// Whether the gate is still the one that was read.
    #[must_use]
    #[inline]
    pub fn gate_is_still(&self, seen: GateSeen) -> bool {
        gate_at(self, seen.index).is_some_and(|place| record::is_still(place, seen.count))
    }

    /// The credit of the queue pair of that index. It is good as long as the gate is that was read before.
    #[must_use]
    pub fn credit(&self, index: u32) -> Option<Credit> {
        Credit::read(credit_at(self, index)?)
    }

    /// Shows a credit. One at a time for each index.
    #[inline]
    pub fn show_credit(&self, index: u32, credit: Credit) {
        if let Some(place) = credit_at(self, index) {
            credit.show(place);
        }
    }

    /// Whether gate and key are still those that were read.
    #[must_use]
    #[inline]
    pub fn still_shows(&self, shown: &Shown) -> bool {
        let [gate, key] = shown.counts;
        gate_at(self, shown.index).is_some_and(|place| record::is_still(place, gate))
            && key_at(self, shown.rkey >> 8).is_some_and(|place| record::is_still(place, key))
    }

    /// Shows a gate. One at a time for each index.
    pub fn show_gate(&self, index: u32, gate: Option<Gate>) {
        if let Some(place) = gate_at(self, index) {
            record::write(place, gate.map_or([0; gate::WORDS - 1], Gate::words));
        }
    }

    /// Shows what a key's index stands for. One at a time for each index.
    pub fn show_key(&self, index: u32, key: Option<Key>) {
        if let Some(place) = key_at(self, index) {
            record::write(place, key.map_or([0; key::WORDS - 1], Key::words));
        }
    }
}
