//! The state that the devices of a process keep about the other processes of this host: the links
//! that exist, and those that are being made.

use super::attention;
use super::connector::{Connector, Linked, Route};
use super::onesided::{Patience, Use};
use super::peer::Peer;
use super::peers::{Census, Peers};
use super::rendezvous_socket::{Datagram, Received};
use super::segment::Segment;
use super::traffic::{Links, Traffic};
use super::wire::SendUpdates;
use crate::carrier::registry::Registry;
use crate::carrier::successors::Successors;
use kit::errno::Result;
use kit::sync::Mutex;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst, fence};

/// Used connections, and slots of peers that have rung, that are remembered at once.
const USED: usize = 1024;
/// Datagrams that are received in a row.
const DATAGRAMS: usize = 64;
/// So many in one go may have filled the socket: by Linux's own limit (`net.unix.max_dgram_qlen`)
/// it holds 10.
const MANY: usize = 8;

/// The processes of this host.
#[derive(Debug)]
pub struct Directory {
    pub(super) peers: Peers,
    connector: Connector,
    traffic: Traffic,
    /// Queue pairs whose connection was used.
    used: Mutex<Vec<u32>>,
    /// The rings have to be looked at, or [`Directory::take_used`] has something: the bell was
    /// rung, there is a new link, or a peer has left, and [`Directory::take_bell`] was not called
    /// since.
    bell: AtomicBool,
    /// The peers that have rung it since the last query.
    rung: Mutex<Vec<u16>>,
    /// Datagrams that were received since all peers were looked at.
    received: AtomicUsize,
    successors: Successors,
}

impl Directory {
    /// The directory of the process that has claimed a slot, with a rendezvous socket.
    ///
    /// # Errors
    /// EINVAL if it has none; ENOSYS without pidfd_open(2), which all
    /// meeting needs; of memfd_create(2), mmap(2), socket(2), epoll_create(2).
    pub fn open(registry: &Arc<Registry>, links: Links) -> Result<Self> {
        Ok(Self {
            peers: Peers::open(registry)?,
            connector: Connector::default(),
            traffic: Traffic::new(registry.slot(), links),
            used: Mutex::default(),
            bell: AtomicBool::new(false),
            rung: Mutex::default(),
            received: AtomicUsize::new(0),
            successors: Successors::default(),
        })
    }

    /// The segment of this process.
    #[must_use]
    pub fn segment(&self) -> &Segment {
        &self.peers.segment
    }

    /// The slot of this process.
    #[must_use]
    pub fn slot(&self) -> u16 {
        self.peers.slot
    }

