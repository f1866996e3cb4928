//! A heap of deadlines.

use crate::node::registry::NEVER;
use kit::sync::Mutex;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use uroce_engine::timer::Time;

/// Deadlines from which on those that mean nothing any more are looked for.
const MANY: usize = 4096;

/// Deadlines. One that moved to a later time stays, and is looked at again when it has come; so a
/// connection that is answered all the time costs one step per timeout and not one per packet.
///
/// A deadline that moves to an earlier time leaves the later entry, and a removed queue pair leaves
/// its last entry. Timeouts may be hours, so stale entries are removed when they may be half of
/// all.
pub(super) struct Timers {
    heap: Mutex<Heap>,
    next: AtomicU64,
}

struct Heap {
    entries: BinaryHeap<Reverse<(u64, u32)>>,
    /// How many there may be until they are swept.
    bound: usize,
}

impl Timers {
    pub fn new() -> Self {
        Self {
            heap: Mutex::new(Heap {
                entries: BinaryHeap::new(),
                bound: MANY,
            }),
            next: AtomicU64::new(NEVER),
        }
    }

    /// The earliest deadline; `NEVER` without one.
    pub fn next(&self) -> u64 {
        self.next.load(SeqCst)
    }

    /// Adds a deadline. `known` returns whether a thread handles the deadline; if not, it has to be
    /// added again before one does.
    pub fn add(&self, time: u64, index: u32, known: impl Fn(u64, u32) -> bool) {
        let mut heap = self.heap.lock();
        let Heap { entries, bound } = &mut *heap;
        entries.push(Reverse((time, index)));
        if entries.len() > *bound {
            entries.retain(|Reverse((time, index))| known(*time, *index));
            *bound = MANY.max(2 * entries.len());
        }
        self.refresh(entries);
    }

    /// An expired deadline, and its owner.
    pub fn expired(&self, now: Time) -> Option<(u64, u32)> {
        if self.next() > now.nanos() {
            return None;
        }
        let heap = &mut self.heap.lock().entries;
        let Reverse((time, _)) = heap.peek()?;
        if *time > now.nanos() {
            return None;
        }
        let Reverse(entry) = heap.pop()?;
        self.refresh(heap);
        Some(entry)
    }

    fn refresh(&self, heap: &BinaryHeap<Reverse<(u64, u32)>>) {
        let next = heap.peek().map_or(NEVER, |Reverse((time, _))| *time);
        self.next.store(next, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_entries_are_removed() {
        let timers = Timers::new();
        for time in (1..1_000_000).rev() {
            timers.add(time, 0, |known, _| known == time);
            assert_eq!(timers.next(), time);
        }
        assert!(timers.heap.lock().entries.len() <= MANY + 1);
        assert_eq!(timers.expired(Time::from_nanos(1)), Some((1, 0)));
    }

    #[test]
    fn used_entries_stay() {
        let timers = Timers::new();
        let many = 3 * u32::try_from(MANY).unwrap_or(0);
        for index in 0..many {
            timers.add(7, index, |_, _| true);
        }
        let all = (0..many).filter(|_| timers.expired(Time::from_nanos(7)).is_some());
        assert_eq!(all.count(), 3 * MANY);
        assert_eq!(timers.next(), NEVER);
    }
}
