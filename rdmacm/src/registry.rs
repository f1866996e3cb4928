#![forbid(unsafe_code)]
//! Objects that programs and backends name by an address: ids, joins, events and channels. An
//! address that is not registered belongs to another library, or its object has been freed.

use crate::abi::{Channel, EventBlock};
use crate::id::{Id, Join};
use crate::source::Source;
use kit::errno::{Errno, Result};
use kit::sys::{forks, lock::Lock};
use rustix::thread::Pid;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The object that an event belongs to.
#[derive(Clone)]
pub enum Subject {
    Id(Arc<Id>),
    Join(Arc<Join>),
}

/// An event that the program has received.
pub struct Event {
    pub block: EventBlock,
    /// The id that counts its acknowledgement.
    pub counts_for: Arc<Id>,
    pub join: Option<Arc<Join>>,
}

static SUBJECTS: Lock<BTreeMap<usize, Subject>> = Lock::new(BTreeMap::new());
static EVENTS: Lock<BTreeMap<usize, Event>> = Lock::new(BTreeMap::new());
static CHANNELS: Lock<Channels> = Lock::new(Channels {
    live: BTreeMap::new(),
    destroyed: VecDeque::new(),
});

struct Channels {
    live: BTreeMap<usize, Arc<Source>>,
    /// The channels destroyed last, each with the thread that destroyed it.
    destroyed: VecDeque<(usize, Pid)>,
}

/// Number of destroyed channels that are remembered.
const REMEMBERED: usize = 64;

/// # Errors
/// EINVAL for an address without an id.
pub fn id(address: usize) -> Result<Arc<Id>> {
    match SUBJECTS.lock().get(&address) {
        Some(Subject::Id(id)) => Ok(id.clone()),
        _ => Err(Errno::INVAL),
    }
}

/// The object that a backend names by the number that it was given.
pub fn subject(uid: u64) -> Option<Subject> {
    let address = usize::try_from(uid).ok()?;
    SUBJECTS.lock().get(&address).cloned()
}

/// # Errors
/// ENOMEM.
pub fn add_id(id: &Arc<Id>) -> Result<()> {
    add(id.address(), Subject::Id(id.clone()))
}

/// # Errors
/// ENOMEM.
pub fn add_join(join: &Arc<Join>) -> Result<()> {
    add(join_address(join), Subject::Join(join.clone()))
}

fn add(address: usize, subject: Subject) -> Result<()> {
    forks::wait_for(&SUBJECTS)?;
    SUBJECTS.lock().insert(address, subject);
    Ok(())
}

/// The number by which a backend names a join.
pub fn join_address(join: &Arc<Join>) -> usize {
    Arc::as_ptr(join).addr()
}

pub fn remove(address: usize) {
    // The lock is released before the last reference is dropped.
    let removed = SUBJECTS.lock().remove(&address);
    drop(removed);
}

/// # Errors
/// ENOMEM.
pub fn add_channel(channel: Channel, source: Source) -> Result<()> {
    forks::wait_for(&CHANNELS)?;
    let mut channels = CHANNELS.lock();
    let address = channel.address();
    channels.destroyed.retain(|(old, _)| *old != address);
    channels.live.insert(address, Arc::new(source));
    Ok(())
}

/// The source of a channel's events: the kernel for a channel that this library did not make.
pub fn source(channel: Channel) -> Arc<Source> {
    known_source(channel).unwrap_or_else(|| Arc::new(Source::Kernel(channel.fd())))
}

/// The same, for a channel that the library made and that is not destroyed.
pub fn known_source(channel: Channel) -> Option<Arc<Source>> {
    CHANNELS.lock().live.get(&channel.address()).cloned()
}

/// A duplicate of the descriptor of a channel, which remains open when the channel is destroyed.
///
/// # Errors
/// EBADF if the channel is destroyed already; EMFILE.
pub fn duplicate(channel: Channel) -> Result<OwnedFd> {
    // A thread that destroys the channel removes it here before it closes the descriptor.
    let channels = CHANNELS.lock();
    let is_there = channels.live.contains_key(&channel.address());
    let descriptor = is_there.then(|| channel.borrow()).flatten();
    let descriptor = descriptor.ok_or(Errno(libc::EBADF))?;
    Ok(rustix::io::fcntl_dupfd_cloexec(descriptor, 3)?)
}

/// Removes a channel. False if it is not the library's, or is destroyed already.
pub fn take_channel(channel: Channel) -> bool {
    // The lock is released before the source is dropped.
    let taken = CHANNELS.lock().live.remove(&channel.address());
    taken.is_some()
}

/// Remembers that this thread destroys a channel.
pub fn remember_destroyed(channel: Channel) {
    let destroyed = &mut CHANNELS.lock().destroyed;
    destroyed.truncate(REMEMBERED - 1);
    destroyed.push_front((channel.address(), rustix::thread::gettid()));
}

