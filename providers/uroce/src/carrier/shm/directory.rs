//! The processes that this one has met, and how they meet.
//!
//! Each tells the other its segment; the one of the lower slot makes the link. Greetings may be lost
//! (the queue of a door is short) or cross: whoever asks again is answered with the same.

use super::complaint::complain;
use super::door::{Door, Said, Word};
use super::link::Link;
use super::onesided::Claims;
use super::peer::{Peer, places};
use super::ring::Producer;
use super::segment::{AWAITS, CLOSED, SLEEPS, Segment};
use super::wire::Out;
use crate::carrier::udp::Heirs;
use kit::errno::{Errno, Result};
use kit::sys::lock::Lock;
use parking_lot::{Mutex, RwLock};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{Timespec, epoll::Event};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, RandomState};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// How often somebody who does not answer is asked, and how long he is waited for each time.
const ASKED: u32 = 5;
const PATIENCE: Duration = Duration::from_millis(20);
/// How long nobody waits again for somebody who did not answer.
const SILENCE: Duration = Duration::from_secs(1);
/// Used connections that are remembered at once.
const USED: usize = 1024;
/// Words that are heard at once.
const WORDS: usize = 64;
const MILLISECOND: i64 = 1_000_000;

/// A link that was made for a process that has not answered yet.
#[derive(Debug)]
struct Proposed {
    link: Link,
    fd: OwnedFd,
}

/// Whom a process has met.
#[derive(Debug)]
pub struct Census {
    /// Those that are there.
    pub there: Vec<Arc<Peer>>,
    /// Those that have left.
    pub left: Vec<Arc<Peer>>,
}

/// The processes that this one has met.
#[derive(Debug)]
pub struct Directory {
    slot: u16,
    generation: u64,
    segment: Segment,
    claims: Claims,
    /// Queue pairs whose connection was used.
    used: Mutex<Vec<u32>>,
    /// Held while a word is taken in, or a link proposed: of two threads that take in a question and an
    /// answer of one process, each would make a link, and the two processes use different ones.
    meeting: Mutex<()>,
    /// A bell was heard, and nobody has asked yet.
    bell: AtomicBool,
    fd: OwnedFd,
    pub(super) door: Door,
    /// The ends of processes, by slot.
    ends: OwnedFd,
    peers: RwLock<HashMap<u16, Arc<Peer>>>,
    /// Those that have left `peers`, until somebody asks. Changed only while `peers` is locked.
    left: Mutex<Vec<Arc<Peer>>>,
    /// Counts changes of `peers`.
    changes: AtomicU64,
    proposed: Mutex<HashMap<u16, Proposed>>,
    silent: Mutex<HashMap<u16, Instant>>,
    heirs: Heirs,
}

impl Directory {
    /// The directory of the process that has claimed a slot.
    ///
    /// # Errors
    /// EADDRINUSE if somebody has taken the name of its door; ENOSYS without pidfd_open(2), which all
    /// meeting needs; of memfd_create(2), mmap(2), socket(2), epoll_create(2).
    pub fn open(slot: u16) -> Result<Self> {
        pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
        let generation = RandomState::new().hash_one(slot) | 1;
        let (segment, fd) = Segment::create(slot, generation)?;
        Ok(Self {
            slot,
            generation,
            segment,
            claims: Claims::default(),
            used: Mutex::default(),
            meeting: Mutex::new(()),
            bell: AtomicBool::new(false),
            fd,
            door: Door::open(slot)?,
            ends: epoll::create(CreateFlags::CLOEXEC)?,
            peers: RwLock::default(),
            left: Mutex::default(),
            changes: AtomicU64::new(0),
            proposed: Mutex::default(),
            silent: Mutex::default(),
            heirs: Heirs::default(),
        })
    }

    /// The segment of this process.
    #[must_use]
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// The slot of this process.
    #[must_use]
    pub fn slot(&self) -> u16 {
        self.slot
    }

    /// What tells this process from those that have its slot before or after.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// What this process uses of its peers at the moment.
    #[must_use]
    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    /// Who has inherited numbers of processes that have ended.
    #[must_use]
    pub fn heirs(&self) -> &Heirs {
        &self.heirs
    }

