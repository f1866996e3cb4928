#![forbid(unsafe_code)]
//! Records that a thread had read when it was cancelled: the next call on the same channel or
//! context returns them.
//!
//! glibc before 2.41 cancels a thread also when read(2) has just taken a record for it. Without
//! this module the program would never acknowledge that event, and could not destroy its object.

use super::Record;
use kit::errno::Result;
use kit::sync::Mutex;
use kit::sys::per_process::PerProcess;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

static KEPT: PerProcess<Kept> = PerProcess::new();
/// Whether a record was ever kept: destructions read it first, and rarely more.
static USED: AtomicBool = AtomicBool::new(false);

/// Keeps a record that was read from the channel or context at the address `source` and is about
/// the object at `object`.
///
/// # Errors
/// ENOMEM at the first use.
pub fn keep(source: usize, object: usize, record: Record) -> Result<()> {
    let kept = KEPT.get()?;
    USED.store(true, Relaxed);
    kept.keep(source, object, record);
    Ok(())
}

/// The oldest record that is kept for the channel or context at this address.
pub fn take(source: usize) -> Option<Record> {
    KEPT.made().and_then(|kept| kept.take(source))
}

/// Drops the records from, or about, the channel, context or object at this address, which has been
/// destroyed.
#[inline]
pub fn forget(address: usize) {
    if USED.load(Relaxed) {
        forget_used(address);
    }
}

#[cold]
fn forget_used(address: usize) {
    if let Some(kept) = KEPT.made() {
        kept.forget(address);
    }
}

#[derive(Default)]
struct Kept {
    /// How many there are: calls look at it without the lock.
    count: AtomicUsize,
    records: Mutex<Vec<Entry>>,
}

struct Entry {
    source: usize,
    object: usize,
    record: Record,
}

impl Kept {
    fn change<T>(&self, change: impl FnOnce(&mut Vec<Entry>) -> T) -> T {
        let mut records = self.records.lock();
        let answer = change(&mut records);
        self.count.store(records.len(), Relaxed);
        answer
    }

    fn keep(&self, source: usize, object: usize, record: Record) {
        self.change(|records| {
            records.push(Entry {
                source,
                object,
                record,
            });
        });
    }

    fn take(&self, source: usize) -> Option<Record> {
        if self.count.load(Relaxed) == 0 {
            return None;
        }
        self.change(|records| {
            let first = records.iter().position(|entry| entry.source == source)?;
            Some(records.remove(first).record)
        })
    }

    fn forget(&self, address: usize) {
        if self.count.load(Relaxed) != 0 {
            self.change(|records| {
                records.retain(|entry| entry.source != address && entry.object != address);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_given_in_order_to_their_source() {
        let kept = Kept::default();
        kept.keep(1, 10, [10, 0]);
        kept.keep(2, 20, [20, 0]);
        kept.keep(1, 11, [11, 0]);
        assert_eq!(kept.take(1), Some([10, 0]));
        assert_eq!(kept.take(1), Some([11, 0]));
        assert_eq!(kept.take(1), None);
        assert_eq!(kept.take(2), Some([20, 0]));
        assert_eq!(kept.count.load(Relaxed), 0);
    }

    #[test]
    fn nothing_is_kept_of_destroyed_objects() {
        let kept = Kept::default();
        kept.keep(1, 10, [10, 0]);
        kept.keep(1, 11, [11, 0]);
        kept.keep(2, 12, [12, 0]);
        kept.forget(10);
        assert_eq!(kept.take(1), Some([11, 0]));
        kept.forget(2);
        assert_eq!(kept.take(2), None);
    }
}
