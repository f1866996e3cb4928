//! The connection: the protocol engine of a queue pair, and its waiting conditions.
//!
//! [`Connection`] owns the engine, the queue pair's own receive requests, its requests to bind
//! windows, the completion counters, and where the peer is: the address vector, the path, the link
//! with the peer's process and the carrier that packets take ([`super::route`]). It also owns the
//! two things that the engine waits for and does not know of: room in a peer's ring
//! ([`Backpressure`]) and a peer that takes nothing from its ring ([`super::stall`]).
//!
//! *Leaving the protocol path.* A request takes the fast path only if none before it is with the
//! engine. A program that always has some outstanding would stay on the protocol path for good,
//! once it is there. So from time to time no request begins until those under way are finished, and
//! the waiting ones are tried by the fast path ([`Retry`],
//! [`super::fast_path::FastPath::retry_waiting`]).
//!
//! *Invariants.*
//! - The link is that of the process whose slot is in the destination QP number, or there is none.
//! - While a ring has no room, nothing is transmitted, and a deadline runs: the engine's for
//!   reliable services, the stall's for others.
//! - A completion queue without room takes the queue pair to ERR. [`Connection::fail_on_overrun`]
//!   is called after each call of the engine that may complete something.
//!
//! *Locks.* All of it is under the queue pair's lock. Meanwhile keys, receive queues, completion
//! queues, events and the carrier's buffer may be locked, never another queue pair.
//!
//! *Addresses.* A connected queue pair accepts packets only from its peer's address. A datagram
//! must be addressed to the device or to a group. A datagram whose address handle was destroyed
//! before it left is dropped, as is one without a path.
//!
//! *Tests.* `tests`: when a link is the peer's, pauses, and the connection's behaviour while a peer
//! consumes nothing. `super::tests`: which packets are the peer's. `providers/uroce/tests`:
//! `verbs.rs` (data over UDP), `lossy.rs`, `stalled.rs` (backpressure and peers that stop).

use super::attributes;
use super::binds::Binds;
use super::counting::Counting;
use super::destinations::Destinations;
use super::host::Surroundings;
use super::link_wait::link_wait;
use super::requests::Posting;
use super::resources::Resources;
use super::route::Route;
use super::stall::{Patience, Stall};
use super::write_combining::WriteCombining;
use crate::carrier::udp::Path;
use crate::carrier::{Sender, Via, qpn, shm};
use crate::memory::{AccessMode, PdId, Peer};
use crate::node::{Incoming, Remote};
use crate::receive::ReceiveQueue;
use crate::{address, limits};
use bytemuck::Zeroable;
use kit::abi::*;
use kit::errno::Result;
use kit::sys::application::FoundPage;
use std::sync::Arc;
use uroce_engine::host::Fault;
use uroce_engine::outgoing::{Outgoing, Payload};
use uroce_engine::qp::{Arrival, Config, QueuePair, Service, State};
use uroce_engine::timer::Time;
use uroce_engine::work::{Request, WorkRequest};

/// The least and the longest time between two attempts to leave the protocol path, in nanoseconds.
const RETRIES: [u64; 2] = [1_000_000, 1_000_000_000];

/// When requests that wait for the protocol are tried by the fast path. That costs a pause, so
/// attempts in vain become rare.
#[derive(Debug, Default)]
struct Retry {
    next: Time,
    /// The time until the next attempt, in nanoseconds.
    wait: u64,
    /// No request begins until those under way are finished.
    drains: bool,
}

impl Retry {
    fn is_due(&self, now: Time) -> bool {
        self.next <= now
    }

    /// The fast path has just refused a request, and none was with the protocol before it.
    fn begin(&mut self, now: Time) {
        let [least, _] = RETRIES;
        self.next = self.next.max(now.plus(least));
    }

    fn tried(&mut self, now: Time, succeeded: bool) {
        let [least, most] = RETRIES;
        self.wait = match succeeded {
            true => least,
            false => (self.wait * 2).clamp(least, most),
        };
        self.next = now.plus(self.wait);
    }
}