/// Whether another thread has destroyed a channel lately. A thread that takes event after event can
/// arrive this late without knowing it.
pub fn is_destroyed_by_another(channel: Channel) -> bool {
    let channels = CHANNELS.lock();
    let mut destroyed = channels.destroyed.iter();
    let found = destroyed.find(|(address, _)| *address == channel.address());
    found.is_some_and(|(_, thread)| *thread != rustix::thread::gettid())
}

/// The ids of a channel, found by a search over all ids.
pub fn of_channel(channel: Channel) -> Vec<Arc<Id>> {
    let subjects = SUBJECTS.lock();
    let ids = subjects.values().filter_map(|subject| match subject {
        Subject::Id(id) => Some(id),
        Subject::Join(_) => None,
    });
    let of_channel = ids.filter(|id| id.block.channel().addr() == channel.address());
    of_channel.cloned().collect()
}

/// Registers an event that the program receives.
///
/// # Errors
/// ENOMEM.
pub fn add_event(event: Event) -> Result<*mut crate::abi::rdma_cm_event> {
    forks::wait_for(&EVENTS)?;
    let at = event.block.as_ptr();
    EVENTS.lock().insert(at.addr(), event);
    Ok(at)
}

/// Type and status of an event that the program has received.
pub fn outcome(address: usize) -> Option<(u32, i32)> {
    let events = EVENTS.lock();
    events.get(&address).map(|event| event.block.outcome())
}

/// Types and addresses of the events that the program has not acknowledged, of an id or of one of
/// its joins.
pub fn unacknowledged(id: &Id) -> Vec<(u32, usize)> {
    let events = EVENTS.lock();
    let of_id = events
        .iter()
        .filter(|(_, event)| std::ptr::eq(&*event.counts_for, id));
    of_id
        .map(|(at, event)| (event.block.outcome().0, *at))
        .collect()
}

/// Reads an event that the program has received.
///
/// # Errors
/// EINVAL for an address without an event.
pub fn with_event<T>(address: usize, read: impl FnOnce(&EventBlock) -> T) -> Result<T> {
    let events = EVENTS.lock();
    let event = events.get(&address).ok_or(Errno::INVAL)?;
    Ok(read(&event.block))
}

/// The address of the id of an event.
///
/// # Errors
/// EINVAL for an address without an event.
pub fn subject_of(address: usize) -> Result<usize> {
    let events = EVENTS.lock();
    let event = events.get(&address).ok_or(Errno::INVAL)?;
    Ok(event.block.id().addr())
}

/// # Errors
/// EINVAL for an address without an event.
pub fn take_event(address: usize) -> Result<Event> {
    EVENTS.lock().remove(&address).ok_or(Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{Conn, Param};
    use crate::ack;
    use core::ptr::null_mut;
    use kit::abi::IBV_QPT_RC;

    fn an_id() -> Arc<Id> {
        Arc::new(Id::new(null_mut(), null_mut(), 0x106, IBV_QPT_RC).unwrap())
    }

    #[test]
    fn an_id_is_known_until_it_is_removed() {
        let made = an_id();
        assert!(id(made.address()).is_err() && id(0).is_err());
        add_id(&made).unwrap();
        assert!(id(made.address()).is_ok_and(|found| Arc::ptr_eq(&found, &made)));
        remove(made.address());
        assert!(id(made.address()).is_err() && subject(made.uid()).is_none());
    }

    #[test]
    fn an_event_is_acknowledged_once() {
        let counts_for = an_id();
        let param = Param::Conn(Conn::default());
        let block = EventBlock::new(null_mut(), null_mut(), (9, 0), param, b"abc").unwrap();
        let event = Event {
            block,
            counts_for: counts_for.clone(),
            join: None,
        };
        let at = add_event(event).unwrap().addr();
        assert_eq!(outcome(at), Some((9, 0)));
        assert_eq!(ack::event(at), Ok(()));
        counts_for.acknowledged.wait_for(1);
        assert_eq!(ack::event(at), Err(Errno::INVAL));
        assert_eq!(ack::event(0), Err(Errno::INVAL));
    }

    #[test]
    fn a_channel_is_taken_once() {
        let channel = Channel::new(-1).unwrap();
        assert!(!take_channel(channel));
        add_channel(channel, Source::Kernel(-1)).unwrap();
        assert!(take_channel(channel) && !take_channel(channel));
        channel.destroy();
    }

    #[test]
    fn late_threads_are_distinguished_from_the_one_that_destroyed_a_channel() {
        let channel = Channel::new(-1).unwrap();
        assert!(!is_destroyed_by_another(channel));
        remember_destroyed(channel);
        assert!(!is_destroyed_by_another(channel));
        let of_another = || std::thread::spawn(move || is_destroyed_by_another(channel));
        assert!(of_another().join().unwrap());
        add_channel(channel, Source::Kernel(-1)).unwrap();
        assert!(!of_another().join().unwrap());
        assert!(take_channel(channel));
        channel.destroy();
    }
}
