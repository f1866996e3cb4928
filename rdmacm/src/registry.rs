#![forbid(unsafe_code)]
//! Objects that programs and backends name by an address: ids, joins, events and channels. An
//! address that is not registered belongs to another library, or its object has been freed.
//!
//! A call looks for its id, event or channel once, in a table under a lock, and holds a reference
//! to it from then on. There is no copy of an entry that would have to be forgotten:
//!
//! - An id that another thread destroys is found before it is removed, and then lives until the
//!   call drops its reference, or not at all: EINVAL.
//! - An address is used again only after its object was freed, which happens after it was removed.
//!   So an address names the new object alone.
//! - An event leaves the table before its block becomes free, or serves another event.
//! - fork(2) waits for the locks of ids, joins and events ([`forks`]), so a child finds whole
//!   tables.

use crate::abi::{Channel, EventBlock};
use crate::addressed::{Addressed, Table};
use crate::id::{Id, Join};
use crate::source::Source;
use crate::uroce;
use kit::errno::{Errno, Result};
use kit::sys::{exit::at_exit, forks, lock::Lock};
use rustix::thread::Pid;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

impl Addressed for Arc<Id> {
    #[inline(always)]
    fn address(&self) -> usize {
        Id::address(self)
    }
}

impl Addressed for Arc<Join> {
    #[inline(always)]
    fn address(&self) -> usize {
        join_address(self)
    }
}

/// An event that the program has received.
pub struct Event {
    pub block: EventBlock,
    /// The id that counts its acknowledgement.
    pub counts_for: Arc<Id>,
    pub join: Option<Arc<Join>>,
}

impl Event {
    fn address(&self) -> usize {
        self.block.as_ptr().addr()
    }
}

/// The events that the program has: most programs acknowledge each before they take the next.
struct Events {
    one: Option<Event>,
    more: BTreeMap<usize, Event>,
}

impl Events {
    const fn new() -> Self {
        Self {
            one: None,
            more: BTreeMap::new(),
        }
    }

    #[inline(always)]
    fn add(&mut self, event: Event) {
        if self.one.is_none() {
            self.one = Some(event);
        } else {
            self.add_more(event);
        }
    }

    #[inline(never)]
    fn add_more(&mut self, event: Event) {
        self.more.insert(event.address(), event);
    }

    fn get(&self, address: usize) -> Option<&Event> {
        let one = self.one.as_ref();
        let one = one.filter(|event| event.address() == address);
        one.or_else(|| self.more.get(&address))
    }

    #[inline(always)]
    fn take(&mut self, address: usize) -> Option<Event> {
        let one = self.one.as_ref();
        if one.is_some_and(|event| event.address() == address) {
            self.one.take()
        } else {
            self.take_more(address)
        }
    }

    #[inline(never)]
    fn take_more(&mut self, address: usize) -> Option<Event> {
        self.more.remove(&address)
    }

    fn iter(&self) -> impl Iterator<Item = &Event> {
        self.one.iter().chain(self.more.values())
    }
}

/// Ids and joins.
struct Subjects {
    ids: Table<Arc<Id>>,
    joins: Table<Arc<Join>>,
}

static SUBJECTS: Lock<Subjects> = Lock::new(Subjects {
    ids: Table::new(),
    joins: Table::new(),
});
static EVENTS: Lock<Events> = Lock::new(Events::new());
static CHANNELS: Lock<Channels> = Lock::new(Channels::new());

/// A channel that is not destroyed.
struct Live {
    address: usize,
    source: Arc<Source>,
}

impl Addressed for Live {
    #[inline(always)]
    fn address(&self) -> usize {
        self.address
    }
}

struct Channels {
    live: Table<Live>,
    /// How many of them are those of devices in user space.
    of_devices: usize,
    /// The channels destroyed last, each with the thread that destroyed it.
    destroyed: VecDeque<(usize, Pid)>,
}

/// Whether there are channels, all of them the kernel's, and none is remembered that was destroyed:
/// a call that waits for an event then need not look for its channel. Changed with [`CHANNELS`]
/// locked.
static ARE_OF_KERNEL: AtomicBool = AtomicBool::new(false);