/// A peer whose ring has no room.
struct Backpressure {
    peer: Arc<shm::Peer>,
    /// Up to where it had taken records when that was looked at last.
    taken: u64,
}

/// The protocol engine of a queue pair, and its waiting conditions.
pub(super) struct Connection {
    engine: QueuePair,
    /// Its own receive queue.
    receives: Option<ReceiveQueue>,
    binds: Binds,
    destinations: Destinations,
    counting: Counting,
    /// The protection domain of the latest request, because an XRC target has none.
    domain: PdId,
    /// The address vector, as it was given.
    av: Option<ibv_ah_attr>,
    /// The timeout, as it was given: a longer one may be in force.
    timeout: Option<u8>,
    /// Where the connected peer is.
    path: Option<Path>,
    /// Which carrier packets to the peer take.
    route: Route,
    /// The peer's process, if there is a link with it.
    peer: Option<Arc<shm::Peer>>,
    /// Until when requests wait for a link.
    hold: Option<Time>,
    /// When requests that wait for the protocol are tried by the fast path.
    retry: Retry,
    /// The peer whose ring had no room for a packet.
    backpressure: Option<Backpressure>,
    /// Whether the peer consumes its messages.
    stall: Stall,
}

impl Connection {
    /// One in RESET.
    pub fn new(qp: &Resources) -> Self {
        Self {
            engine: QueuePair::new(Config {
                service: qp.service(),
                number: qp.number,
                max_send_wr: qp.max_send_wr(),
                sq_sig_all: qp.sq_sig_all(),
                shared_receives: qp.shares_receives(),
                port_mtu: qp.port().mtu(),
                max_in_flight: limits::MAX_IN_FLIGHT,
            }),
            receives: qp.receive_queue(),
            binds: Binds::default(),
            destinations: Destinations::default(),
            counting: Counting::default(),
            domain: qp.pd(),
            av: None,
            timeout: None,
            path: None,
            route: Route::default(),
            peer: None,
            hold: None,
            retry: Retry::default(),
            backpressure: None,
            stall: Stall::default(),
        }
    }

    /// The engine.
    #[inline]
    pub fn engine(&self) -> &QueuePair {
        &self.engine
    }

    /// The same, for calls that need no surroundings.
    #[inline]
    pub fn engine_mut(&mut self) -> &mut QueuePair {
        &mut self.engine
    }

