#![forbid(unsafe_code)]
//! Records of cancelled threads that had just received them. The next call that waits for an event
//! of the same channel receives such a record.

use crate::backend::Record;
use kit::sys::{forks, lock::Lock};
use std::sync::atomic::{AtomicUsize, Ordering};

/// With the address of the channel.
static KEPT: Lock<Vec<(usize, Record)>> = Lock::new(Vec::new());
/// Their number, changed with [`KEPT`] locked: a record that another thread took before it was
/// counted would hide one that was.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Keeps a record of the channel at an address.
pub fn keep(channel: usize, record: Record) {
    if forks::wait_for(&KEPT).is_err() {
        return;
    }
    let mut kept = KEPT.lock();
    kept.push((channel, record));
    COUNT.store(kept.len(), Ordering::Release);
}

/// The first kept record of a channel.
#[inline]
pub fn take(channel: usize) -> Option<Record> {
    if !any() {
        return None;
    }
    take_first(|of, _| of == channel)
}

/// Drops the records of a channel that is destroyed.
pub fn forget_channel(channel: usize) {
    while take(channel).is_some() {}
}

/// Whether there may be records.
#[inline]
pub fn any() -> bool {
    COUNT.load(Ordering::Acquire) > 0
}

/// Removes the records of an id or of a join that ends, and returns them.
pub fn forget(uid: u64) -> Vec<Record> {
    let mut forgotten = Vec::new();
    if !any() {
        return forgotten;
    }
    while let Some(record) = take_first(|_, record| record.uid == uid) {
        forgotten.push(record);
    }
    forgotten
}

/// Moves the records of an id, or of a join, to another channel, and returns their number.
pub fn migrate(uid: u64, to: usize) -> u32 {
    let mut count = 0;
    if !any() {
        return count;
    }
    for (channel, record) in &mut *KEPT.lock() {
        if record.uid == uid {
            *channel = to;
            count += 1;
        }
    }
    count
}

