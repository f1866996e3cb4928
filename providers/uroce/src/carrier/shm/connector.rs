//! The rendezvous with all processes of this host: executes the actions of [`Session`]s with
//! sockets, memory and descriptors.

use super::complaint::complain;
use super::link::Link;
use super::peer::Peer;
use super::peers::Peers;
use super::rendezvous::{Delivery, Host, Join, LinkState, Message, Role, Session};
use super::rendezvous_socket::{Datagram, Received};
use crate::clock;
use kit::errno::{Errno, Result};
use kit::sync::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Bytes of packets that wait for one link, and for all, where nothing else leads to this host.
const HELD: usize = 1 << 20;
const HELD_BY_ALL: usize = 16 << 20;
/// Cost of a packet besides its bytes.
const OVERHEAD: usize = 64;
/// Nanoseconds that each running attempt adds to the interval of deadline checks, and the limit of
/// that interval: hundreds of attempts at a time do not need a wake-up each.
const SPACING: u64 = 50_000;
const MOST_SPACING: u64 = 20_000_000;
/// No deadline.
const NEVER: u64 = u64::MAX;

/// How packets get to a process of this host.
#[derive(Debug)]
pub enum Route {
    /// By this link.
    Link(Arc<Peer>),
    /// There may be a link soon.
    Pending,
    /// There is no link.
    Unreachable,
}

/// A link that now is there, and the queue pairs (indices) that have asked for it.
pub type Linked = (Arc<Peer>, Vec<u32>);

/// The rendezvous with all.
#[derive(Debug)]
pub(super) struct Connector {
    by_slot: Mutex<HashMap<u16, Attempt>>,
    /// The earliest deadline.
    next: AtomicU64,
    /// Deadlines are not looked at before.
    not_before: AtomicU64,
    /// Links that were not reported to queue pairs yet.
    linked: Mutex<Vec<Linked>>,
}

impl Default for Connector {
    fn default() -> Self {
        Self {
            by_slot: Mutex::default(),
            next: AtomicU64::new(NEVER),
            not_before: AtomicU64::new(0),
            linked: Mutex::default(),
        }
    }
}

/// The rendezvous with the process of one slot.
#[derive(Debug)]
struct Attempt {
    session: Session,
    assets: Assets,
}

/// The parts of a session.
#[derive(Debug, Default)]
struct Assets {
    /// The link that was offered, and the peer as it is once it has joined it.
    offered: Option<(Peer, OwnedFd)>,
    /// The peer whose link was joined, until it is registered.
    joined: Option<Peer>,
    /// Queue pairs that wait for a link.
    waiting: BTreeSet<u32>,
    /// Packets that do.
    held: Vec<Vec<u8>>,
    held_bytes: usize,
}

/// A session's host.
struct Actor<'a> {
    peers: &'a Peers,
    linked: &'a Mutex<Vec<Linked>>,
    slot: u16,
    assets: &'a mut Assets,
    /// The origin of the current message: its sender, and descriptors.
    pid: i32,
    descriptors: std::vec::IntoIter<OwnedFd>,
}

impl Actor<'_> {
    fn next_descriptor(&mut self) -> Result<OwnedFd> {
        self.descriptors.next().ok_or(Errno(libc::EMFILE))
    }

    /// # Errors
    /// EMFILE if there was no room for descriptors; ENOSYS without pidfd_open(2), ESRCH if the
    /// process has ended; EINVAL for another version; of memfd_create(2), mmap(2), epoll_ctl(2).
    fn make_link(&mut self, generation: u64) -> Result<()> {
        let segment = self.next_descriptor()?;
        let (link, fd) = Link::create()?;
        let who = (self.slot, generation);
        let peer = self.peers.prepare(who, self.pid, segment.as_fd(), link)?;
        self.assets.offered = Some((peer, fd));
        Ok(())
    }

    /// # Errors
    /// As above.
    fn join_link(&mut self, generation: u64) -> Result<LinkState> {
        let [segment, link] = [self.next_descriptor()?, self.next_descriptor()?];
        let link = Link::map(link.as_fd())?;
        let who = (self.slot, generation);
        let peer = self.peers.prepare(who, self.pid, segment.as_fd(), link)?;
        let state = peer.link().join();
        if state == LinkState::Joined {
            self.assets.joined = Some(peer);
        }
        Ok(state)
    }
}