    /// The engine and its surroundings, for calls at that time.
    #[inline]
    pub fn split<'a>(
        &'a mut self,
        qp: &'a Resources,
        now: Time,
    ) -> (&'a mut QueuePair, Surroundings<'a>) {
        let host = Surroundings {
            qp,
            receives: self.receives.as_mut(),
            binds: &mut self.binds,
            destinations: &mut self.destinations,
            counting: &self.counting,
            domain: self.domain,
            mode: AccessMode::Faultable,
            writes: None,
            now,
        };
        (&mut self.engine, host)
    }

    /// A completion queue that had no room takes its queue pairs with it (IBTA volume 1, 10.2.6.2).
    pub fn fail_on_overrun(&mut self, qp: &Resources, now: Time) {
        if qp.take_overrun() {
            let (engine, mut host) = self.split(qp, now);
            engine.fatal(&mut host);
        }
    }

    /// Its own receive queue.
    #[inline]
    pub fn receives(&self) -> Option<&ReceiveQueue> {
        self.receives.as_ref()
    }

    /// The same, to be changed.
    #[inline]
    pub fn receives_mut(&mut self) -> Option<&mut ReceiveQueue> {
        self.receives.as_mut()
    }

    /// Its requests to bind windows.
    pub fn binds_mut(&mut self) -> &mut Binds {
        &mut self.binds
    }

    /// What a posted request is converted with.
    pub fn posting<'a>(&'a mut self, qp: &'a Resources) -> Posting<'a> {
        Posting {
            service: qp.service(),
            cap: qp.cap(),
            pd: qp.pd(),
            keys: qp.keys(),
            binds: &mut self.binds,
            destinations: &mut self.destinations,
        }
    }

    /// A converted request is not posted.
    pub fn discard(&mut self, wr: &WorkRequest) {
        if let Request::Bind(name) = wr.request {
            self.binds.take(name);
        }
        if let Some(destination) = wr.destination {
            self.destinations.discard(destination.address);
        }
    }

    /// The counters of its requests.
    #[inline]
    pub fn counting(&self) -> &Counting {
        &self.counting
    }

    /// The same, to be changed.
    pub fn counting_mut(&mut self) -> &mut Counting {
        &mut self.counting
    }

    /// The peer's process, if there is a link with it.
    #[inline]
    pub fn peer(&self) -> Option<&Arc<shm::Peer>> {
        self.peer.as_ref()
    }

    /// The same, as long as it is not known to be gone.
    #[inline]
    pub fn live_peer(&self) -> Option<&Arc<shm::Peer>> {
        self.peer.as_ref().filter(|peer| !peer.is_gone())
    }

    /// The other end, if there is one: a datagram queue pair has none.
    pub fn remote(&self) -> Option<Remote> {
        let path = self.path.as_ref()?;
        Some(Remote {
            address: path.destination,
            number: self.engine.attributes().dest_qp_num,
            is_linked: self.live_peer().is_some(),
        })
    }

    /// The attributes of ibv_query_qp(3). `drains` means that requests wait that the engine does
    /// not know.
    pub fn query(&self, qp: &Resources, drains: bool, attr: &mut ibv_qp_attr) {
        let engine = &self.engine;
        attributes::report(engine.attributes(), attr);
        attr.qp_state = attributes::qp_state(engine.state());
        attr.cur_qp_state = attr.qp_state;
        let drains = engine.state() == State::Sqd && drains;
        attr.sq_draining = u8::from(engine.is_draining() || drains);
        attr.cap = *qp.cap();
        attr.port_num = 1;
        attr.ah_attr = self.av.unwrap_or_else(ibv_ah_attr::zeroed);
        attr.timeout = self.timeout.unwrap_or(attr.timeout);
    }
}

/// Where the peer is.
impl Connection {
    /// The path and the address vector of a connection that begins. There is no link yet. Packets
    /// take one from the beginning if `by_link`.
    pub fn begin(&mut self, path: Path, av: ibv_ah_attr, by_link: bool) {
        self.engine.delay_acknowledgements(true);
        // By UDP a system call costs more than a short message.
        self.engine.batch_requests(!by_link);
        self.end_hold();
        self.path = Some(path);
        self.peer = None;
        self.route.begin(by_link);
        self.av = Some(av);
    }

    /// The path of a connection that continues. Its packets take the link as before, unless the new
    /// path leads to another host.
    pub fn change_path(&mut self, path: Path, av: ibv_ah_attr) {
        if !path.local && self.peer.take().is_some() {
            // Otherwise a pause might never end.
            self.retry = Retry::default();
            self.engine.pause(false);
            self.route.begin(false);
        }
        self.path = Some(path);
        self.av = Some(av);
    }

    /// The path of the delegate of an XRC target, whose owner has the address vector.
    pub fn begin_delegate(&mut self, path: Path, peer: Option<Arc<shm::Peer>>, by_link: bool) {
        self.path = Some(path);
        self.route.begin(by_link);
        self.peer = peer;
    }

    /// The path of an XRC target that was taken over.
    pub fn take_over(&mut self, path: Option<Path>, av: ibv_ah_attr) {
        self.path = path;
        self.av = Some(av);
    }

    /// The program has given this timeout.
    pub fn note_timeout(&mut self, timeout: u8) {
        self.timeout = Some(timeout);
    }

    /// Forgets the peer and all requests, as in RESET.
    pub fn reset(&mut self) {
        self.backpressure = None;
        self.timeout = None;
        self.stall.end();
        self.end_hold();
        self.retry = Retry::default();
        self.path = None;
        self.route = Route::default();
        self.peer = None;
        self.av = None;
        self.binds.clear();
        self.destinations.clear();
        if let Some(receives) = &self.receives {
            receives.clear();
        }
    }

