//! The destination of a queue pair's packets: the carrier that leads to their receiver.

use super::shm::{Directory, Peer, Route};
use super::udp::{Outbox, Path};
use super::{address::octets, qpn};
use std::sync::Arc;
use uroce_engine::host::Fault;
use uroce_engine::wire::{Headers, Transport};

/// Bytes in front of a packet in a ring, see `head`.
pub const HEAD: usize = 40;

/// The way that a packet takes.
#[derive(Clone, Copy, Debug)]
pub enum Via<'p> {
    /// The one that leads to the process of the destination's number: a link, where there is one.
    Destination,
    /// UDP.
    Udp,
    /// The link with that process.
    Link(&'p Arc<Peer>),
}

/// SendSockets out.
#[derive(Debug)]
pub struct Sender<'a> {
    outbox: &'a mut Outbox,
    /// Processes that can be reached by shared memory, and whether nothing else leads to this host.
    local: Option<(&'a Directory, bool)>,
    /// Where the latest packet went.
    latest: Option<Arc<Peer>>,
    /// The peer whose ring had no room for a packet, which waits there.
    backpressured: Option<Arc<Peer>>,
}

impl<'a> Sender<'a> {
    /// A sender that fills an outbox, and the rings of a directory's processes.
    pub fn new(outbox: &'a mut Outbox, local: Option<(&'a Directory, bool)>) -> Self {
        Self {
            outbox,
            local,
            latest: None,
            backpressured: None,
        }
    }

    /// Whether no more packets can be taken just now.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.outbox.is_full() || self.backpressured.is_some()
    }

    /// Whether the outbox must be sent before it takes more.
    #[must_use]
    pub fn needs_sending(&self) -> bool {
        self.outbox.is_full()
    }

    /// The peer whose ring had no room.
    pub fn take_backpressured(&mut self) -> Option<Arc<Peer>> {
        self.backpressured.take()
    }

    /// Whether only shared memory leads to processes of this host.
    #[must_use]
    pub fn is_local_only(&self) -> bool {
        self.local.is_some_and(|(_, only)| only)
    }

    /// Sends a packet of `length` bytes of payload, which `fill` writes. Pad (as many bytes as the
    /// BTH states) and the carrier's additions are appended.
    ///
    /// # Errors
    /// [`Fault`] if `fill` fails, if the packet is longer than any, or if the outbox is full; then
    /// nothing is sent.
    pub fn push(
        &mut self,
        (path, via): (&Path, Via<'_>),
        headers: &Headers,
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let Some((directory, only)) = self.local.filter(|_| path.local) else {
            return self.outbox.push(path, headers, length, fill);
        };
        let route = match via {
            Via::Link(peer) => Route::Link(Arc::clone(peer)),
            Via::Destination => self.route(directory, headers.bth.destination),
            Via::Udp => Route::Unreachable,
        };
        match route {
            Route::Link(peer) => {
                let packet = self.build(path, headers, length, fill)?;
                let packet = self.outbox.spare().get(..packet).ok_or(Fault)?;
                if !directory.put(&peer, |peer| peer.packet(packet, may_be_lost(headers))) {
                    self.backpressured = Some(peer);
                }
                Ok(())
            }
            Route::Pending if only => {
                let packet = self.build(path, headers, length, fill)?;
                let packet = self.outbox.spare().get(..packet).ok_or(Fault)?;
                let slot = qpn::slot_of(headers.bth.destination);
                if let Some(peer) = directory.hold(slot, packet) {
                    directory.put(&peer, |peer| peer.packet(packet, may_be_lost(headers)));
                }
                Ok(())
            }
            Route::Unreachable if only => Ok(()),
            Route::Pending | Route::Unreachable => {
                directory.sent_by_udp(qpn::slot_of(headers.bth.destination));
                self.outbox.push(path, headers, length, fill)
            }
        }
    }

    /// How packets get to the process of a slot.
    fn route_to(&mut self, directory: &Directory, slot: u16) -> Route {
        if let Some(peer) = &self.latest
            && peer.slot() == slot
            && !peer.is_gone()
        {
            return Route::Link(Arc::clone(peer));
        }
        let route = directory.route(slot);
        if let Route::Link(peer) = &route {
            self.latest = Some(Arc::clone(peer));
        }
        route
    }

    /// How packets get to the process of a number, or to its successor.
    fn route(&mut self, directory: &Directory, number: u32) -> Route {
        let route = self.route_to(directory, qpn::slot_of(number));
        if !matches!(route, Route::Unreachable) {
            return route;
        }
        let Some(successor) = directory.successors().find(number) else {
            return route;
        };
        let route = self.route_to(directory, successor);
        if matches!(route, Route::Unreachable) {
            directory.successors().forget(number);
        }
        route
    }

    /// Writes a packet into the outbox's spare place, as it lies in a ring; returns its length.
    fn build(
        &mut self,
        path: &Path,
        headers: &Headers,
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), Fault>,
    ) -> Result<usize, Fault> {
        let mut headers = *headers;
        // A ring has no runs of equal packets.
        headers.unfill();
        let emitted = headers.emit();
        let emitted = emitted.as_slice();
        let tail = headers.tail();
        let total = HEAD + emitted.len() + length + tail;
        let packet = self.outbox.spare().get_mut(..total).ok_or(Fault)?;
        let (place, rest) = packet.split_first_chunk_mut::<HEAD>().ok_or(Fault)?;
        *place = head(path);
        let (place, rest) = rest.split_at_mut_checked(emitted.len()).ok_or(Fault)?;
        place.copy_from_slice(emitted);
        let (payload, rest) = rest.split_at_mut_checked(length).ok_or(Fault)?;
        fill(payload)?;
        // Nothing is damaged on the way, so there is no check sum.
        rest.fill(0);
        Ok(total)
    }
}

/// Whether a lost packet is not retransmitted.
fn may_be_lost(headers: &Headers) -> bool {
    matches!(headers.opcode.transport(), Transport::Uc | Transport::Ud)
}

/// The fields of an Internet header: family, traffic class, hop limit, interface, addresses.
fn head(path: &Path) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    let family = if path.source.is_ipv4() { 4 } else { 6 };
    let (front, addresses) = head.split_at_mut(8);
    let [i0, i1, i2, i3] = path.interface.to_ne_bytes();
    front.copy_from_slice(&[
        family,
        path.traffic_class,
        path.hop_limit,
        0,
        i0,
        i1,
        i2,
        i3,
    ]);
    let (source, destination) = addresses.split_at_mut(16);
    source.copy_from_slice(&octets(path.source));
    destination.copy_from_slice(&octets(path.destination));
    head
}
