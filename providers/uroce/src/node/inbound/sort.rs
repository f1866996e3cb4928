//! Incoming packets: their destination, and whether they are whole
//! (IBTA volume 1, 9.6, and annex A17).

use super::backlog::Backlog;
use super::identification::{Inference, Policy, Run};
use crate::carrier::udp::capture::Record;
use crate::carrier::udp::{PORT, Slot};
use crate::carrier::{Successors, qpn};
use crate::clock;
use crate::cm;
use crate::node::endpoint::Incoming;
use crate::node::progress::lazy_pass::LazyPass;
use crate::node::registry::Groups;
use crate::node::transport::Transport;
use kit::sys::datagram::Received;
use std::net::IpAddr;
use std::sync::Arc;
use uroce_engine::wire::Packet;
use uroce_engine::wire::icrc::{Latest, Network, Route};

const MULTICAST: u32 = 0x00ff_ffff;

/// The QP number that a packet names.
fn destination(datagram: &[u8]) -> Option<u32> {
    let [high, middle, low] = *datagram.get(5..)?.first_chunk()?;
    Some(u32::from_be_bytes([0, high, middle, low]))
}

/// Passes packets to their receivers: the parts needed besides the queue pairs.
pub(in crate::node) struct Sorter {
    slot: Arc<Slot>,
    inference: Inference,
    groups: Groups,
    successors: Successors,
}

impl Sorter {
    pub fn new(slot: Arc<Slot>) -> Self {
        Self {
            slot,
            inference: Inference::default(),
            groups: Groups::default(),
            successors: Successors::default(),
        }
    }

    /// The slot of this process.
    pub fn slot(&self) -> &Slot {
        &self.slot
    }

    /// The members of the multicast groups.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The successors of processes that have ended.
    pub fn successors(&self) -> &Successors {
        &self.successors
    }

    /// Hands the packets of a run to those they are for, neighbours together; those of other
    /// processes are handed on, if it is known how. Returns whether some were for a queue pair
    /// here, and whole.
    pub(super) fn sort(
        &self,
        turn: &mut LazyPass<'_>,
        run: &Received<'_>,
        latest: &mut Latest,
        mut hand_on: Option<&mut Backlog>,
    ) -> bool {
        let transport = turn.transport();
        let mut ours = false;
        let mut rest = run.data;
        let mut looked = Run::new(latest);
        while let Some(qpn) = destination(rest) {
            let foreign = transport.index(qpn).is_none() && !run.destination.is_multicast();
            let same = |datagram: &[u8]| match destination(datagram) {
                Some(next) if foreign => qpn::slot_of(next) == qpn::slot_of(qpn),
                next => next == Some(qpn),
            };
            let neighbours = rest.chunks(run.segment).take_while(|next| same(next));
            let length = neighbours.map(<[u8]>::len).sum();
            let Some((mine, after)) = rest.split_at_checked(length) else {
                break;
            };
            let part = Received { data: mine, ..*run };
            if qpn == cm::QPN && foreign {
                self.manage(turn, &part, hand_on.is_none(), &mut looked);
            } else if !foreign {
                ours |= self.hand_over(turn, &part, qpn, &mut looked);
            } else if let Some(backlog) = &mut hand_on {
                self.pass_on(&part, qpn, backlog);
            }
            rest = after;
        }
        ours
    }

    /// Whether a packet's ICRC is right; one that is whole goes into the capture.
    fn is_whole(
        &self,
        transport: &Transport,
        part: &Received<'_>,
        datagram: &[u8],
        looked: &mut Run<'_>,
    ) -> bool {
        let Some(identification) = check(&self.inference, part, datagram, looked) else {
            looked.guess = looked.guess.wrapping_add(1);
            return false;
        };
        looked.guess = identification.wrapping_add(1);
        capture(transport, part, identification, datagram);
        true
    }