    /// There is a link with the peer's process. A packet in a ring costs no system call, so
    /// acknowledgements and requests do not wait for others.
    pub fn use_link(&mut self, peer: &Arc<shm::Peer>) {
        self.end_hold();
        self.retry = Retry::default();
        self.peer = Some(Arc::clone(peer));
        self.engine.delay_acknowledgements(false);
        self.engine.batch_requests(false);
    }

    /// Whether a process is that of the connection's peer, and there was no link with it so far.
    pub fn lacks_link(&self, peer: &shm::Peer) -> bool {
        let is_local = self.path.as_ref().is_some_and(|path| path.local);
        let theirs = self.engine.attributes().dest_qp_num;
        // A link that is gone was that of a former process of the slot.
        self.peer.is_none() && is_local && qpn::slot_of(theirs) == peer.slot()
    }

    /// Whether its link is the one with this process.
    pub fn is_linked_to(&self, peer: &shm::Peer) -> bool {
        self.peer.as_ref().is_some_and(|known| known.is(peer))
    }

    /// The link with the peer's process, if it has come while the queue pair was connected.
    pub fn find_link(&self, qp: &Resources) -> Option<Arc<shm::Peer>> {
        let theirs = self.engine.attributes().dest_qp_num;
        let peer = qp.node().peer(theirs)?;
        self.lacks_link(&peer).then_some(peer)
    }

    /// Whether packets from this address are the connected peer's.
    pub fn is_from_peer(&self, qp: &Resources, incoming: &Incoming<'_>) -> bool {
        if qp.service() == Service::Ud {
            return qp.port().has(incoming.destination) || incoming.multicast;
        }
        let path = self.path.as_ref();
        path.is_some_and(|path| path.destination == incoming.source)
    }

    /// Whether requests take the link; has them take it if none is under way. Asked for only where
    /// one could be sent now.
    #[inline]
    pub fn requests_by_link(&mut self, qp: &Resources, now: impl FnOnce() -> Time) -> bool {
        self.route.requests_by_link() || self.peer.is_some() && self.move_requests(qp, now)
    }

    /// A long request that is about to be posted is worth a link, and waits a moment for it. So
    /// does each of an unreliable connection that nothing else carries.
    #[inline]
    pub fn hold_if_worthwhile(&mut self, qp: &Resources, wr: &WorkRequest, now: Time) {
        if self.peer.is_none() && (!self.route.requests_by_link() || qp.service() == Service::Uc) {
            self.hold(qp, wr, now);
        }
    }

    #[inline(never)]
    fn hold(&mut self, qp: &Resources, wr: &WorkRequest, now: Time) {
        let wait = link_wait(qp.service(), wr, || qp.node().is_local_only());
        let is_local = self.path.as_ref().is_some_and(|path| path.local);
        let Some(wait) = wait.filter(|_| is_local) else {
            return;
        };
        let theirs = self.engine.attributes().dest_qp_num;
        let asked = qp.node().ask_for_link(theirs);
        let until = asked.map(|asked| asked.plus(wait));
        if let Some(until) = until.filter(|until| now < *until) {
            self.hold = Some(until);
            self.engine.pause(true);
        }
    }

    /// Requests wait for a link no longer.
    fn end_hold(&mut self) {
        if self.hold.take().is_some() {
            self.engine.pause(false);
        }
    }

    /// The same, if it is time to.
    pub fn end_hold_on_time(&mut self, now: Time) {
        if self.hold.is_some_and(|until| until <= now) {
            self.end_hold();
        }
    }

