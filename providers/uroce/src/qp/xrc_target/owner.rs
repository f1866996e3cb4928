//! The owner's side of the migration of an XRC target.
//!
//! [`Delegation`] owns which process has the target at the moment, and the packets that wait until
//! the target is back.
//!
//! *Invariants.* Parked packets are in the order of their PSNs, and no packet overtakes one that is
//! parked. There are 512 at most; others are lost, and sent again by the peer.

use crate::carrier::HEAD;
use crate::carrier::address::octets;
use crate::node::Incoming;
use crate::xrc::Link;
use std::collections::VecDeque;
use std::sync::Arc;
use uroce_engine::psn::Psn;

/// Packets that wait at most.
const MOST_PARKED: usize = 512;

/// Which process has the target.
#[derive(Default)]
pub(super) struct Delegation {
    /// The delegate, if the target is not here.
    delegate: Option<Arc<Link>>,
    /// It was asked to return the target.
    revoked: bool,
    /// Packets that wait for the target.
    parked: VecDeque<(Psn, Vec<u8>)>,
    /// How often the target was delegated.
    count: u32,
}

impl Delegation {
    /// The delegate, if the target is not here.
    pub fn delegate(&self) -> Option<&Arc<Link>> {
        self.delegate.as_ref()
    }

    /// The number of the latest delegation.
    pub fn number(&self) -> u32 {
        self.count
    }

    /// Continues the count of the former owner.
    pub fn set_number(&mut self, number: u32) {
        self.count = number;
    }

    /// The target is delegated. Returns the number of the delegation.
    pub fn begin(&mut self, delegate: Arc<Link>) -> u32 {
        self.count = self.count.wrapping_add(1);
        self.resume(delegate);
        self.count
    }

    /// The target was delegated already when this process took it over.
    pub fn resume(&mut self, delegate: Arc<Link>) {
        self.delegate = Some(delegate);
        self.revoked = false;
    }

    /// The target is here again. Returns its former delegate.
    pub fn end(&mut self) -> Option<Arc<Link>> {
        self.revoked = false;
        self.delegate.take()
    }

    /// Whether the target is delegated to that process.
    pub fn is_with(&self, link: &Arc<Link>) -> bool {
        let delegate = self.delegate.as_ref();
        delegate.is_some_and(|delegate| Arc::ptr_eq(delegate, link))
    }

    /// Marks the delegation as revoked. Returns whether it was not yet.
    pub fn revoke(&mut self) -> bool {
        !std::mem::replace(&mut self.revoked, true)
    }

    /// Whether a packet has to wait behind others.
    pub fn comes_after_parked(&self, psn: Psn) -> bool {
        let first = self.parked.front();
        first.is_some_and(|(first, _)| !psn.before(*first))
    }

    /// Keeps a packet. If its PSN is before those of others, the peer has gone back and repeats the
    /// later packets.
    pub fn park(&mut self, psn: Psn, packet: Vec<u8>) {
        self.parked.retain(|(earlier, _)| earlier.before(psn));
        if self.parked.len() < MOST_PARKED {
            self.parked.push_back((psn, packet));
        }
    }

    /// Whether packets wait.
    pub fn has_parked(&self) -> bool {
        !self.parked.is_empty()
    }

    /// Takes out the packets that wait.
    pub fn take_parked(&mut self) -> impl Iterator<Item = Vec<u8>> + use<> {
        let parked = std::mem::take(&mut self.parked);
        parked.into_iter().map(|(_, packet)| packet)
    }

    /// Drops the packets that wait.
    pub fn drop_parked(&mut self) {
        self.parked.clear();
    }
}

/// A packet as it lies in a ring.
pub(super) fn bytes(incoming: &Incoming<'_>) -> Vec<u8> {
    let packet = &incoming.packet;
    let headers = packet.headers.emit();
    let tail = packet.headers.tail();
    let family = if incoming.source.is_ipv4() { 4 } else { 6 };
    let mut to = Vec::with_capacity(HEAD + headers.as_slice().len() + packet.payload.len() + tail);
    to.extend_from_slice(&[family, incoming.traffic_class, incoming.hop_limit, 0]);
    to.extend_from_slice(&incoming.interface.to_ne_bytes());
    to.extend_from_slice(&octets(incoming.source));
    to.extend_from_slice(&octets(incoming.destination));
    to.extend_from_slice(headers.as_slice());
    to.extend_from_slice(packet.payload);
    to.resize(to.len() + tail, 0);
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parked(delegation: &mut Delegation) -> Vec<u8> {
        delegation.take_parked().map(|packet| packet[0]).collect()
    }

    #[test]
    fn packets_wait_in_order() {
        let mut delegation = Delegation::default();
        assert!(!delegation.comes_after_parked(Psn::new(5)));
        for psn in [0xff_fffe, 0xff_ffff, 0] {
            delegation.park(Psn::new(psn), vec![psn.to_ne_bytes()[0]]);
        }
        assert!(delegation.comes_after_parked(Psn::new(1)));
        assert!(delegation.comes_after_parked(Psn::new(0xff_fffe)));
        assert!(!delegation.comes_after_parked(Psn::new(0xff_fffd)));
        assert_eq!(parked(&mut delegation), [0xfe, 0xff, 0]);
        assert!(!delegation.has_parked());
    }

    #[test]
    fn a_repeated_packet_replaces_the_packets_after_it() {
        let mut delegation = Delegation::default();
        for psn in [1, 2, 3, 2] {
            delegation.park(Psn::new(psn), vec![psn.to_ne_bytes()[0]]);
        }
        assert_eq!(parked(&mut delegation), [1, 2]);
    }

    #[test]
    fn packets_beyond_the_limit_are_lost() {
        let mut delegation = Delegation::default();
        for psn in 0..600 {
            delegation.park(Psn::new(psn), vec![0]);
        }
        assert_eq!(parked(&mut delegation).len(), MOST_PARKED);
        delegation.park(Psn::new(1), vec![0]);
        delegation.drop_parked();
        assert!(!delegation.has_parked());
    }

    #[test]
    fn a_delegation_is_revoked_once() {
        let mut delegation = Delegation::default();
        assert!(delegation.revoke());
        assert!(!delegation.revoke());
        assert!(delegation.end().is_none());
        assert!(delegation.revoke());
    }
}