impl Channels {
    const fn new() -> Self {
        Self {
            live: Table::new(),
            of_devices: 0,
            destroyed: VecDeque::new(),
        }
    }

    /// Adds a channel, and returns another one of that address.
    fn add(&mut self, channel: Channel, source: Source) -> Option<Live> {
        let address = channel.address();
        self.destroyed.retain(|(old, _)| *old != address);
        let replaced = self.take(channel);
        self.of_devices += usize::from(source.kernel().is_none());
        let source = Arc::new(source);
        self.live.insert(Live { address, source });
        replaced
    }

    /// Remembers that this thread destroys a channel.
    fn remember(&mut self, channel: Channel) {
        self.destroyed.truncate(REMEMBERED - 1);
        let by = (channel.address(), rustix::thread::gettid());
        self.destroyed.push_front(by);
    }

    /// Removes a channel.
    fn take(&mut self, channel: Channel) -> Option<Live> {
        let taken = self.live.remove(channel.address())?;
        self.of_devices -= usize::from(taken.source.kernel().is_none());
        Some(taken)
    }

    fn are_of_kernel(&self) -> bool {
        self.destroyed.is_empty() && self.of_devices == 0 && !self.live.is_empty()
    }

    /// To be called after each change.
    fn note(&self) {
        ARE_OF_KERNEL.store(self.are_of_kernel(), Ordering::Release);
    }
}

/// Number of destroyed channels that are remembered.
const REMEMBERED: usize = 64;

/// # Errors
/// EINVAL for an address without an id.
#[inline(always)]
pub fn id(address: usize) -> Result<Arc<Id>> {
    find(address as u64).ok_or(Errno::INVAL)
}

/// The id that a backend names by the number that it was given, or an address.
#[inline(always)]
pub fn find(uid: u64) -> Option<Arc<Id>> {
    let address = usize::try_from(uid).ok()?;
    let subjects = SUBJECTS.lock();
    subjects.ids.get(address).cloned()
}

/// The same for a join.
pub fn find_join(uid: u64) -> Option<Arc<Join>> {
    let address = usize::try_from(uid).ok()?;
    let subjects = SUBJECTS.lock();
    subjects.joins.get(address).cloned()
}

/// # Errors
/// ENOMEM.
pub fn add_id(id: &Arc<Id>) -> Result<()> {
    if !ARE_KNOWN.load(Ordering::Relaxed) {
        know_locks()?;
    }
    let mut subjects = SUBJECTS.lock();
    let is_first = !subjects.ids.has_memory();
    subjects.ids.insert(id.clone());
    drop(subjects);
    if is_first {
        let _entered = forks::enter();
        at_exit(release);
    }
    Ok(())
}

/// Whether fork(2) waits for the locks of ids and events. A child inherits that.
static ARE_KNOWN: AtomicBool = AtomicBool::new(false);

#[cold]
fn know_locks() -> Result<()> {
    forks::wait_for(&SUBJECTS)?;
    // Events are those of an id, so each of them comes later.
    forks::wait_for(&EVENTS)?;
    ARE_KNOWN.store(true, Ordering::Relaxed);
    Ok(())
}

/// The process ends, or the library is unloaded.
fn release() {
    if let Some(mut subjects) = SUBJECTS.try_lock() {
        subjects.ids.release();
        subjects.joins.release();
    }
    EventBlock::release();
}

/// # Errors
/// ENOMEM.
pub fn add_join(join: &Arc<Join>) -> Result<()> {
    forks::wait_for(&SUBJECTS)?;
    let mut subjects = SUBJECTS.lock();
    subjects.joins.insert(join.clone());
    Ok(())
}

/// The number by which a backend names a join.
pub fn join_address(join: &Arc<Join>) -> usize {
    Arc::as_ptr(join).addr()
}

pub fn remove_id(id: &Id) {
    // The lock is released before the last reference is dropped.
    let removed = SUBJECTS.lock().ids.remove(id.address());
    drop(removed);
}

pub fn remove_join(join: &Arc<Join>) {
    // As above.
    let removed = SUBJECTS.lock().joins.remove(join_address(join));
    drop(removed);
}

