//! A queue pair as the node sees it: packets that come in for it, and those that it has to send.

use super::attributes;
use super::core::{Core, Inner, Parts};
use crate::carrier::udp::Path;
use crate::carrier::udp::slot::INDEX_BITS;
use crate::carrier::{Sender, shm};
use crate::clock;
use crate::memory::{Care, PdId, Peer};
use crate::node::{Account, Endpoint, Incoming, Messages, Mover};
use uroce_engine::host::Fault;
use uroce_engine::outgoing::{Outgoing, Payload};
use uroce_engine::qp::{Arrival, Service};
use uroce_engine::timer::Time;

impl Endpoint for Core {
    fn receive(&self, now: Time, incoming: &Incoming<'_>, mover: Mover) {
        let inner = &mut *self.inner.lock();
        if !self.is_from_peer(inner.path.as_ref(), incoming) {
            return;
        }
        if !self.goes_elsewhere(inner, incoming) {
            self.take_in(inner, now, incoming, self.care(mover));
        }
    }

    fn transmit(&self, now: Time, out: &mut Sender<'_>, mover: Mover) {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        if let Some(peer) = inner.clogged.take()
            && peer.waits(self.place & INDEX)
        {
            inner.clogged = Some(peer);
            return;
        }
        let care = self.care(mover);
        let mut clogged = None;
        while clogged.is_none() && !out.is_full() {
            let (peer, domain) = (inner.path, inner.domain);
            let (engine, mut host) = inner.split(self, now);
            host.care = care;
            let Some(outgoing) = engine.transmit(now, &mut host) else {
                if self.unpark(inner, now) {
                    continue;
                }
                break;
            };
            let origin = outgoing.origin;
            if self
                .send(&outgoing, peer.as_ref(), (domain, care), out)
                .is_err()
            {
                engine.gather_failed(origin, &mut host);
            }
            // Called again when there is room.
            clogged = out
                .take_clogged()
                .filter(|peer| peer.waits(self.place & INDEX));
        }
        inner.follow(self, now);
        inner.clogged = clogged;
        self.mind_stay(inner);
    }

    fn waits_for_room(&self) -> bool {
        let inner = self.inner.lock();
        let clogged = inner.clogged.as_ref();
        clogged.is_some_and(|peer| peer.waits(self.place & INDEX))
    }

    fn used(&self, now: Time) {
        self.with(now, |engine, host| engine.used(host));
    }

    fn on_time(&self, now: Time) {
        self.with(now, |engine, host| engine.on_time(now, host));
    }

    fn hurry(&self) -> bool {
        self.inner.lock().engine.hurry()
    }

    fn expects_answers(&self) -> bool {
        self.inner.lock().engine.expects_answers()
    }

    fn deadline(&self) -> Option<Time> {
        self.inner.lock().engine.deadline()
    }

    fn messages(&self, messages: &mut Messages<'_>, mover: Mover) {
        let inner = &mut *self.inner.lock();
        self.take_past(inner, messages, self.care(mover));
        self.mind_overrun(inner);
    }

    fn settled(&self, peer: &shm::Peer, fate: shm::Fate) -> bool {
        let inner = &mut *self.inner.lock();
        if !inner.peer.as_ref().is_some_and(|known| known.is(peer)) {
            return false;
        }
        let sends = self.settle(inner, fate);
        self.mind_overrun(inner);
        sends
    }

    fn stalled(&self, peer: &shm::Peer, nanos: u64) {
        let inner = &mut *self.inner.lock();
        if inner.peer.as_ref().is_some_and(|known| known.is(peer))
            && self.stalled_past(inner, nanos)
        {
            let now = clock::now();
            let (engine, mut host) = inner.split(self, now);
            if engine.config().service == Service::Rc {
                engine.fail_past(&mut host);
            }
            inner.follow(self, now);
        }
    }

    fn failed(&self) {
        self.withdraw();
        self.grant();
    }

    fn account(&self) -> Option<Account> {
        let inner = self.inner.lock();
        Some(Account {
            kind: attributes::name_of_service(self.parts.service),
            state: attributes::name_of_state(inner.engine.state()),
            device: self.parts.port.name().to_owned(),
            counters: *inner.engine.counters(),
        })
    }
}

/// The index in a QP number.
pub(super) const INDEX: u32 = (1 << INDEX_BITS) - 1;

impl Core {
    /// How this one uses memory for the queue pair.
    #[inline]
    fn care(&self, mover: Mover) -> Care {
        let Parts {
            send_cq, recv_cq, ..
        } = &self.parts;
        let attends = |mark| {
            let mut queues = [recv_cq, send_cq].into_iter().flatten();
            queues.any(|cq| cq.is_attended_by(mark))
        };
        match mover {
            Mover::Poster => Care::Plain,
            Mover::Poller(mark) if attends(mark) => Care::Plain,
            Mover::Poller(_) | Mover::Node => Care::ByKernel,
        }
    }

    /// The engine takes in a packet of the peer's.
    pub(super) fn take_in(
        &self,
        inner: &mut Inner,
        now: Time,
        incoming: &Incoming<'_>,
        care: Care,
    ) {
        let grh = (self.parts.service == Service::Ud).then(|| incoming.grh());
        let arrival = Arrival {
            packet: &incoming.packet,
            grh: grh.as_ref(),
        };
        let srqn = incoming.packet.headers.xrceth.map(|header| header.srqn);
        if let Some(srq) = srqn.and_then(|number| self.shared(number)) {
            inner.domain = srq.pd();
        }
        let (engine, mut host) = inner.split(self, now);
        host.care = care;
        engine.receive(now, &arrival, &mut host);
        inner.follow(self, now);
        // Before the answer leaves.
        if inner.estate.is_some() && inner.engine.is_between() {
            self.record(inner);
        }
    }

    /// Whether packets from this address are the connected peer's.
    fn is_from_peer(&self, path: Option<&Path>, incoming: &Incoming<'_>) -> bool {
        if self.parts.service == Service::Ud {
            return self.parts.port.has(incoming.destination) || incoming.multicast;
        }
        path.is_some_and(|path| path.destination == incoming.source)
    }

    /// Hands a packet over. One that has nowhere to go is dropped, as a network would.
    fn send(
        &self,
        outgoing: &Outgoing<'_>,
        peer: Option<&Path>,
        memory: (PdId, Care),
        out: &mut Sender<'_>,
    ) -> std::result::Result<(), Fault> {
        let path = match outgoing.address {
            Some(name) => self.parts.addresses.path(name),
            None => peer.copied(),
        };
        let Some(path) = path else {
            return Ok(());
        };
        let length = usize::try_from(outgoing.payload.length()).map_err(|_| Fault)?;
        out.push(&path, &outgoing.headers, length, |room| {
            self.gather(&outgoing.payload, memory, room)
        })
    }

    fn gather(
        &self,
        payload: &Payload<'_>,
        (domain, care): (PdId, Care),
        room: &mut [u8],
    ) -> std::result::Result<(), Fault> {
        let memory = self.keys().using(care);
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
                    qpn: self.number,
                };
                memory.read(peer, rkey, address, room)
            }
        }
    }
}