impl Host for Actor<'_> {
    fn send(&mut self, message: Message) -> Delivery {
        let mut descriptors: Vec<BorrowedFd<'_>> = Vec::new();
        if matches!(message, Message::Request | Message::Offer { .. }) {
            descriptors.push(self.peers.shown.as_fd());
        }
        if matches!(message, Message::Offer { .. })
            && let Some((_, link)) = &self.assets.offered
        {
            descriptors.push(link.as_fd());
        }
        let datagram = Datagram::Rendezvous {
            generation: self.peers.generation,
            message,
        };
        // The offer is for the process that has asked, even if another one has its slot by now.
        let only = match (message, &self.assets.offered) {
            (Message::Offer { .. }, Some((peer, _))) => Some(peer.pid().as_raw_nonzero().get()),
            _ => None,
        };
        let socket = &self.peers.rendezvous_socket;
        match socket.send_to((self.slot, only), datagram, &descriptors) {
            Ok(()) => Delivery::Delivered,
            // The last one: too many descriptors of this user are on their way.
            Err(Errno::AGAIN | Errno(libc::EINTR | libc::ETOOMANYREFS)) => Delivery::Full,
            Err(error) if error.is_shortage() => Delivery::Full,
            Err(_) => Delivery::Gone,
        }
    }

    fn create(&mut self, generation: u64) -> bool {
        self.make_link(generation).inspect_err(log_error).is_ok()
    }

    fn join(&mut self, generation: u64) -> Join {
        match self.join_link(generation).inspect_err(log_error) {
            Ok(LinkState::Joined) => Join::Joined,
            Ok(LinkState::Offered | LinkState::Withdrawn) => Join::Withdrawn,
            Err(_) => Join::Failed,
        }
    }

    fn look(&mut self) -> LinkState {
        let offered = self.assets.offered.as_ref();
        offered.map_or(LinkState::Withdrawn, |(peer, _)| peer.link().state())
    }

    fn withdraw(&mut self) -> LinkState {
        let offered = self.assets.offered.as_ref();
        offered.map_or(LinkState::Withdrawn, |(peer, _)| peer.link().withdraw())
    }

    fn discard(&mut self) {
        self.assets.offered = None;
    }

    fn ready(&mut self) {
        let offered = self.assets.offered.take().map(|(peer, _)| peer);
        let Some(peer) = self.assets.joined.take().or(offered) else {
            return;
        };
        let held = std::mem::take(&mut self.assets.held);
        self.assets.held_bytes = 0;
        for packet in &held {
            peer.packet(packet, false);
        }
        let waiting = std::mem::take(&mut self.assets.waiting);
        // A thread that sees the change of the directory takes the list once, and not before the
        // next change again. So the list is locked until the link is in it.
        let mut linked = self.linked.lock();
        let peer = self.peers.enter(peer);
        linked.push((Arc::clone(&peer), waiting.into_iter().collect()));
        drop(linked);
        if !held.is_empty() {
            self.peers.was_put(&peer);
        }
    }

    fn unreachable(&mut self) {
        self.assets.held.clear();
        self.assets.held_bytes = 0;
    }

    fn has_ended(&mut self) -> bool {
        match &self.assets.offered {
            Some((peer, _)) => peer.has_left(),
            None => self.peers.has_left(self.slot),
        }
    }

    fn lost(&mut self) {
        self.peers.remove(self.slot);
    }
}

fn log_error(error: &Errno) {
    complain("a process of this host", *error);
}