    /// Hands packets for queue pair 1 to the connection manager, whichever process's they are.
    fn manage(
        &self,
        turn: &mut LazyPass<'_>,
        part: &Received<'_>,
        handed_on: bool,
        looked: &mut Run<'_>,
    ) {
        let transport = turn.transport();
        for datagram in part.data.chunks(part.segment) {
            if !self.is_whole(transport, part, datagram, looked) {
                continue;
            }
            let packet = Received {
                data: datagram,
                segment: datagram.len(),
                ..*part
            };
            transport.cm.receive(transport, &packet, handed_on);
        }
    }

    fn pass_on(&self, part: &Received<'_>, qpn: u32, backlog: &mut Backlog) {
        let (to, now) = (qpn::slot_of(qpn), clock::now());
        let mut hand_on = |to| backlog.hand_on(&self.slot, to, part, now);
        if !(1..=qpn::LAST).contains(&to) || hand_on(to) {
            return;
        }
        // Its process has ended. Another may have taken the queue pair over.
        if let Some(successor) = self.successors.find(qpn)
            && (successor == self.slot.number() || !hand_on(successor))
        {
            self.successors.forget(qpn);
        }
    }

    /// Hands packets to one queue pair of this process, or to a group, and returns whether it
    /// could.
    fn hand_over(
        &self,
        turn: &mut LazyPass<'_>,
        part: &Received<'_>,
        qpn: u32,
        looked: &mut Run<'_>,
    ) -> bool {
        let transport = turn.transport();
        let mut parse = |datagram| {
            if !self.is_whole(transport, part, datagram, looked) {
                return None;
            }
            let packet = Packet::parse(datagram).ok()?;
            Some(Incoming::new(packet, datagram.len(), part))
        };
        // One packet needs no memory.
        if part.data.len() <= part.segment {
            let packet = parse(part.data);
            return packet.is_some_and(|one| self.deliver(turn, part, qpn, &[one]));
        }
        let datagrams = part.data.chunks(part.segment);
        let mut whole = Vec::with_capacity(datagrams.len());
        whole.extend(datagrams.filter_map(parse));
        !whole.is_empty() && self.deliver(turn, part, qpn, &whole)
    }

    fn deliver(
        &self,
        turn: &mut LazyPass<'_>,
        part: &Received<'_>,
        qpn: u32,
        packets: &[Incoming<'_>],
    ) -> bool {
        let transport = turn.transport();
        if !part.destination.is_multicast() {
            return transport
                .index(qpn)
                .is_some_and(|index| turn.pass().deliver(index, packets));
        }
        if qpn == MULTICAST {
            for member in self.groups.members(part.destination, part.interface) {
                if let Some(index) = transport.index(member) {
                    turn.pass().deliver(index, packets);
                }
            }
        }
        false
    }
}

/// Writes a packet that has come into the file that was asked for, if one was.
fn capture(transport: &Transport, part: &Received<'_>, identification: u16, datagram: &[u8]) {
    if let Some(capture) = &transport.outbound.tools().capture {
        capture.add(&Record {
            source: part.source,
            destination: part.destination,
            ports: (part.port, PORT),
            hop_limit: part.hop_limit,
            traffic_class: part.traffic_class,
            identification,
            payload: datagram,
        });
    }
}

/// The identification with which a packet's ICRC is right, if its sender may number packets so.
fn check(
    inference: &Inference,
    part: &Received<'_>,
    datagram: &[u8],
    looked: &mut Run<'_>,
) -> Option<u16> {
    let route = |network| Route {
        network,
        source_port: part.port,
        destination_port: PORT,
    };
    let (source, destination) = match (part.source, part.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => (source, destination),
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let network = Network::V6 {
                source: source.octets(),
                destination: destination.octets(),
            };
            return looked.latest.identify(&route(network), datagram);
        }
        _ => return None,
    };
    // Most senders set DF; the socket does not report it, either.
    let (identification, dont_fragment) = [true, false].into_iter().find_map(|dont_fragment| {
        let network = Network::V4 {
            source: source.octets(),
            destination: destination.octets(),
            identification: looked.guess,
            dont_fragment,
        };
        let found = looked.latest.identify(&route(network), datagram)?;
        Some((found, dont_fragment))
    })?;
    let policy = Policy::of(identification, dont_fragment);
    looked
        .admits(inference, source, policy)
        .then_some(identification)
}
