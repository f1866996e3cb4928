//! When which queue pair wants to be called.

use super::table::NEVER;
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use uroce_engine::timer::Time;

/// Deadlines. One that moved to a later time stays, and is looked at again when it has come; so a
/// connection that is answered all the time costs one step per timeout and not one per packet.
pub(super) struct Timers {
    heap: Mutex<BinaryHeap<Reverse<(u64, u32)>>>,
    next: AtomicU64,
}

impl Timers {
    pub fn new() -> Self {
        Self {
            heap: Mutex::new(BinaryHeap::new()),
            next: AtomicU64::new(NEVER),
        }
    }

    /// The earliest deadline; `NEVER` if there is none.
    pub fn next(&self) -> u64 {
        self.next.load(SeqCst)
    }

    /// Adds a deadline.
    pub fn add(&self, time: u64, index: u32) {
        let mut heap = self.heap.lock();
        heap.push(Reverse((time, index)));
        self.refresh(&heap);
    }

    /// A deadline that has passed, and whose it is.
    pub fn expired(&self, now: Time) -> Option<(u64, u32)> {
        if self.next() > now.nanos() {
            return None;
        }
        let mut heap = self.heap.lock();
        let Reverse((time, _)) = heap.peek()?;
        if *time > now.nanos() {
            return None;
        }
        let Reverse(entry) = heap.pop()?;
        self.refresh(&heap);
        Some(entry)
    }

    fn refresh(&self, heap: &BinaryHeap<Reverse<(u64, u32)>>) {
        let next = heap.peek().map_or(NEVER, |Reverse((time, _))| *time);
        self.next.store(next, SeqCst);
    }
}