/// # Errors
/// ENOMEM.
pub fn add_channel(channel: Channel, source: Source) -> Result<()> {
    forks::wait_for(&CHANNELS)?;
    let mut channels = CHANNELS.lock();
    let replaced = channels.add(channel, source);
    channels.note();
    drop(channels);
    drop(replaced);
    Ok(())
}

/// The source of a channel's events: the kernel for a channel that this library did not make.
pub fn source(channel: Channel) -> Arc<Source> {
    known_source(channel).unwrap_or_else(|| Arc::new(Source::Kernel(channel.fd())))
}

/// The same, for a channel that the library made and that is not destroyed.
pub fn known_source(channel: Channel) -> Option<Arc<Source>> {
    let channels = CHANNELS.lock();
    let live = channels.live.get(channel.address());
    live.map(|live| live.source.clone())
}

/// Where the events of a channel come from, for a call that waits for one.
pub enum Origin {
    /// The descriptor with which the channel was made.
    Kernel(i32),
    Uroce(uroce::Channel),
    /// The library did not make the channel, or it is destroyed.
    Unknown,
}

/// Whether it is the kernel. Where all channels are the kernel's, one that this library did not
/// make is, too: its descriptor is asked.
#[inline(always)]
pub fn is_of_kernel(channel: Channel) -> bool {
    ARE_OF_KERNEL.load(Ordering::Acquire) || is_found_of_kernel(channel)
}

#[inline(never)]
fn is_found_of_kernel(channel: Channel) -> bool {
    let channels = CHANNELS.lock();
    let live = channels.live.get(channel.address());
    live.is_some_and(|live| matches!(*live.source, Source::Kernel(_)))
}

pub fn origin(channel: Channel) -> Origin {
    let channels = CHANNELS.lock();
    match channels.live.get(channel.address()) {
        Some(live) => match *live.source {
            Source::Kernel(descriptor) => Origin::Kernel(descriptor),
            Source::Uroce(ref source) => Origin::Uroce(source.clone()),
        },
        None => Origin::Unknown,
    }
}

/// A duplicate of the descriptor of a channel, which remains open when the channel is destroyed.
///
/// # Errors
/// EBADF if the channel is destroyed already; EMFILE.
pub fn duplicate(channel: Channel) -> Result<OwnedFd> {
    // A thread that destroys the channel removes it here before it closes the descriptor.
    let channels = CHANNELS.lock();
    let is_there = channels.live.get(channel.address()).is_some();
    let descriptor = is_there.then(|| channel.borrow()).flatten();
    let descriptor = descriptor.ok_or(Errno(libc::EBADF))?;
    Ok(rustix::io::fcntl_dupfd_cloexec(descriptor, 3)?)
}

/// Removes a channel. False if it is not the library's, or is destroyed already.
pub fn take_channel(channel: Channel) -> bool {
    // The lock is released before the source is dropped.
    let taken = {
        let mut channels = CHANNELS.lock();
        let taken = channels.take(channel);
        channels.live.release();
        channels.note();
        taken
    };
    taken.is_some()
}

/// Remembers that this thread destroys a channel.
pub fn remember_destroyed(channel: Channel) {
    let mut channels = CHANNELS.lock();
    channels.remember(channel);
    channels.note();
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
    let ids = subjects.ids.values();
    let of_channel = ids.filter(|id| id.block.channel().addr() == channel.address());
    of_channel.cloned().collect()
}

/// Registers an event that the program receives.
#[inline(always)]
pub fn add_event(event: Event) -> *mut crate::abi::rdma_cm_event {
    let at = event.block.as_ptr();
    EVENTS.lock().add(event);
    at
}

/// Type and status of an event that the program has received.
pub fn outcome(address: usize) -> Option<(u32, i32)> {
    let events = EVENTS.lock();
    events.get(address).map(|event| event.block.outcome())
}

/// Types and addresses of the events that the program has not acknowledged, of an id or of one of
/// its joins.
pub fn unacknowledged(id: &Id) -> Vec<(u32, usize)> {
    let events = EVENTS.lock();
    let of_id = events
        .iter()
        .filter(|event| std::ptr::eq(&*event.counts_for, id));
    of_id
        .map(|event| (event.block.outcome().0, event.address()))
        .collect()
}

