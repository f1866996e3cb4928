//! Slots by index. A slot never moves, and finding one takes no lock.

use super::entry::Entry;
use kit::errno::{Errno, Result};
use kit::sync::{Mutex, RwLock};
use std::collections::VecDeque;
use std::sync::OnceLock;

/// Slots of the first chunk; each of the following has twice as many.
const FIRST: u32 = 256;
/// Chunks that 2^22 slots take.
const CHUNKS: usize = 15;
/// Freed indices are reused only when that many are free, so that an old key remains invalid for
/// long.
const RESTING: usize = 1024;

/// One slot.
pub type Slot = RwLock<Entry>;

/// All slots.
pub struct Table {
    chunks: [OnceLock<Box<[Slot]>>; CHUNKS],
    free: Mutex<Free>,
}

struct Free {
    /// Given back, the longest first.
    resting: VecDeque<u32>,
    /// The lowest that was never taken.
    next: u32,
}

fn chunk_of(index: u32) -> Option<(usize, usize)> {
    let shifted = index.checked_add(FIRST)?;
    let chunk = shifted.ilog2().checked_sub(FIRST.ilog2())?;
    let inside = shifted - (FIRST << chunk);
    Some((usize::try_from(chunk).ok()?, usize::try_from(inside).ok()?))
}

impl Table {
    pub fn new() -> Self {
        Self {
            chunks: [const { OnceLock::new() }; CHUNKS],
            free: Mutex::new(Free {
                resting: VecDeque::new(),
                // No key is 0, so that zeroed memory names no region.
                next: 1,
            }),
        }
    }

    /// The slot of an index, if it was ever taken.
    #[inline]
    pub fn slot(&self, index: u32) -> Option<&Slot> {
        let (chunk, inside) = chunk_of(index)?;
        self.chunks.get(chunk)?.get()?.get(inside)
    }

    /// Takes an index.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn take(&self) -> Result<u32> {
        let mut free = self.free.lock();
        if free.resting.len() >= RESTING
            && let Some(index) = free.resting.pop_front()
        {
            return Ok(index);
        }
        let index = free.next;
        if self.grow(index).is_ok() {
            free.next = index + 1;
            return Ok(index);
        }
        free.resting.pop_front().ok_or(Errno::NOMEM)
    }

    /// Gives an index back.
    pub fn give(&self, index: u32) {
        self.free.lock().resting.push_back(index);
    }

    /// Sees to it that the index has a slot. Called by one at a time.
    fn grow(&self, index: u32) -> Result<()> {
        let (number, _) = chunk_of(index).ok_or(Errno::NOMEM)?;
        let chunk = self.chunks.get(number).ok_or(Errno::NOMEM)?;
        if chunk.get().is_some() {
            return Ok(());
        }
        let size = usize::try_from(FIRST).map_err(|_| Errno::NOMEM)? << number;
        let mut slots = Vec::new();
        slots.try_reserve_exact(size).map_err(|_| Errno::NOMEM)?;
        slots.resize_with(size, || RwLock::new(Entry::FREE));
        chunk.get_or_init(|| slots.into_boxed_slice());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_index_has_a_separate_place() {
        let mut seen = HashSet::new();
        for index in 0..10_000 {
            let (chunk, inside) = chunk_of(index).expect("a place");
            assert!(inside < 256 << chunk);
            assert!(seen.insert((chunk, inside)));
        }
        assert_eq!(chunk_of(1 << 22).map(|(chunk, _)| chunk), Some(CHUNKS - 1));
        assert!(chunk_of(u32::MAX).is_none());
    }

    #[test]
    fn indices_rest_before_they_are_taken_again() {
        let table = Table::new();
        let first = table.take().expect("free");
        assert_ne!(first, 0);
        table.give(first);
        for _ in 1..RESTING {
            let index = table.take().expect("free");
            assert_ne!(index, first);
            table.give(index);
        }
        assert_eq!(table.take(), Ok(first));
        assert!(table.slot(first).is_some());
        assert!(table.slot(1 << 23).is_none());
    }
}
