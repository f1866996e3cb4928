//! The processes that this one shares a link with, and this process as they see it.

use super::attention::{self, CLOSED};
use super::bells::Bells;
use super::home::Home;
use super::link::Link;
use super::mapped::MappedRegions;
use super::onesided::Claims;
use super::peer::{Peer, places};
use super::rendezvous_socket::{Datagram, RendezvousSocket};
use super::ring::Producer;
use super::segment::{PeerSegment, Segment};
use super::watched_process::WatchedProcess;
use super::wire::Out;
use crate::carrier::registry::Registry;
use kit::errno::{Errno, Result};
use kit::sync::{Mutex, RwLock};
use kit::sys::other_process::OtherProcess;
use kit::sys::{self, lock::Lock};
use rustix::event::epoll::{self, CreateFlags, Event};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// Ends of processes that are looked at in one go.
const ENDS: usize = 16;

/// The peers of a process.
#[derive(Debug)]
pub struct Census {
    /// Those that are there.
    pub there: Vec<Arc<Peer>>,
    /// Those that have left.
    pub left: Vec<Arc<Peer>>,
}

/// The processes that this one shares a link with.
#[derive(Debug)]
pub(super) struct Peers {
    pub slot: u16,
    /// Distinguishes this process from earlier and later ones in the same slot.
    pub generation: u64,
    pub segment: Segment,
    /// The descriptor of the segment.
    pub shown: OwnedFd,
    pub rendezvous_socket: RendezvousSocket,
    /// The ends of processes, by slot.
    ends: Arc<OwnedFd>,
    bells: Bells,
    by_slot: RwLock<HashMap<u16, Arc<Peer>>>,
    /// Those that have left `by_slot` since the last query. Changed only while that is locked.
    left: Mutex<Vec<Arc<Peer>>>,
    /// Those that have left, and may still be using something of this process.
    former: Mutex<Vec<Arc<Peer>>>,
    /// Counts changes of `by_slot`.
    changes: AtomicU64,
}

impl Peers {
    /// Those of the process that has claimed a slot: none yet.
    ///
    /// # Errors
    /// As of [`super::Directory::open`].
    pub fn open(registry: &Arc<Registry>) -> Result<Self> {
        let slot = registry.slot();
        pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
        let generation = RandomState::new().hash_one(slot) | 1;
        let (segment, shown) = Segment::create(slot, generation)?;
        Ok(Self {
            slot,
            generation,
            segment,
            shown,
            rendezvous_socket: RendezvousSocket::open(registry)?,
            ends: Arc::new(epoll::create(CreateFlags::CLOEXEC)?),
            bells: Bells::new()?,
            by_slot: RwLock::default(),
            left: Mutex::default(),
            former: Mutex::default(),
            changes: AtomicU64::new(0),
        })
    }