#[cold]
fn take_first(mut is_wanted: impl FnMut(usize, &Record) -> bool) -> Option<Record> {
    let mut kept = KEPT.lock();
    let at = kept
        .iter()
        .position(|(of, record)| is_wanted(*of, record))?;
    let (_, record) = kept.remove(at);
    COUNT.store(kept.len(), Ordering::Release);
    Some(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{Address, Channel, event_type};
    use crate::command::{CommandId, fake::Fake};
    use crate::id::{Id, Manager};
    use crate::source::Source;
    use crate::{channel, destroy, migrate, multicast, registry};
    use bytemuck::Zeroable;
    use core::ptr::null_mut;
    use core::sync::atomic::AtomicU32;
    use kit::abi::IBV_QPT_UD;
    use kit::cm::{Command, DestroyId};
    use kit::sync::Mutex;
    use std::sync::Arc;
    use std::thread;

    fn record(uid: u64) -> Record {
        let mut record = Record::zeroed();
        record.uid = uid;
        record
    }

    /// An id of which so many events were delivered, and its commands.
    fn an_id(events: u32) -> (Arc<Id>, Arc<Mutex<Vec<u32>>>) {
        let mut id = Arc::new(Id::new(null_mut(), null_mut(), 0x111, IBV_QPT_UD));
        let commands = Arc::new(Mutex::new(Vec::new()));
        let file = Fake {
            commands: commands.clone(),
            events,
        };
        let made = CommandId::create(file, id.uid(), 0x111, 4).unwrap();
        id.set_backend(Manager::Fake(made));
        registry::add_id(&id).unwrap();
        (id, commands)
    }

    /// How many ids of the kernel were destroyed.
    fn destroyed(commands: &Mutex<Vec<u32>>) -> usize {
        let commands = commands.lock();
        let destroys = commands.iter().filter(|n| **n == DestroyId::NUMBER);
        destroys.count()
    }

    #[test]
    fn a_record_is_for_its_channel_until_its_id_is_destroyed() {
        const CHANNEL: usize = usize::MAX;
        for uid in [5, 6, 5] {
            keep(CHANNEL, record(uid));
        }
        assert!(take(CHANNEL - 1).is_none());
        assert_eq!(forget(5).len(), 2);
        assert_eq!(take(CHANNEL).map(|record| record.uid), Some(6));
        keep(CHANNEL, record(7));
        forget_channel(CHANNEL);
        assert!(take(CHANNEL).is_none());
        assert!(forget(7).is_empty());
    }

    /// A thread may take the record of another one, and a third keeps and looks for one meanwhile.
    #[test]
    fn a_record_is_found_while_other_threads_keep_and_take() {
        const CHANNEL: usize = usize::MAX - 5;
        const OTHERS: usize = usize::MAX - 6;
        const ROUNDS: u32 = 20_000;
        let taken = AtomicU32::new(0);
        let over = || taken.load(Ordering::Relaxed) == ROUNDS;
        thread::scope(|scope| {
            scope.spawn(|| {
                for kept in 0..ROUNDS {
                    while taken.load(Ordering::Relaxed) < kept {
                        thread::yield_now();
                    }
                    keep(OTHERS, record(8));
                }
            });
            scope.spawn(|| {
                while !over() {
                    taken.fetch_add(u32::from(take(OTHERS).is_some()), Ordering::Relaxed);
                }
            });
            while !over() {
                keep(CHANNEL, record(9));
                assert_eq!(forget(9).len(), 1);
            }
        });
    }

    #[test]
    fn an_id_with_a_kept_record_is_destroyed() {
        const CHANNEL: usize = usize::MAX - 1;
        let (id, commands) = an_id(1);
        keep(CHANNEL, record(id.uid()));
        assert_eq!(destroy::id(&id), Ok(()));
        assert_eq!(destroyed(&commands), 1);
        assert!(take(CHANNEL).is_none());
    }

    #[test]
    fn a_kept_request_ends_with_its_listener() {
        const CHANNEL: usize = usize::MAX - 2;
        let (id, commands) = an_id(1);
        let mut request = record(id.uid());
        request.event = event_type::CONNECT_REQUEST;
        keep(CHANNEL, request);
        assert_eq!(destroy::id(&id), Ok(()));
        assert_eq!(destroyed(&commands), 2);
    }

    #[test]
    fn a_join_with_a_kept_record_is_left_and_destroyed() {
        const CHANNEL: usize = usize::MAX - 3;
        let group =
            Address::from_bytes(&[2, 0, 0, 0, 239, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        let join = |id: &Arc<Id>| {
            multicast::join(id, &group, 0, null_mut()).unwrap();
            let uid = registry::join_address(&id.state.lock().joins()[0]) as u64;
            keep(CHANNEL, record(uid));
        };
        let (left, _) = an_id(1);
        join(&left);
        assert_eq!(multicast::leave(&left, &group), Ok(()));
        assert_eq!(destroy::id(&left), Ok(()));
        let (destroyed, _) = an_id(1);
        join(&destroyed);
        assert_eq!(destroy::id(&destroyed), Ok(()));
        assert!(take(CHANNEL).is_none());
    }

    #[test]
    fn a_kept_record_moves_with_its_id() {
        const CHANNEL: usize = usize::MAX - 4;
        let (id, _) = an_id(1);
        keep(CHANNEL, record(id.uid()));
        let new = Channel::new(-1).unwrap();
        assert_eq!(migrate::migrate(&id, Some(new)), Ok(()));
        assert!(take(CHANNEL).is_none());
        assert_eq!(take(new.address()).map(|record| record.uid), Some(id.uid()));
        // The program gives the event back.
        id.acknowledged.add();
        assert_eq!(destroy::id(&id), Ok(()));
        keep(new.address(), record(1));
        registry::add_channel(new, Source::Kernel(-1)).unwrap();
        let address = new.address();
        channel::close(new);
        assert!(take(address).is_none());
    }
}