    /// Distinguishes this process from earlier and later ones in the same slot.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.peers.generation
    }

    /// The successors of processes that have ended.
    #[must_use]
    pub fn successors(&self) -> &Successors {
        &self.successors
    }

    /// Descriptors that are ready to read when [`Directory::attend`] is to be called.
    pub fn sockets(&self) -> [BorrowedFd<'_>; 4] {
        let [connections, datagrams] = self.peers.rendezvous_socket.sockets();
        let bells = self.peers.bells().event();
        [connections, datagrams, self.peers.ends(), bells]
    }

    /// The process of a slot, if there is a link with it.
    #[must_use]
    pub fn peer(&self, slot: u16) -> Option<Arc<Peer>> {
        self.peers.get(slot)
    }

    /// All peers with a link, until they are found to have ended: code that waits for each must
    /// check [`Peer::is_gone`] and [`Peer::has_ended`].
    #[must_use]
    pub fn peers(&self) -> Vec<Arc<Peer>> {
        self.peers.all()
    }

    /// Waits until no peer uses a part of this process that was taken away from its tables.
    ///
    /// # Errors
    /// The process of which that is not known in the end.
    pub fn await_unused(&self, what: Use, patience: &mut Patience) -> std::result::Result<(), i32> {
        fence(SeqCst);
        for peer in self.peers.users() {
            if !peer.await_unused(what, patience) {
                return Err(peer.pid().as_raw_nonzero().get());
            }
        }
        Ok(())
    }

    /// All peers with a link, and those that have left since the last call: also one that came and
    /// went in between, to which something may have been sent.
    #[must_use]
    pub fn census(&self) -> Census {
        self.peers.census()
    }

    /// Whether there never was a link.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.changes() == 0
    }

    /// Differs when [`Directory::peers`] does.
    #[must_use]
    #[inline]
    pub fn changes(&self) -> u64 {
        self.peers.changes()
    }

    /// The process of a slot, if there is a link with it. If not, one is asked for once that is
    /// worthwhile, and reported for `index` when it is there ([`Directory::take_linked`]), however
    /// late. Never blocks.
    #[must_use]
    pub fn connect(&self, slot: u16, index: u32) -> Option<Arc<Peer>> {
        if let Some(peer) = self.peer(slot) {
            return Some(peer);
        }
        if !self.traffic.is_worth_link(slot) {
            return self.connector.wait(&self.peers, slot, index);
        }
        let peer = self.connector.connect(&self.peers, slot, index);
        // A process that connects to many others also receives requests of many.
        self.receive_datagrams();
        peer.or_else(|| self.peer(slot))
    }

    /// From now on a link with the process of a slot is worth its cost.
    pub fn want_link(&self, slot: u16) {
        self.traffic.want(slot);
    }

    /// Asks for a link with the process of a slot, whatever it costs. Returns when the attempt
    /// began, if one is under way.
    #[must_use]
    pub fn ask_for_link(&self, slot: u16) -> Option<u64> {
        self.traffic.want(slot);
        self.connector.begin(&self.peers, slot)
    }

    /// A packet to the process of a slot goes by UDP. A link is asked for if that is worthwhile by
    /// now.
    #[inline]
    pub fn sent_by_udp(&self, slot: u16) {
        if self.traffic.sent(slot) {
            // If it is not under way, packets continue by UDP.
            let _ = self.connector.begin(&self.peers, slot);
        }
    }

    /// The way of packets to the process of a slot. A missing link is requested once it is worth
    /// its cost.
    #[must_use]
    pub fn route(&self, slot: u16) -> Route {
        match self.peer(slot) {
            Some(peer) => Route::Link(peer),
            None if !self.traffic.is_worth_link(slot) => Route::Pending,
            None => self.connector.route(&self.peers, slot),
        }
    }

    /// Keeps a packet until there is a link with the process of a slot, if there is room; answers
    /// the process if the link is there by now, and the packet was not kept. It is lost if the
    /// attempt is given up.
    #[must_use]
    pub fn hold(&self, slot: u16, packet: &[u8]) -> Option<Arc<Peer>> {
        self.connector.hold(&self.peers, slot, packet)
    }

    /// Links that are there since this was asked last, and the queue pairs that have asked for
    /// them.
    #[must_use]
    pub fn take_linked(&self) -> Vec<Linked> {
        let linked = self.connector.take_linked();
        for (peer, _) in &linked {
            self.traffic.want(peer.slot());
        }
        linked
    }

    /// When [`Directory::on_time`] is to be called, in nanoseconds of the clock; `u64::MAX` if not
    /// at all.
    #[must_use]
    #[inline]
    pub fn deadline(&self) -> u64 {
        let connections = self.peers.rendezvous_socket.deadline();
        let bells = self.peers.bells().deadline();
        self.connector.deadline().min(connections).min(bells)
    }

    /// Continues attempts to share a link whose time has come, connections that wait, and bells
    /// that could not be rung.
    pub fn on_time(&self) {
        self.peers.rendezvous_socket.on_time();
        self.peers.ring_again();
        self.connector.on_time(&self.peers);
        self.announce_links();
    }

    /// Has the thread that looks at the rings look at those of new links, and of peers that have
    /// left.
    fn announce_links(&self) {
        if self.connector.has_linked() || self.peers.any_left() {
            self.bell.store(true, SeqCst);
        }
    }

    /// Unmaps regions of peers that were not used since the last call; returns whether any is left.
    #[must_use]
    pub fn forget_idle_regions(&self) -> bool {
        let mut any = false;
        for peer in self.peers.all() {
            any |= peer.mapped.forget_idle();
        }
        any
    }

    /// Puts something into a peer's ring, by `put`. Ensures that the peer looks, and that a thread
    /// of this process looks when it was taken.
    #[inline]
    pub fn put<T>(&self, peer: &Peer, put: impl FnOnce(&Peer) -> T) -> T {
        self.peers.put(peer, put)
    }

    /// Collects the outcomes of messages sent to a peer, and puts packets that waited for room into
    /// its ring. Ensures that the peer looks at those: it was woken for the records before them,
    /// and may sleep again.
    pub fn collect(&self, peer: &Peer, updates: &mut SendUpdates) {
        if peer.collect(updates) {
            self.peers.was_put(peer);
        }
    }

    /// Records were consumed: wakes the peer, if it waits for that.
    #[inline]
    pub fn reported(&self, peer: &Peer) {
        if peer.awaits_report() {
            self.ring(peer.slot);
        }
    }

    /// No thread of this process looks at the rings from now on, until [`Directory::wakes`]. The
    /// caller has to look for records that are there already, at once and after [`super::LATE`],
    /// and to call [`Directory::sleeps_on`] before the latter.
    pub fn sleeps(&self) {
        attention::sleep(self.segment().attention(), || self.awaits());
    }

    /// A thread that sleeps since [`Directory::sleeps`], and [`super::LATE`] has passed, looks
    /// again: something may depend on peers by then that it could not see before. Returns whether
    /// that is so. Then peers know of it only from now on, and the caller has to look again at once
    /// and after [`super::LATE`].
    pub fn sleeps_on(&self) -> bool {
        attention::sleep_on(self.segment().attention(), || self.awaits())
    }

    /// Whether anything depends on records that peers consume.
    pub fn awaits(&self) -> bool {
        self.peers.awaits()
    }

    /// A thread of this process polls the rings again.
    pub fn wakes(&self) {
        attention::wake(self.segment().attention());
    }

    /// Rings a peer's bell.
    pub fn ring(&self, slot: u16) {
        self.peers.ring(slot);
    }

    /// Informs a peer that the connection of one of its queue pairs is used.
    ///
    /// # Errors
    /// ECONNREFUSED if it is gone; EAGAIN if it does not keep up.
    pub fn report_used(&self, slot: u16, index: u32) -> Result<()> {
        self.peers
            .rendezvous_socket
            .send(slot, Datagram::Used(index), &[])
    }

    /// The queue pairs whose connection was used, by index.
    #[must_use]
    pub fn take_used(&self) -> Vec<u32> {
        std::mem::take(&mut *self.used.lock())
    }

    /// Whether the bell was rung since the last call. The ring was for a sleeping thread, which the
    /// caller has to wake if it did not see the bell itself.
    #[inline]
    pub fn take_bell(&self) -> bool {
        self.bell.load(SeqCst) && self.bell.swap(false, SeqCst)
    }

    /// The slots of processes that have rung the bell since this was asked last, and perhaps not
    /// all of them.
    #[must_use]
    pub fn take_rung(&self) -> Vec<u16> {
        std::mem::take(&mut *self.rung.lock())
    }

    /// Receives datagrams, and forgets peers that have ended.
    pub fn attend(&self) {
        self.peers.bells().attend();
        self.receive_datagrams();
        for slot in self.peers.ended() {
            self.connector.forget_ended(&self.peers, slot);
        }
        self.announce_links();
    }

    /// Receives the datagrams of other processes.
    pub fn receive_datagrams(&self) {
        let mut count = 0;
        while count < DATAGRAMS {
            match self.peers.rendezvous_socket.receive() {
                Ok(Some(received)) => self.process(received),
                Ok(None) => {}
                Err(_) => break,
            }
            count += 1;
        }
        if count >= MANY {
            self.connector.look_at_offers(&self.peers);
        }
        self.look_for_closed(count);
        self.announce_links();
    }

    /// Forgets peers that have closed their last device, once in so many datagrams as there are
    /// where a farewell finds no room.
    fn look_for_closed(&self, received: usize) {
        if self.received.fetch_add(received, SeqCst) + received >= MANY {
            self.received.store(0, SeqCst);
            for slot in self.peers.closed() {
                self.connector.forget_ended(&self.peers, slot);
            }
        }
    }

    fn process(&self, received: Received) {
        match received.datagram {
            Datagram::Bell => {
                self.bell.store(true, SeqCst);
                let mut rung = self.rung.lock();
                if rung.len() < USED && !rung.contains(&received.slot) {
                    rung.push(received.slot);
                }
                drop(rung);
                self.connector.look_at_offer(&self.peers, received.slot);
            }
            Datagram::Farewell => self.connector.forget_ended(&self.peers, received.slot),
            Datagram::Used(index) => {
                let mut used = self.used.lock();
                // A process that sends more is not heeded in between.
                if used.len() < USED {
                    used.push(index);
                }
                drop(used);
                // The thread that receives this may be one that only connects.
                self.bell.store(true, SeqCst);
            }
            Datagram::Rendezvous {
                generation,
                message,
            } => self
                .connector
                .receive(&self.peers, received, generation, message),
        }
    }
}