impl Connector {
    /// Calls the session with the process of a slot; the first call begins it.
    fn with_session<T>(
        &self,
        peers: &Peers,
        slot: u16,
        received: Option<Received>,
        call: impl FnOnce(&mut Session, u64, &mut Actor<'_>) -> T,
    ) -> T {
        let mut by_slot = self.by_slot.lock();
        let Attempt { session, assets } = by_slot.entry(slot).or_insert_with(|| Attempt {
            session: Session::new(
                Role::of(peers.slot, slot),
                peers.generation,
                u64::from(slot),
            ),
            assets: Assets::default(),
        });
        let (pid, descriptors) = received.map_or((0, Vec::new()), |received| {
            (received.pid, received.descriptors)
        });
        let mut actor = Actor {
            peers,
            linked: &self.linked,
            slot,
            assets,
            pid,
            descriptors: descriptors.into_iter(),
        };
        let before = session.deadline();
        let answer = call(session, clock::now().nanos(), &mut actor);
        let deadline = session.deadline();
        self.refresh(&by_slot, before, deadline);
        answer
    }

    /// Knows the earliest deadline, after that of one session has changed.
    fn refresh(&self, by_slot: &HashMap<u16, Attempt>, before: Option<u64>, after: Option<u64>) {
        let next = self.next.load(SeqCst);
        let after = after.unwrap_or(NEVER);
        let earliest = if after <= next {
            after
        } else if before == Some(next) {
            let deadlines = by_slot.values().filter_map(|one| one.session.deadline());
            deadlines.min().unwrap_or(NEVER)
        } else {
            return;
        };
        self.next.store(earliest, SeqCst);
    }

    /// As [`super::Directory::connect`], of a process without a link.
    pub fn connect(&self, peers: &Peers, slot: u16, index: u32) -> Option<Arc<Peer>> {
        if slot == peers.slot {
            return peers.myself().ok();
        }
        self.with_session(peers, slot, None, |session, now, actor| {
            // Since it was looked for without the lock.
            let peer = peers.get(slot);
            if peer.is_none() {
                actor.assets.waiting.insert(index);
                session.connect(now, actor);
            }
            peer
        })
    }

    /// As [`Connector::connect`], and nothing is begun: another queue pair or the peer may do that.
    pub fn wait(&self, peers: &Peers, slot: u16, index: u32) -> Option<Arc<Peer>> {
        self.with_session(peers, slot, None, |_, _, actor| {
            let peer = peers.get(slot);
            if peer.is_none() {
                actor.assets.waiting.insert(index);
            }
            peer
        })
    }

    /// Asks for a link with the process of a slot, unless there is one or an attempt is under way.
    /// Returns when the attempt began, if one is.
    #[inline(never)]
    pub fn begin(&self, peers: &Peers, slot: u16) -> Option<u64> {
        if slot == peers.slot {
            return None;
        }
        self.with_session(peers, slot, None, |session, now, actor| {
            session.connect(now, actor);
            session.is_pending().then(|| session.asked())
        })
    }

    /// As [`super::Directory::route`], of a process without a link.
    pub fn route(&self, peers: &Peers, slot: u16) -> Route {
        if slot == peers.slot {
            return peers.myself().map_or(Route::Unreachable, Route::Link);
        }
        self.with_session(peers, slot, None, |session, now, actor| {
            if let Some(peer) = peers.get(slot) {
                return Route::Link(peer);
            }
            session.connect(now, actor);
            match session.is_pending() {
                true => Route::Pending,
                false => Route::Unreachable,
            }
        })
    }

    /// As [`super::Directory::hold`].
    pub fn hold(&self, peers: &Peers, slot: u16, packet: &[u8]) -> Option<Arc<Peer>> {
        let mut by_slot = self.by_slot.lock();
        if let Some(peer) = peers.get(slot) {
            return Some(peer);
        }
        let all: usize = by_slot.values().map(|one| one.assets.held_bytes).sum();
        let attempt = by_slot.get_mut(&slot)?;
        let assets = &mut attempt.assets;
        let bytes = packet.len() + OVERHEAD;
        let has_room = assets.held_bytes + bytes <= HELD && all + bytes <= HELD_BY_ALL;
        if attempt.session.is_pending() && has_room {
            assets.held.push(packet.to_vec());
            assets.held_bytes += bytes;
        }
        None
    }

    /// As [`super::Directory::take_linked`].
    pub fn take_linked(&self) -> Vec<Linked> {
        std::mem::take(&mut *self.linked.lock())
    }

    /// Whether that has something.
    pub fn has_linked(&self) -> bool {
        !self.linked.lock().is_empty()
    }

    /// When [`Connector::on_time`] is to be called.
    #[inline]
    pub fn deadline(&self) -> u64 {
        self.next.load(SeqCst).max(self.not_before.load(SeqCst))
    }

    /// Continues attempts whose time has come.
    pub fn on_time(&self, peers: &Peers) {
        let now = clock::now().nanos();
        let is_due = |attempt: &Attempt| attempt.session.deadline().is_some_and(|time| time <= now);
        let by_slot = self.by_slot.lock();
        let due = by_slot.iter().filter(|(_, attempt)| is_due(attempt));
        let due: Vec<u16> = due.map(|(slot, _)| *slot).collect();
        let pending = by_slot.values().filter(|one| one.session.is_pending());
        let pending = u64::try_from(pending.count()).unwrap_or(u64::MAX);
        let spacing = pending.saturating_mul(SPACING).min(MOST_SPACING);
        self.not_before.store(now.saturating_add(spacing), SeqCst);
        drop(by_slot);
        for slot in due {
            self.with_session(peers, slot, None, |session, now, actor| {
                session.on_time(now, actor);
            });
        }
    }

    /// A message of the rendezvous has come.
    pub fn receive(&self, peers: &Peers, received: Received, generation: u64, message: Message) {
        let slot = received.slot;
        if slot == peers.slot {
            return;
        }
        self.with_session(peers, slot, Some(received), |session, now, actor| {
            session.receive(now, generation, message, actor);
        });
    }

    /// The process of a slot has put something into a ring: that of a link that was offered to it,
    /// perhaps.
    pub fn look_at_offer(&self, peers: &Peers, slot: u16) {
        let has_offer = |attempt: &Attempt| attempt.assets.offered.is_some();
        if self.next.load(SeqCst) != NEVER && self.by_slot.lock().get(&slot).is_some_and(has_offer)
        {
            self.with_session(peers, slot, None, |session, now, actor| {
                session.look(now, actor);
            });
        }
    }

    /// So many messages have come that others may have found no room: looks at all links that were
    /// offered.
    pub fn look_at_offers(&self, peers: &Peers) {
        if self.next.load(SeqCst) == NEVER {
            return;
        }
        let by_slot = self.by_slot.lock();
        let is_joined = |attempt: &Attempt| {
            let offered = attempt.assets.offered.as_ref();
            offered.is_some_and(|(peer, _)| peer.link().state() == LinkState::Joined)
        };
        let joined = by_slot.iter().filter(|(_, attempt)| is_joined(attempt));
        let joined: Vec<u16> = joined.map(|(slot, _)| *slot).collect();
        drop(by_slot);
        for slot in joined {
            self.with_session(peers, slot, None, |session, now, actor| {
                session.look(now, actor);
            });
        }
    }

    /// Forgets the process of a slot if it has ended, or left.
    pub fn forget_ended(&self, peers: &Peers, slot: u16) {
        self.with_session(peers, slot, None, |session, now, actor| {
            let offered = actor.assets.offered.as_ref();
            let offered = offered.filter(|(peer, _)| peer.has_left());
            if let Some(generation) = offered.map(|(peer, _)| peer.generation()) {
                session.ended(now, generation, actor);
            }
            if peers.has_left(slot)
                && let Some(generation) = peers.remove(slot)
            {
                session.ended(now, generation, actor);
            }
        });
    }
}
