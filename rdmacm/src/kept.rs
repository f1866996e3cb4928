#![forbid(unsafe_code)]
//! Records of cancelled threads that had just received them. The next call that waits for an event
//! of the same channel receives such a record.

use crate::backend::Record;
use kit::sys::{forks, lock::Lock};
use std::sync::atomic::{AtomicUsize, Ordering};

/// With the address of the channel.
static KEPT: Lock<Vec<(usize, Record)>> = Lock::new(Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Keeps a record of the channel at an address.
pub fn keep(channel: usize, record: Record) {
    if forks::wait_for(&KEPT).is_err() {
        return;
    }
    KEPT.lock().push((channel, record));
    COUNT.fetch_add(1, Ordering::Release);
}

/// The first kept record of a channel.
pub fn take(channel: usize) -> Option<Record> {
    take_first(|of, _| of == channel)
}

/// Drops the records of a channel that is destroyed.
pub fn forget_channel(channel: usize) {
    while take(channel).is_some() {}
}

/// Drops the records of an id that is destroyed, and returns their number.
pub fn forget_id(uid: u64) -> u32 {
    let mut count = 0;
    while take_first(|_, record| record.uid == uid).is_some() {
        count += 1;
    }
    count
}

fn take_first(mut is_wanted: impl FnMut(usize, &Record) -> bool) -> Option<Record> {
    if COUNT.load(Ordering::Acquire) == 0 {
        return None;
    }
    let mut kept = KEPT.lock();
    let at = kept
        .iter()
        .position(|(of, record)| is_wanted(*of, record))?;
    COUNT.fetch_sub(1, Ordering::Relaxed);
    Some(kept.remove(at).1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;

    fn record(uid: u64) -> Record {
        let mut record = Record::zeroed();
        record.uid = uid;
        record
    }

    #[test]
    fn a_record_is_for_its_channel_until_its_id_is_destroyed() {
        const CHANNEL: usize = usize::MAX;
        for uid in [5, 6, 5] {
            keep(CHANNEL, record(uid));
        }
        assert!(take(CHANNEL - 1).is_none());
        assert_eq!(forget_id(5), 2);
        assert_eq!(take(CHANNEL).map(|record| record.uid), Some(6));
        keep(CHANNEL, record(7));
        forget_channel(CHANNEL);
        assert!(take(CHANNEL).is_none());
        assert_eq!(forget_id(7), 0);
    }
}