/// Reads an event that the program has received.
///
/// # Errors
/// EINVAL for an address without an event.
pub fn with_event<T>(address: usize, read: impl FnOnce(&EventBlock) -> T) -> Result<T> {
    let events = EVENTS.lock();
    let event = events.get(address).ok_or(Errno::INVAL)?;
    Ok(read(&event.block))
}

/// The address of the id of an event.
///
/// # Errors
/// EINVAL for an address without an event.
pub fn subject_of(address: usize) -> Result<usize> {
    let events = EVENTS.lock();
    let event = events.get(address).ok_or(Errno::INVAL)?;
    Ok(event.block.id().addr())
}

/// # Errors
/// EINVAL for an address without an event.
#[inline(always)]
pub fn take_event(address: usize) -> Result<Event> {
    EVENTS.lock().take(address).ok_or(Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Param;
    use crate::ack;
    use core::ptr::null_mut;
    use kit::abi::IBV_QPT_RC;

    fn an_id() -> Arc<Id> {
        Arc::new(Id::new(null_mut(), null_mut(), 0x106, IBV_QPT_RC))
    }

    fn a_block() -> EventBlock {
        let mut block = EventBlock::new().unwrap();
        block.fill(null_mut(), null_mut(), (9, 0), &Param::Arg(0));
        block
    }

    #[test]
    fn an_id_is_known_until_it_is_removed() {
        let made = an_id();
        assert!(id(made.address()).is_err() && id(0).is_err());
        add_id(&made).unwrap();
        assert!(id(made.address()).is_ok_and(|found| Arc::ptr_eq(&found, &made)));
        remove_id(&made);
        assert!(id(made.address()).is_err() && find(made.uid()).is_none());
    }

    #[test]
    fn an_event_is_acknowledged_once() {
        let counts_for = an_id();
        let block = a_block();
        let event = Event {
            block,
            counts_for: counts_for.clone(),
            join: None,
        };
        let at = add_event(event).addr();
        assert_eq!(outcome(at), Some((9, 0)));
        assert_eq!(ack::event(at), Ok(()));
        counts_for.acknowledged.wait_for(1);
        assert_eq!(ack::event(at), Err(Errno::INVAL));
        assert_eq!(ack::event(0), Err(Errno::INVAL));
    }

    #[test]
    fn events_are_found_in_any_number() {
        let counts_for = an_id();
        let mut events = Events::new();
        let add = |events: &mut Events| {
            let event = Event {
                block: a_block(),
                counts_for: counts_for.clone(),
                join: None,
            };
            let address = event.address();
            events.add(event);
            address
        };
        let addresses: Vec<_> = (0..10).map(|_| add(&mut events)).collect();
        assert_eq!(events.iter().count(), 10);
        // The last of them and one of the first have been taken.
        for address in [addresses[9], addresses[2]] {
            assert!(events.get(address).is_some());
            assert_eq!(events.take(address).map(|e| e.address()), Some(address));
            assert!(events.get(address).is_none() && events.take(address).is_none());
        }
        let new = add(&mut events);
        assert!(events.take(new).is_some());
        let left = addresses
            .iter()
            .filter(|address| events.take(**address).is_some());
        assert_eq!(left.count(), 8);
        assert_eq!(
            (events.iter().count(), Arc::strong_count(&counts_for)),
            (0, 1)
        );
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
    fn channels_are_looked_for_once_one_is_remembered() {
        let channel = Channel::new(-1).unwrap();
        let mut channels = Channels::new();
        assert!(!channels.are_of_kernel());
        channels.add(channel, Source::Kernel(-1));
        assert!(channels.are_of_kernel());
        channels.remember(channel);
        assert!(!channels.are_of_kernel());
        // Its address is used again.
        channels.add(channel, Source::Kernel(-1));
        assert!(channels.are_of_kernel());
        assert!(channels.take(channel).is_some() && channels.take(channel).is_none());
        assert!(!channels.are_of_kernel());
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