    /// Whether the requests that wait for the protocol are to be tried by the fast path now. If it
    /// is time for that but others are under way, no other begins until they are finished. `may`
    /// answers whether the fast path may take the first, as this thread accesses memory: a pause
    /// that ends in a thread that may not is an attempt in vain.
    pub fn retries_fast_path(
        &mut self,
        qp: &Resources,
        now: Time,
        may: impl FnOnce(&WorkRequest) -> bool,
    ) -> bool {
        let drained = std::mem::take(&mut self.retry.drains);
        if drained {
            self.engine.pause(false);
        }
        let is_reachable = self.live_peer().is_some() && qp.service() == Service::Rc;
        let due = is_reachable && self.retry.is_due(now);
        let first = due && self.engine.first_waiting().is_some_and(may);
        if drained && !first {
            // The thread that began the pause may try more than this one. Otherwise each request
            // that it posts would begin another pause.
            self.retry.tried(now, false);
        }
        if !first || !self.requests_by_link(qp, || now) {
            return false;
        }
        self.retry.drains = !self.engine.is_idle();
        self.engine.pause(self.retry.drains);
        !self.retry.drains
    }

    /// The protocol takes a request that the fast path has refused.
    pub fn begin_retries(&mut self, now: Time) {
        if self.engine.outstanding() == 0 {
            self.retry.begin(now);
        }
    }

    /// Those that wait were tried. `succeeded` means that the first took the fast path.
    pub fn fast_path_retried(&mut self, now: Time, succeeded: bool) {
        self.retry.tried(now, succeeded);
    }

    #[inline(never)]
    fn move_requests(&mut self, qp: &Resources, now: impl FnOnce() -> Time) -> bool {
        let moves = match qp.service() {
            Service::Rc | Service::XrcInitiator => {
                let is_idle = self.engine.is_idle();
                self.engine.pause(!is_idle);
                is_idle
            }
            _ => self.route.udp_has_drained(now),
        };
        self.route.move_requests(moves);
        moves
    }
}

/// Packets.
impl Connection {
    /// The engine takes in a packet of the peer's.
    pub fn receive(
        &mut self,
        qp: &Resources,
        now: Time,
        incoming: &Incoming<'_>,
        mode: AccessMode,
    ) {
        let grh = (qp.service() == Service::Ud).then(|| incoming.grh());
        let arrival = Arrival {
            packet: &incoming.packet,
            grh: grh.as_ref(),
        };
        let srqn = incoming.packet.headers.xrceth.map(|header| header.srqn);
        if let Some(srq) = srqn.and_then(|number| qp.xrc_srq(number)) {
            self.domain = srq.pd();
        }
        let (engine, mut host) = self.split(qp, now);
        host.mode = mode;
        engine.receive(now, &arrival, &mut host);
    }