    /// Descriptors that are ready to read when [`Directory::attend`] is to be called.
    pub fn sockets(&self) -> [BorrowedFd<'_>; 2] {
        [self.door.socket(), self.ends.as_fd()]
    }

    /// The process of a slot, if it was met and is there.
    #[must_use]
    pub fn peer(&self, slot: u16) -> Option<Arc<Peer>> {
        let peer = self.peers.read().get(&slot).cloned();
        peer.filter(|peer| !peer.is_gone())
    }

    /// All that were met, until they are found to have ended: what waits for each must look at
    /// [`Peer::is_gone`] and [`Peer::has_ended`].
    #[must_use]
    pub fn peers(&self) -> Vec<Arc<Peer>> {
        self.peers.read().values().cloned().collect()
    }

    /// All that were met, and those that have left since this was asked last: also one that came and
    /// went in between, to whom something may have been sent.
    #[must_use]
    pub fn census(&self) -> Census {
        let peers = self.peers.read();
        Census {
            there: peers.values().cloned().collect(),
            left: std::mem::take(&mut *self.left.lock()),
        }
    }

    /// Whether nobody was ever met.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.changes() == 0
    }

    /// Differs when [`Directory::peers`] does.
    #[must_use]
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(SeqCst)
    }

    /// The process of a slot, which is asked if it was not met, and waited for a moment.
    #[must_use]
    pub fn meet(&self, slot: u16) -> Option<Arc<Peer>> {
        if let Some(peer) = self.peer(slot) {
            return Some(peer);
        }
        if slot == self.slot {
            return self.meet_myself().ok();
        }
        if self.was_silent(slot) {
            return None;
        }
        for _ in 0..ASKED {
            match self.ask(slot) {
                Ok(()) | Err(Errno::AGAIN) => {}
                Err(_) => return None,
            }
            if let Some(peer) = self.wait_for(slot) {
                return Some(peer);
            }
        }
        self.silent.lock().insert(slot, Instant::now());
        None
    }

    fn was_silent(&self, slot: u16) -> bool {
        let mut silent = self.silent.lock();
        silent.retain(|_, since| since.elapsed() < SILENCE);
        silent.contains_key(&slot)
    }

    fn wait_for(&self, slot: u16) -> Option<Arc<Peer>> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            self.hear();
            if let Some(peer) = self.peer(slot) {
                return Some(peer);
            }
            // Short, since the helper thread may be the one who hears the answer.
            self.door.wait(MILLISECOND);
        }
        None
    }

    /// Asks a process who it is, without waiting for the answer.
    ///
    /// # Errors
    /// ECONNREFUSED if there is none; EAGAIN if it does not keep up; what [`Link::create`] answers.
    pub fn ask(&self, slot: u16) -> Result<()> {
        let word = Word::Greeting {
            generation: self.generation,
            asks: true,
        };
        if self.slot > slot {
            return self.door.say(slot, word, &[self.fd.as_fd()]);
        }
        let _meeting = self.meeting.lock();
        if self.peer(slot).is_some() {
            // Met meanwhile, by a link that it knows.
            return Ok(());
        }
        let mut proposed = self.proposed.lock();
        let link = match proposed.entry(slot) {
            Entry::Occupied(link) => link.into_mut(),
            Entry::Vacant(place) => {
                let (link, fd) = Link::create()?;
                place.insert(Proposed { link, fd })
            }
        };
        self.door
            .say(slot, word, &[self.fd.as_fd(), link.fd.as_fd()])
    }

    /// Puts something into a peer's ring, by `put`: sees to it that the peer looks, and that somebody here
    /// looks when it was taken.
    #[inline]
    pub fn put<T>(&self, peer: &Peer, put: impl FnOnce(&Peer) -> T) -> T {
        // Before there is anything to take: whoever takes it sees this.
        self.ask_to_be_told();
        let done = put(peer);
        if peer.is_to_be_woken() {
            self.ring(peer.slot);
        }
        if self.ask_to_be_told() {
            // The helper has gone to sleep in between. It may have been taken before the peer could
            // see that.
            self.ring(self.slot);
        }
        done
    }

    /// Has peers tell what they take, if nobody here looks. Answers whether they were not to before.
    #[inline]
    fn ask_to_be_told(&self) -> bool {
        let attention = self.segment.attention();
        let asks = attention.load(SeqCst) & (SLEEPS | AWAITS) == SLEEPS;
        if asks {
            attention.fetch_or(AWAITS, SeqCst);
        }
        asks
    }

    /// Something of a peer's was taken: wakes it, if it waits for that.
    #[inline]
    pub fn told(&self, peer: &Peer) {
        if peer.is_to_be_told() {
            self.ring(peer.slot);
        }
    }

    /// Nobody here looks at the rings from now on, until [`Directory::wakes`]. What is there already
    /// must be looked for after this, and once more after [`super::LATE`].
    pub fn sleeps(&self) {
        let flags = if self.awaits() {
            SLEEPS | AWAITS
        } else {
            SLEEPS
        };
        self.segment.attention().fetch_or(flags, SeqCst);
    }

    /// Whether anything depends on what peers take.
    pub fn awaits(&self) -> bool {
        self.peers.read().values().any(|peer| peer.awaits())
    }

    /// Somebody looks again.
    pub fn wakes(&self) {
        let flags = SLEEPS | AWAITS;
        self.segment.attention().fetch_and(!flags, SeqCst);
    }

    /// Rings a peer's bell.
    pub fn ring(&self, slot: u16) {
        // One whose queue is full is awake, or will be.
        let _ = self.door.say(slot, Word::Bell, &[]);
    }

    /// Tells a peer that the connection of one of its queue pairs is used.
    ///
    /// # Errors
    /// ECONNREFUSED if it is gone; EAGAIN if it does not keep up.
    pub fn tell_used(&self, slot: u16, index: u32) -> Result<()> {
        self.door.say(slot, Word::Used(index), &[])
    }

    /// The queue pairs whose connection was used, by index.
    #[must_use]
    pub fn take_used(&self) -> Vec<u32> {
        std::mem::take(&mut *self.used.lock())
    }

    /// Whether a bell was heard since this was asked last. It was for whoever sleeps, and may have
    /// been taken from him: then he is to be woken.
    #[inline]
    pub fn take_bell(&self) -> bool {
        self.bell.load(SeqCst) && self.bell.swap(false, SeqCst)
    }

    /// Takes in what was said, and what has ended.
    pub fn attend(&self) {
        self.hear();
        self.bury();
    }

    /// Takes in what was said.
    pub fn hear(&self) {
        for _ in 0..WORDS {
            let _meeting = self.meeting.lock();
            match self.door.hear() {
                Ok(Some(said)) => self.consider(said),
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }

    fn consider(&self, said: Said) {
        match said.word {
            Word::Bell => self.bell.store(true, SeqCst),
            Word::Farewell => self.forget(said.slot, false),
            Word::Used(index) => {
                let mut used = self.used.lock();
                // Whoever says more is not heard in between.
                if used.len() < USED {
                    used.push(index);
                }
            }
            Word::Greeting { generation, asks } => {
                let slot = said.slot;
                let known = self.peer(slot).filter(|peer| peer.generation == generation);
                let peer = match known {
                    Some(peer) => Ok(peer),
                    None => self
                        .take_in(said, generation)
                        .inspect_err(|error| self.turn_away(slot, *error)),
                };
                if asks && let Ok(peer) = peer {
                    // One who does not hear the answer asks again.
                    let _ = self.answer(&peer);
                }
            }
        }
    }

    /// Somebody could not be taken in: he is to know, since he may have taken in this process, and what he
    /// puts into the ring would be lost. Not so who speaks another version, which he finds out himself, or
    /// proposes a link that another has joined.
    fn turn_away(&self, slot: u16, error: Errno) {
        complain("a process of this host", error);
        if error != Errno::INVAL {
            let _ = self.door.say(slot, Word::Farewell, &[]);
        }
    }

    /// Enters somebody who has told who he is.
    ///
    /// # Errors
    /// EMFILE if there was no room for his descriptors; ENOSYS without pidfd_open(2), ESRCH if he has
    /// ended; EINVAL for another version, and for a link that another has joined; of mmap(2).
    fn take_in(&self, said: Said, generation: u64) -> Result<Arc<Peer>> {
        let mut descriptors = said.descriptors.into_iter();
        let mut next = || descriptors.next().ok_or(Errno(libc::EMFILE));
        let fd = next()?;
        let segment = Segment::map(fd.as_fd(), said.slot, generation)?;
        let (link, handed) = if self.slot < said.slot {
            let (link, fd) = self.link_for(said.slot, generation)?;
            (link, Some(fd))
        } else {
            let fd = next()?;
            let link = Link::map(fd.as_fd())?;
            link.join(self.generation)?;
            (link, None)
        };
        let pid = Pid::from_raw(said.pid).ok_or(Errno::INVAL)?;
        let places = places(self.slot, said.slot);
        self.enter(Peer {
            slot: said.slot,
            generation,
            pid,
            process: pidfd_open(pid, PidfdFlags::empty())?,
            segment,
            link,
            handed,
            gone: AtomicBool::new(false),
            places,
            out: Lock::new(Out::new(Producer::new(places[0]))),
            collected: AtomicU64::new(0),
        })
    }

    /// The link that was proposed, unless another process has joined it meanwhile; else a new one.
    fn link_for(&self, slot: u16, generation: u64) -> Result<(Link, OwnedFd)> {
        if let Some(Proposed { link, fd }) = self.proposed.lock().remove(&slot)
            && link.is_for(generation)
        {
            return Ok((link, fd));
        }
        Link::create()
    }

    fn meet_myself(&self) -> Result<Arc<Peer>> {
        let pid = rustix::process::getpid();
        let places = places(self.slot, self.slot);
        self.enter(Peer {
            slot: self.slot,
            generation: self.generation,
            pid,
            process: pidfd_open(pid, PidfdFlags::empty())?,
            segment: Segment::map(self.fd.as_fd(), self.slot, self.generation)?,
            link: Link::create()?.0,
            handed: None,
            gone: AtomicBool::new(false),
            places,
            out: Lock::new(Out::new(Producer::new(places[0]))),
            collected: AtomicU64::new(0),
        })
    }

    fn enter(&self, peer: Peer) -> Result<Arc<Peer>> {
        let mut peers = self.peers.write();
        if let Some(there) = peers.get(&peer.slot)
            && there.generation == peer.generation
            && !there.is_gone()
        {
            // Another thread was faster.
            return Ok(Arc::clone(there));
        }
        let data = EventData::new_u64(u64::from(peer.slot));
        epoll::add(&self.ends, peer.process(), data, EventFlags::IN)?;
        let peer = Arc::new(peer);
        if let Some(before) = peers.insert(peer.slot, Arc::clone(&peer)) {
            self.leave(before);
        }
        self.changes.fetch_add(1, SeqCst);
        Ok(peer)
    }

    fn answer(&self, peer: &Peer) -> Result<()> {
        let word = Word::Greeting {
            generation: self.generation,
            asks: false,
        };
        match &peer.handed {
            Some(link) => self
                .door
                .say(peer.slot, word, &[self.fd.as_fd(), link.as_fd()]),
            None => self.door.say(peer.slot, word, &[self.fd.as_fd()]),
        }
    }

    /// Forgets the processes that have ended.
    fn bury(&self) {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut events: [MaybeUninit<Event>; 16] = [const { MaybeUninit::uninit() }; 16];
        let Ok((ended, _)) = epoll::wait(&self.ends, &mut events[..], Some(&now)) else {
            return;
        };
        for event in ended {
            if let Ok(slot) = u16::try_from(event.data.u64()) {
                self.forget(slot, true);
            }
        }
    }

    /// Forgets a process; with `ended` only if it has.
    fn forget(&self, slot: u16, ended: bool) {
        let mut peers = self.peers.write();
        let Some(peer) = peers.get(&slot) else {
            return;
        };
        if slot == self.slot || ended && !peer.has_ended() {
            return;
        }
        if let Some(peer) = peers.remove(&slot) {
            self.leave(peer);
        }
        self.changes.fetch_add(1, SeqCst);
    }

    /// Somebody is in the table, which is locked, no more. Others may still have him.
    fn leave(&self, peer: Arc<Peer>) {
        peer.give_up();
        let _ = epoll::delete(&self.ends, peer.process());
        self.left.lock().push(peer);
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.segment.attention().fetch_or(CLOSED, SeqCst);
        for peer in self.peers() {
            let _ = self.door.say(peer.slot, Word::Farewell, &[]);
        }
    }
}
