//! The interface between the node and a queue pair.

use super::caller::Caller;
pub(super) use super::inbound::messages::Messages;
use crate::carrier::Sender;
use crate::carrier::shm::{Outcome, Peer};
use kit::sys::datagram::Received;
use std::net::IpAddr;
use std::sync::Arc;
use uroce_engine::counters::Counters;
use uroce_engine::timer::Time;
use uroce_engine::wire::Packet;

/// A queue pair, as the node sees it.
///
/// Calls come from any thread: pollers, posters and the progress thread. None is made while the
/// node holds a lock that [`super::Node::post`], [`super::Node::join`] or [`super::Node::leave`]
/// needs; but [`super::Node::detach`] waits for all calls to end, so it may be called neither from
/// inside one nor with a lock held that a call waits for.
pub trait Endpoint: Send + Sync {
    /// Takes in a packet for this QP number, its ICRC checked. Returns whether there may be
    /// something to transmit now.
    fn receive(&self, now: Time, incoming: &Incoming<'_>, caller: Caller) -> bool;

    /// Takes in packets that came together, in order: worth having if it locks once for all.
    /// Returns the same.
    fn receive_batch(&self, now: Time, incoming: &[Incoming<'_>], caller: Caller) -> bool {
        let mut sends = false;
        for one in incoming {
            sends |= self.receive(now, one, caller);
        }
        sends
    }

    /// Passes packets to `out` until there are none or `out.is_full()`; called again later in the
    /// latter case.
    fn transmit(&self, now: Time, out: &mut Sender<'_>, caller: Caller);

    /// Whether the thread of that mark polls its completion queues. Called with the node's list of
    /// waiting requests locked.
    fn is_attended_by(&self, _: usize) -> bool {
        true
    }

    /// Whether it has something to transmit that a peer's ring had no room for.
    fn waits_for_room(&self) -> bool {
        false
    }

    /// Acts on the deadline, if it has passed. Called late or without need, it does no harm.
    fn on_time(&self, now: Time);

    /// There is a link with that process now, which was asked for by [`super::Node::connect`]:
    /// perhaps for an earlier queue pair of this number.
    fn linked(&self, _now: Time, _: &Arc<Peer>) {}

    /// The peer has used the connection without a packet.
    fn used(&self, _now: Time) {}

    /// Nothing waits for something else to be transmitted with, for nothing may come. Returns
    /// whether anything did, and is to be transmitted.
    fn hurry(&self) -> bool {
        false
    }

    /// Whether acknowledgements are outstanding and may still come.
    fn expects_answers(&self) -> bool {
        false
    }

    /// When [`Endpoint::on_time`] is to be called. Asked for after every call above.
    fn deadline(&self) -> Option<Time>;

    /// It has reported itself by [`super::Node::failed`]. Called where
    /// [`super::Node::take_in_rings`] may be called.
    fn failed(&self) {}

    /// Receives messages of the eager path. Messages that it does not answer are refused.
    fn messages(&self, _: &mut Messages<'_>, _: Caller) {}

    /// The outcome of messages that it sent to a process on the eager path. Returns whether it has
    /// something to transmit now.
    fn on_outcome(&self, _: &Peer, _: Outcome, _: Caller) -> bool {
        false
    }

    /// There is room for messages that wait for it, if they do. Returns whether there are packets
    /// to be sent now.
    fn on_room(&self, _: &Peer, _: Caller) -> bool {
        false
    }

    /// Its counters; `None` for an endpoint that is not a queue pair.
    fn account(&self) -> Option<Account> {
        None
    }
}

/// The counters of a queue pair.
pub struct Account {
    /// `RC`, `UD` and so on.
    pub kind: &'static str,
    /// `RTS` and so on.
    pub state: &'static str,
    /// The device.
    pub device: String,
    /// The peer of a connection.
    pub peer: Option<Remote>,
    /// The values.
    pub counters: Counters,
}

/// The other end of a connection.
pub struct Remote {
    /// The address of its host.
    pub address: IpAddr,
    /// The number of its queue pair.
    pub number: u32,
    /// Whether messages go by shared memory.
    pub is_linked: bool,
}

/// A packet that came in.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// The packet.
    pub packet: Packet<'a>,
    /// Where it came from.
    pub source: IpAddr,
    /// The address of this host, or the group, that it was sent to.
    pub destination: IpAddr,
    /// Index of the interface it came in by.
    pub interface: u32,
    /// Time to live or hop limit.
    pub hop_limit: u8,
    /// Type of service or traffic class.
    pub traffic_class: u8,
    /// Whether it came by a multicast group.
    pub multicast: bool,
    /// Whether it came by a link, and not by UDP.
    pub by_link: bool,
    /// Bytes of the UDP payload.
    length: usize,
}

const UDP: u8 = 17;
const UDP_HEADER: usize = 8;
const IPV4_HEADER: usize = 20;

impl<'a> Incoming<'a> {
    pub(super) fn new(packet: Packet<'a>, length: usize, run: &Received<'_>) -> Self {
        Self {
            packet,
            source: run.source,
            destination: run.destination,
            interface: run.interface,
            hop_limit: run.hop_limit,
            traffic_class: run.traffic_class,
            multicast: run.destination.is_multicast(),
            by_link: false,
            length,
        }
    }

    /// The same, which came by a link.
    pub(super) fn by_link(self) -> Self {
        Self {
            by_link: true,
            ..self
        }
    }

    /// Whether a router on the way met congestion (ECN's CE, RFC 3168).
    #[must_use]
    pub fn ce(&self) -> bool {
        self.traffic_class & 3 == 3
    }

    /// The bytes before a datagram's payload in the receive buffer: the IPv6 header, or 20 bytes of
    /// zeros and the IPv4 header (IBTA volume 1, annex A17). The flow label and the identification
    /// are unknown here and 0; the checksum is that of the header as it is.
    #[must_use]
    pub fn grh(&self) -> [u8; 40] {
        let mut grh = [0; 40];
        let udp = u16::try_from(self.length + UDP_HEADER).unwrap_or(u16::MAX);
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let total = u16::try_from(IPV4_HEADER + UDP_HEADER + self.length);
                let [high, low] = total.unwrap_or(u16::MAX).to_be_bytes();
                let mut header = [0; IPV4_HEADER];
                header[..4].copy_from_slice(&[0x45, self.traffic_class, high, low]);
                header[4..10].copy_from_slice(&[0, 0, 0x40, 0, self.hop_limit, UDP]);
                header[12..16].copy_from_slice(&source.octets());
                header[16..].copy_from_slice(&destination.octets());
                let sum = checksum(&header).to_be_bytes();
                header[10..12].copy_from_slice(&sum);
                grh[20..].copy_from_slice(&header);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let class = self.traffic_class;
                grh[..2].copy_from_slice(&[0x60 | class >> 4, class << 4]);
                grh[4..6].copy_from_slice(&udp.to_be_bytes());
                grh[6..8].copy_from_slice(&[UDP, self.hop_limit]);
                grh[8..24].copy_from_slice(&source.octets());
                grh[24..].copy_from_slice(&destination.octets());
            }
            _ => {}
        }
        grh
    }
}

/// The Internet checksum (RFC 1071).
fn checksum(header: &[u8; IPV4_HEADER]) -> u16 {
    let words = header.chunks_exact(2);
    let mut sum: u32 = words
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(u16::MAX)
}