    /// The engine takes in packets that came together, those of the peer's, of a connection. Their
    /// writes are combined.
    pub fn receive_combined(&mut self, qp: &Resources, now: Time, incoming: &[Incoming<'_>]) {
        let mut from_peer = Vec::with_capacity(incoming.len());
        for one in incoming {
            if self.is_from_peer(qp, one) {
                self.route.received(one);
                from_peer.push(&one.packet);
            }
        }
        let (engine, mut host) = self.split(qp, now);
        host.writes = qp.keys().stage().map(WriteCombining::new);
        for packet in from_peer {
            let grh = None;
            engine.receive(now, &Arrival { packet, grh }, &mut host);
        }
        engine.settle(&mut host);
        if let Some(mut writes) = host.writes.take() {
            if writes.take_lost() {
                qp.fail();
            }
            qp.keys().unstage(writes.end());
        }
    }

    /// A packet has come from the peer: replies take the link from the first request on that came
    /// by it.
    #[inline]
    pub fn note_arrival(&mut self, incoming: &Incoming<'_>) {
        self.route.received(incoming);
    }

    /// Whether there is nothing to transmit, and nothing that only a call of
    /// [`Connection::transmit`] changes.
    #[inline]
    pub fn is_quiet(&self, now: Time) -> bool {
        let moves = self.peer.is_some() && !self.route.requests_by_link();
        let waits = self.backpressure.is_some() || self.hold.is_some() || self.retry.drains;
        !moves && !waits && self.engine.is_quiet(now)
    }

    /// Sends the next packet, if there is one. `link` is the link with the peer, as long as that is
    /// not gone.
    #[inline]
    pub fn transmit(
        &mut self,
        qp: &Resources,
        now: Time,
        link: Option<&Arc<shm::Peer>>,
        mode: AccessMode,
        out: &mut Sender<'_>,
        found: &mut FoundPage,
    ) -> bool {
        self.requests_by_link(qp, || now);
        let only = qp.node().is_local_only();
        let carriers = self.route.carriers(link, self.peer.is_some(), only);
        let (path, domain) = (self.path, self.domain);
        let (engine, mut host) = self.split(qp, now);
        host.mode = mode;
        let Some(outgoing) = engine.transmit(now, &mut host) else {
            return false;
        };
        let origin = outgoing.origin;
        let via = carriers.of(origin);
        let datagram = outgoing.address.map(|name| host.destinations.take(name));
        let to = match &datagram {
            Some(path) => path.as_ref().map(|path| (path, Via::Destination)),
            None => path.as_ref().map(|path| (path, via)),
        };
        if send(qp, &outgoing, to, (domain, mode, found), out).is_err() {
            engine.gather_failed(origin, &mut host);
        }
        self.route.sent(via, now);
        true
    }
}

/// Sends a packet. A packet without a path is dropped, as a network would.
fn send(
    qp: &Resources,
    outgoing: &Outgoing<'_>,
    to: Option<(&Path, Via<'_>)>,
    memory: (PdId, AccessMode, &mut FoundPage),
    out: &mut Sender<'_>,
) -> std::result::Result<(), Fault> {
    let Some(to) = to else {
        return Ok(());
    };
    let length = usize::try_from(outgoing.payload.length()).map_err(|_| Fault)?;
    out.push(to, &outgoing.headers, length, |room| {
        gather(qp, &outgoing.payload, memory, room)
    })
}

fn gather(
    qp: &Resources,
    payload: &Payload<'_>,
    (domain, mode, found): (PdId, AccessMode, &mut FoundPage),
    room: &mut [u8],
) -> std::result::Result<(), Fault> {
    let memory = qp.keys().using(mode);
    match *payload {
        Payload::Bytes(bytes) => {
            room.copy_from_slice(bytes);
            Ok(())
        }
        Payload::Local(pieces) => {
            let mut rest = room;
            for piece in pieces {
                let length = usize::try_from(piece.length).map_err(|_| Fault)?;
                let (now, later) = rest.split_at_mut_checked(length).ok_or(Fault)?;
                memory.gather(domain, piece, now)?;
                rest = later;
            }
            Ok(())
        }
        Payload::Remote { rkey, address, .. } => {
            let peer = Peer {
                pd: domain,
                qpn: qp.number,
            };
            memory.read(peer, rkey, address, room, found)
        }
    }
}

/// Waiting conditions that the engine does not know.
impl Connection {
    /// Whether packets still wait for room in a ring. Asked for before packets are sent; if they do
    /// not wait any more, that is forgotten.
    pub fn is_blocked(&mut self, qp: &Resources, now: Time) -> bool {
        let Some(backpressure) = self.backpressure.take() else {
            return false;
        };
        if !waits_for(qp, &backpressure.peer) {
            return false;
        }
        self.backpressure = Some(backpressure);
        self.begin_wait(qp, now);
        true
    }

    /// Whether packets wait for room in a ring.
    pub fn waits_for_room(&self, qp: &Resources) -> bool {
        let backpressure = self.backpressure.as_ref();
        backpressure.is_some_and(|backpressure| waits_for(qp, &backpressure.peer))
    }

    /// A peer's ring had no room, if there is one: packets wait for it.
    pub fn block(&mut self, qp: &Resources, now: Time, peer: Option<Arc<shm::Peer>>) {
        self.backpressure = peer.map(|peer| Backpressure {
            taken: peer.progress(),
            peer,
        });
        self.begin_wait(qp, now);
    }

    /// Deadlines run while a ring has no room.
    fn begin_wait(&mut self, qp: &Resources, now: Time) {
        let Some(backpressure) = &self.backpressure else {
            return;
        };
        if qp.service().reliable() {
            self.engine.wait_for_room(now);
        } else if self.stall.deadline().is_none()
            && let Some(patience) = self.patience(qp)
        {
            self.stall.begin(now, patience, backpressure.taken);
        }
    }

    /// A peer that has taken something from its ring answers later: the engine's deadlines are
    /// moved.
    pub fn postpone_if_taken(&mut self, now: Time) {
        if let Some(backpressure) = &mut self.backpressure {
            let taken = backpressure.peer.progress();
            if std::mem::replace(&mut backpressure.taken, taken) != taken {
                self.engine.postpone(now);
            }
        }
    }

    /// How long a peer may take nothing.
    fn patience(&self, qp: &Resources) -> Option<Patience> {
        Patience::of(self.engine.attributes(), qp.service().reliable())
    }

    /// Whether a deadline runs for the peer's messages.
    #[inline]
    pub fn watches_peer(&self) -> bool {
        self.stall.deadline().is_some()
    }

    /// Begins to watch whether the peer consumes its messages. Returns the time of the first check.
    pub fn watch_peer(&mut self, qp: &Resources, now: Time) -> Option<Time> {
        let patience = self.patience(qp)?;
        let peer = self.peer.as_ref()?;
        Some(self.stall.begin(now, patience, peer.progress()))
    }

    /// Checks, if it is time to, whether the peer consumes its messages. Returns whether it has
    /// consumed nothing for its whole time limit while messages of the fast path are in flight, the
    /// oldest at position `oldest`. Without a connection, packets that wait for room are lost from
    /// then on.
    pub fn peer_is_stalled(&mut self, qp: &Resources, now: Time, oldest: Option<u64>) -> bool {
        if !self.stall.is_due(now) {
            return false;
        }
        let in_flight = oldest.is_some();
        let peer = match &self.backpressure {
            _ if in_flight => self.peer.as_ref(),
            Some(backpressure) if !qp.service().reliable() => Some(&backpressure.peer),
            _ => None,
        };
        let (Some(peer), Some(patience)) = (peer, self.patience(qp)) else {
            self.stall.end();
            return false;
        };
        if !self.stall.look(now, patience, peer.progress(), oldest) {
            return false;
        }
        self.stall.end();
        if !in_flight {
            peer.stalls();
        }
        in_flight
    }

    /// The next time at which the engine, the stall or the hold has to be checked.
    pub fn deadline(&self) -> Option<Time> {
        Time::earliest([self.engine.deadline(), self.stall.deadline(), self.hold])
    }
}

/// Whether packets have to wait until a peer's ring has room. Those of unreliable services are lost
/// once the peer has taken nothing for long.
fn waits_for(qp: &Resources, peer: &shm::Peer) -> bool {
    let index = qpn::index_of(qp.node_number);
    peer.waits(index) && (qp.service().reliable() || !peer.is_stalled())
}

/// The peer whose ring had no room for a packet, if the packet has to wait for it.
pub(super) fn blocked(qp: &Resources, out: &mut Sender<'_>) -> Option<Arc<shm::Peer>> {
    out.take_backpressured().filter(|peer| waits_for(qp, peer))
}

/// The path to the peer of an address vector, as a device that can be reached.
///
/// # Errors
/// EINVAL for an address that the interface does not have; the error of the routes.
pub(super) fn path(qp: &Resources, av: &ibv_ah_attr) -> Result<Path> {
    let path = address::path(qp.port(), av)?;
    address::reachable(&path)?;
    Ok(path)
}

/// The link with the process that a queue pair is being connected to. If there is none but one is
/// possible, it is requested, and [`crate::node::Endpoint::linked`] is called when it exists.
pub(super) fn connect(
    qp: &Resources,
    path: Option<&Path>,
    attr: &ibv_qp_attr,
    mask: u32,
) -> Option<Arc<shm::Peer>> {
    let connects = path.is_some_and(|path| path.local) && mask & IBV_QP_DEST_QPN != 0;
    if connects && qp.service() == Service::Uc {
        // A connection that begins by UDP moves to a link only after a pause: see `route`.
        qp.node().want_link(attr.dest_qp_num);
    }
    connects
        .then(|| qp.node().connect(attr.dest_qp_num, qp.node_number))
        .flatten()
}

#[cfg(test)]
mod tests;
