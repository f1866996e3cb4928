//! What a queue pair hands its packets to: the way that leads to their destination.

use super::shm::{Directory, Peer};
use super::udp::outbox::{Outbox, Path, octets};
use super::udp::slot;
use std::sync::Arc;
use uroce_engine::host::Fault;
use uroce_engine::wire::{Headers, ICRC_LEN};

/// Bytes in front of a packet in a ring, see `head`.
pub const HEAD: usize = 40;

/// Ways out.
#[derive(Debug)]
pub struct Sender<'a> {
    outbox: &'a mut Outbox,
    /// Processes that can be reached by shared memory, and whether nothing else leads to this host.
    local: Option<(&'a Directory, bool)>,
    /// Where the latest packet went.
    latest: Option<Arc<Peer>>,
    /// Whose ring had no room for a packet, which waits there.
    clogged: Option<Arc<Peer>>,
}

impl<'a> Sender<'a> {
    /// A sender that fills an outbox, and the rings of a directory's processes.
    pub fn new(outbox: &'a mut Outbox, local: Option<(&'a Directory, bool)>) -> Self {
        Self {
            outbox,
            local,
            latest: None,
            clogged: None,
        }
    }

    /// Whether no more packets can be taken just now.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.outbox.is_full() || self.clogged.is_some()
    }

    /// Whether the outbox must be sent before it takes more.
    #[must_use]
    pub fn needs_sending(&self) -> bool {
        self.outbox.is_full()
    }

    /// Whose ring had no room.
    pub fn take_clogged(&mut self) -> Option<Arc<Peer>> {
        self.clogged.take()
    }

    /// Takes a packet of `length` bytes of payload, which `fill` writes. Pad (as many bytes as the BTH
    /// says) and what the carrier needs are added.
    ///
    /// # Errors
    /// [`Fault`] if `fill` fails, if the packet is longer than any, or if the outbox is full; then
    /// nothing is sent.
    pub fn push(
        &mut self,
        path: &Path,
        headers: &Headers,
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let Some((directory, only)) = self.local.filter(|_| path.local) else {
            return self.outbox.push(path, headers, length, fill);
        };
        match self.whose(directory, headers.bth.destination) {
            Some(peer) => self.put(directory, &peer, path, headers, length, fill),
            None if only => Ok(()),
            None => self.outbox.push(path, headers, length, fill),
        }
    }

    fn peer(&mut self, directory: &Directory, slot: u16) -> Option<Arc<Peer>> {
        if let Some(peer) = &self.latest
            && peer.slot() == slot
            && !peer.is_gone()
        {
            return Some(Arc::clone(peer));
        }
        self.latest = directory.meet(slot);
        self.latest.clone()
    }

    /// The process that a packet goes to: that of the number, or its heir.
    fn whose(&mut self, directory: &Directory, number: u32) -> Option<Arc<Peer>> {
        if let Some(peer) = self.peer(directory, slot::of(number)) {
            return Some(peer);
        }
        let heir = directory.heirs().find(number)?;
        let peer = self.peer(directory, heir);
        if peer.is_none() {
            directory.heirs().forget(number);
        }
        peer
    }

    fn put(
        &mut self,
        directory: &Directory,
        peer: &Arc<Peer>,
        path: &Path,
        headers: &Headers,
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let emitted = headers.emit();
        let emitted = emitted.as_slice();
        let tail = usize::from(headers.bth.pad) + ICRC_LEN;
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
        if !directory.put(peer, |peer| peer.packet(packet)) {
            self.clogged = Some(Arc::clone(peer));
        }
        Ok(())
    }
}

/// What an Internet header would say: family, traffic class, hop limit, interface, addresses.
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
