//! The queue pairs of a process, by the index in their numbers.

use crate::node::endpoint::Endpoint;
use kit::errno::{Errno, Result};
use kit::sync::{Mutex, RwLock};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use crate::carrier::qpn::INDEX_BITS;

/// Queue pairs of a process.
const CAPACITY: u32 = 1 << INDEX_BITS;
const CHUNK: u32 = 256;

/// No deadline.
pub(in crate::node) const NEVER: u64 = u64::MAX;

/// The place of one queue pair.
pub(in crate::node) struct Entry {
    /// Read-locked during every call, so that a thread that removes the endpoint waits for calls.
    pub endpoint: RwLock<Option<Arc<dyn Endpoint>>>,
    /// The deadline that the timers know of.
    pub scheduled: AtomicU64,
    /// How often sending was asked for since it began: 0 if no thread sends.
    pub sending: AtomicU32,
    /// When its requests began to wait for others, to leave together, in nanoseconds; 0 if none
    /// waits.
    pub waits_since: AtomicU64,
}

impl Entry {
    fn new() -> Self {
        Self {
            endpoint: RwLock::new(None),
            scheduled: AtomicU64::new(NEVER),
            sending: AtomicU32::new(0),
            waits_since: AtomicU64::new(0),
        }
    }

    /// Its requests begin to wait for others. Returns whether none has waited.
    pub fn waits(&self, since: u64) -> bool {
        let waits = &self.waits_since;
        waits.compare_exchange(0, since, SeqCst, SeqCst).is_ok()
    }

    /// All that has been posted leaves. To be called before its packets are taken.
    #[inline]
    pub fn sends(&self) {
        if self.waits_since.load(SeqCst) != 0 {
            self.waits_since.store(0, SeqCst);
        }
    }

    /// Whether a thread is sending for it.
    pub fn is_sending(&self) -> bool {
        self.sending.load(SeqCst) != 0
    }
}

/// All places; memory is taken for those in use, in steps.
pub(in crate::node) struct Table {
    chunks: Box<[OnceLock<Box<[Entry]>>]>,
    numbers: Mutex<Numbers>,
}

/// Numbers in use, and where to look for the next: numbers come round late, so that packets for one
/// that is gone find no queue pair for a while.
struct Numbers {
    taken: Box<[bool]>,
    next: u32,
    count: u32,
}

fn place(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

impl Table {
    pub fn new() -> Self {
        Self {
            chunks: (0..CAPACITY / CHUNK).map(|_| OnceLock::new()).collect(),
            numbers: Mutex::new(Numbers {
                taken: vec![false; place(CAPACITY)].into_boxed_slice(),
                next: 0,
                count: 0,
            }),
        }
    }

    /// Reserves a place.
    ///
    /// # Errors
    /// ENOMEM if all are in use.
    pub fn reserve(&self) -> Result<u32> {
        let mut numbers = self.numbers.lock();
        if numbers.count == CAPACITY {
            return Err(Errno::NOMEM);
        }
        loop {
            let index = numbers.next;
            numbers.next = (index + 1) % CAPACITY;
            if let Some(taken) = numbers.taken.get_mut(place(index)).filter(|taken| !**taken) {
                *taken = true;
                numbers.count += 1;
                return Ok(index);
            }
        }
    }

    /// Gives a place back.
    pub fn release(&self, index: u32) {
        let mut numbers = self.numbers.lock();
        if let Some(taken) = numbers.taken.get_mut(place(index)).filter(|taken| **taken) {
            *taken = false;
            numbers.count -= 1;
        }
    }

    /// The place of an index; `None` if its chunk was not used yet.
    pub fn get(&self, index: u32) -> Option<&Entry> {
        let chunk = self.chunks.get(place(index / CHUNK))?.get()?;
        chunk.get(place(index % CHUNK))
    }

    /// The indices of all places that there are.
    pub fn indices(&self) -> impl Iterator<Item = u32> {
        let there = (0..CAPACITY).step_by(place(CHUNK));
        let there = there.zip(&self.chunks);
        let there = there.filter_map(|(first, chunk)| chunk.get().map(|_| first));
        there.flat_map(|first| first..first + CHUNK)
    }

    /// Puts an endpoint into a reserved place.
    pub fn put(&self, index: u32, endpoint: Arc<dyn Endpoint>) {
        let Some(chunk) = self.chunks.get(place(index / CHUNK)) else {
            return;
        };
        let entries = chunk.get_or_init(|| (0..CHUNK).map(|_| Entry::new()).collect());
        if let Some(entry) = entries.get(place(index % CHUNK)) {
            entry.scheduled.store(NEVER, SeqCst);
            *entry.endpoint.write() = Some(endpoint);
        }
    }

    /// Removes an endpoint, after all calls to it have ended.
    pub fn take(&self, index: u32) -> Option<Arc<dyn Endpoint>> {
        self.get(index)?.endpoint.write().take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::tests::Idle;

    #[test]
    fn indices_are_those_of_chunks_that_there_are() {
        let table = Table::new();
        assert_eq!(table.indices().count(), 0);
        for index in [2 * CHUNK + 3, CAPACITY - 1] {
            table.put(index, Arc::new(Idle));
        }
        let indices: Vec<_> = table.indices().collect();
        let expected: Vec<_> = (2 * CHUNK..3 * CHUNK)
            .chain(CAPACITY - CHUNK..CAPACITY)
            .collect();
        assert_eq!(indices, expected);
    }
}