    /// Ready to read when some process has ended.
    pub fn ends(&self) -> BorrowedFd<'_> {
        self.ends.as_fd()
    }

    /// The process of a slot, if there is a link with it.
    pub fn get(&self, slot: u16) -> Option<Arc<Peer>> {
        let peer = self.by_slot.read().get(&slot).cloned();
        peer.filter(|peer| !peer.is_gone())
    }

    pub fn all(&self) -> Vec<Arc<Peer>> {
        self.by_slot.read().values().cloned().collect()
    }

    /// All that may be using something of this process.
    pub fn users(&self) -> Vec<Arc<Peer>> {
        let mut users = self.all();
        let mut former = self.former.lock();
        former.retain(|peer| peer.uses_something() && !peer.has_ended());
        users.extend(former.iter().cloned());
        users
    }

    pub fn census(&self) -> Census {
        let by_slot = self.by_slot.read();
        Census {
            there: by_slot.values().cloned().collect(),
            left: std::mem::take(&mut *self.left.lock()),
        }
    }

    /// Whether some have left since the last census.
    pub fn any_left(&self) -> bool {
        !self.left.lock().is_empty()
    }

    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(SeqCst)
    }

    /// Whether anything depends on records that peers consume.
    pub fn awaits(&self) -> bool {
        self.by_slot.read().values().any(|peer| peer.awaits())
    }

    /// Bells that could not be rung.
    pub fn bells(&self) -> &Bells {
        &self.bells
    }

    /// Rings a peer's bell: again, if that is not possible now.
    pub fn ring(&self, slot: u16) {
        if !self.try_to_ring(slot) {
            self.bells.failed(slot);
        }
    }

    /// Puts something into a peer's ring, by `put`. Ensures that the peer looks, and that a thread
    /// of this process looks when it was taken.
    #[inline]
    pub fn put<T>(&self, peer: &Peer, put: impl FnOnce(&Peer) -> T) -> T {
        // Before there is anything to take, so that the thread that takes it sees this.
        attention::request_reports(self.segment.attention());
        let done = put(peer);
        self.was_put(peer);
        done
    }

    /// The second part of [`Peers::put`].
    #[inline]
    pub fn was_put(&self, peer: &Peer) {
        if peer.is_to_be_woken() {
            self.ring(peer.slot);
        }
        if attention::request_reports(self.segment.attention()) {
            // The progress thread has gone to sleep in between. Records may have been consumed
            // before the peer could see that.
            self.ring(self.slot);
        }
    }

    /// Returns whether the bell was rung, or no process is there.
    fn try_to_ring(&self, slot: u16) -> bool {
        let sent = self.rendezvous_socket.send(slot, Datagram::Bell, &[]);
        sent.is_ok() || sent == Err(Errno(libc::ECONNREFUSED))
    }

    /// Rings again the bells that could not be rung.
    pub fn ring_again(&self) {
        self.bells.on_time(|slot| match self.get(slot) {
            Some(peer) if peer.sleeps() => self.try_to_ring(slot),
            // It is awake, and looks at its rings before it sleeps again; or it is gone. This
            // process was woken by the failure itself.
            _ => true,
        });
    }

    /// The process of a slot and generation, as it is once there is this link with it. Its end is
    /// watched for from now on.
    ///
    /// # Errors
    /// ENOSYS without pidfd_open(2), ESRCH if it has ended; EINVAL for another version; of mmap(2),
    /// epoll_ctl(2).
    pub fn prepare(
        &self,
        (slot, generation): (u16, u64),
        pid: i32,
        segment: BorrowedFd<'_>,
        link: Link,
    ) -> Result<Peer> {
        let segment = PeerSegment::map(segment, slot, generation)?;
        let pid = Pid::from_raw(pid).ok_or(Errno::INVAL)?;
        // It is none for this process itself.
        let other = OtherProcess::new(pid).ok();
        let home = other.and_then(|other| Home::new(other, segment.home(), generation));
        let process = WatchedProcess::open(pid, &self.ends, slot, home)?;
        let places = places(self.slot, slot);
        Ok(Peer {
            slot,
            generation,
            pid,
            process,
            segment,
            link,
            gone: AtomicBool::new(false),
            places,
            out: Lock::new(Out::new(Producer::new(places[0]))),
            collected: AtomicU64::new(0),
            awaits: AtomicBool::new(false),
            can_serve: AtomicBool::new(false),
            crowded: AtomicBool::new(false),
            woken: AtomicU64::new(0),
            claims: Claims::default(),
            mapped: MappedRegions::default(),
        })
    }

    /// This process, as a peer of itself.
    ///
    /// # Errors
    /// As of [`Peers::prepare`]; of memfd_create(2).
    pub fn myself(&self) -> Result<Arc<Peer>> {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let me = (self.slot, self.generation);
        let peer = self.prepare(me, pid, self.shown.as_fd(), Link::create()?.0)?;
        let mut by_slot = self.by_slot.write();
        // Another thread may have been faster.
        let peer = Arc::clone(by_slot.entry(self.slot).or_insert_with(|| Arc::new(peer)));
        self.changes.fetch_add(1, SeqCst);
        Ok(peer)
    }

    /// A process is there, instead of another that had its slot.
    pub fn enter(&self, peer: Peer) -> Arc<Peer> {
        let mut by_slot = self.by_slot.write();
        let peer = Arc::new(peer);
        if let Some(before) = by_slot.insert(peer.slot, Arc::clone(&peer)) {
            self.leave(before);
        }
        self.changes.fetch_add(1, SeqCst);
        peer
    }

    /// The slots of processes that may have ended.
    pub fn ended(&self) -> Vec<u16> {
        let mut events: [MaybeUninit<Event>; ENDS] = [const { MaybeUninit::uninit() }; ENDS];
        let Ok(ended) = sys::epoll::wait(&self.ends, Some(0), &mut events) else {
            return Vec::new();
        };
        let slots = ended.iter().map(|event| u16::try_from(event.data.u64()));
        slots.flatten().collect()
    }

    /// The slots of other processes that have closed their last device.
    pub fn closed(&self) -> Vec<u16> {
        let by_slot = self.by_slot.read();
        let closed = |peer: &&Arc<Peer>| peer.segment.attention() & CLOSED != 0;
        by_slot
            .values()
            .filter(closed)
            .map(|peer| peer.slot)
            .collect()
    }

    /// Whether the process of a slot was there, and has ended or left.
    pub fn has_left(&self, slot: u16) -> bool {
        let by_slot = self.by_slot.read();
        slot != self.slot && by_slot.get(&slot).is_some_and(|peer| peer.has_left())
    }

    /// Forgets the process of a slot; returns its generation.
    pub fn remove(&self, slot: u16) -> Option<u64> {
        let mut by_slot = self.by_slot.write();
        let peer = by_slot.remove(&slot)?;
        let generation = peer.generation;
        self.leave(peer);
        self.changes.fetch_add(1, SeqCst);
        Some(generation)
    }

    /// A peer has left the table, which is locked. Other references to it may remain.
    fn leave(&self, peer: Arc<Peer>) {
        peer.give_up();
        peer.withdraw();
        peer.process.unwatch();
        peer.mapped.clear();
        if peer.uses_something() && !peer.has_ended() {
            self.former.lock().push(Arc::clone(&peer));
        }
        self.left.lock().push(peer);
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.segment.attention().fetch_or(CLOSED, SeqCst);
        for peer in self.all() {
            let _ = self
                .rendezvous_socket
                .send(peer.slot, Datagram::Farewell, &[]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn copies_to_a_process_that_has_left_the_table_move_nothing() {
        let registry = Registry::claim(true).expect("a slot");
        let peers = Peers::open(&registry).expect("peers");
        let peer = peers.myself().expect("a peer");
        let before = peer.claim(1, (2, 3), (4, false)).expect("claimed");
        let [address, length] = before.range(5);
        assert_eq!([address, length].map(|word| word.load(SeqCst)), [5, 4]);
        assert!(peers.remove(peers.slot).is_some());
        assert_eq!(length.load(SeqCst), 0);
        assert!(peer.claim(1, (2, 3), (4, false)).is_none());
        drop(before);
    }

    #[test]
    fn the_end_of_a_process_without_a_link_is_not_reported() {
        let registry = Registry::claim(true).expect("a slot");
        let peers = Peers::open(&registry).expect("peers");
        let mut process = Command::new("sleep").arg("600").spawn().expect("a process");
        let who = (peers.slot, peers.generation);
        let pid = i32::try_from(process.id()).expect("a number");
        let (link, _) = Link::create().expect("a link");
        let peer = peers.prepare(who, pid, peers.shown.as_fd(), link);
        let peer = peer.expect("prepared");
        // As a forked child has it.
        let copy = peer.process.as_fd().try_clone_to_owned().expect("a copy");
        process.kill().expect("killed");
        process.wait().expect("ended");
        assert_eq!(peers.ended(), [peers.slot]);
        drop(peer);
        assert_eq!(peers.ended(), []);
        drop(copy);
    }
}
