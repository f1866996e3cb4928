//! How a message is cut into packets.
//!
//! The usual way is the specification's: each packet but the last has as much payload as the path
//! MTU allows. A run of packets that leaves by one system call consists of equal ones, so it ends
//! at each last packet, and after the first one of a write, which is longer than the next ones by
//! its RETH.
//!
//! A peer of this make takes parts of any length. For it, a message has the same number of packets,
//! all of one length. Then one run contains several messages, and a system call sends more bytes.
//! What does not divide evenly is filled ([`crate::wire::Filler`]).
//!
//! A message that differs from the one before is cut like that, if little is filled ([`LIKE`]):
//! UCX's segments of a message have one length but for the last one.
//!
//! A write of whole MTUs has no room for the RETH. Its other packets are filled up to the length of
//! the first one, or of the last one of a message with an immediate. ib_write_bw of 8 KiB moves
//! three times as much by that, where the path MTU is 1024.

use crate::wire::{imm_dt, reth};
use crate::work::Request;

/// A message is filled to be like the one before by 1 of so many bytes at most.
const LIKE: u32 = 16;
/// Packets of such a message at most.
const FEW: u32 = 256;
/// Packets of whole MTUs are filled by 1 of so many bytes at most.
const FILLED: u32 = 32;
/// The unit of lengths: packets end on so many bytes, and a filler has at least as many.
const UNIT: u32 = 4;

/// Bytes of each packet between BTH and ICRC; 0 for the usual cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cut(u16);

/// Bytes of extension headers that only the first packet has, and only the last one.
fn extensions(request: &Request) -> (u32, u32) {
    let bytes = |length: usize| u32::try_from(length).unwrap_or(0);
    match request {
        Request::Send => (0, 0),
        Request::SendImm(_) | Request::SendInvalidate(_) => (0, bytes(imm_dt::LEN)),
        Request::Write(_) => (bytes(reth::LEN), 0),
        Request::WriteImm(..) => (bytes(reth::LEN), bytes(imm_dt::LEN)),
        _ => (0, 0),
    }
}

impl Cut {
    /// Into equal packets, if that is worth it: `length` bytes in so many.
    pub fn equal(request: &Request, length: u32, packets: u32, mtu: u32) -> Self {
        if request.has_response() || request.is_local() || packets < 2 {
            return Self::default();
        }
        let cut = Self::even(request, length, packets, mtu);
        let fits = |cut: &Self| {
            let (skip, _) = cut.part(request, packets - 1, length, mtu);
            skip < length
        };
        cut.filter(fits).unwrap_or_default()
    }

    /// As the message before, if that takes one packet more at most and fills 1 of [`LIKE`] bytes
    /// at most: then one run contains both. Returns the number of packets.
    pub fn like(
        self,
        before: Self,
        request: &Request,
        length: u32,
        mtu: u32,
    ) -> Option<(Self, u32)> {
        let (own, body) = (u32::from(self.0), u32::from(before.0));
        if own == 0 || body == 0 || body > mtu || own == body {
            return None;
        }
        let (first, last) = extensions(request);
        let all = length.checked_add(first)?.checked_add(last)?;
        let packets = all.div_ceil(body);
        let filling = packets.checked_mul(body)?.checked_sub(all)?;
        let (skip, _) = before.part(request, packets - 1, length, mtu);
        let worth = packets <= FEW
            && packets <= all.div_ceil(own) + 1
            && filling <= all / LIKE
            && skip < length;
        worth.then_some((before, packets))
    }

    /// Equal packets that are no longer than the longest of the usual cut.
    fn even(request: &Request, length: u32, packets: u32, mtu: u32) -> Option<Self> {
        let (first, last) = extensions(request);
        let all = length.checked_add(first)?.checked_add(last)?;
        let body = all.div_ceil(packets).checked_next_multiple_of(UNIT)?;
        let usual = body == mtu && length == packets.checked_mul(mtu)?;
        // Each packet has at most the MTU of payload, with or without extension headers.
        let more = if body > mtu { first.max(last) } else { 0 };
        let body = body.min(mtu) + more;
        let fits = body > first && more <= mtu / FILLED && !usual;
        fits.then(|| u16::try_from(body).ok().map(Self)).flatten()
    }

    /// Where the payload of a packet begins in the message, and its length.
    pub fn part(self, request: &Request, packet: u32, length: u32, mtu: u32) -> (u32, u32) {
        let (skip, most) = if self == Self::default() {
            (packet.saturating_mul(mtu), mtu)
        } else {
            let body = u32::from(self.0);
            let (first, _) = extensions(request);
            let (first, other) = (body.saturating_sub(first).min(mtu), body.min(mtu));
            match packet.checked_sub(1) {
                None => (0, first),
                Some(others) => (others.saturating_mul(other).saturating_add(first), other),
            }
        };
        (skip, length.saturating_sub(skip).min(most))
    }

    /// How many bytes a packet lacks that has so many behind its BTH.
    pub fn lacks(self, bytes: u32) -> u32 {
        u32::from(self.0).saturating_sub(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qp::Mtu;
    use crate::work::Remote;
    use proptest::prelude::*;

    const REMOTE: Remote = Remote {
        address: 0,
        rkey: 0,
    };

    /// Bytes between BTH and ICRC of each packet without filling, and with it.
    fn packets(request: &Request, length: u32, mtu: u32) -> Vec<(u32, u32)> {
        let count = length.div_ceil(mtu);
        let cut = Cut::equal(request, length, count, mtu);
        let (first, last) = extensions(request);
        let mut at = 0;
        let mut all = Vec::new();
        for packet in 0..count {
            let (skip, part) = cut.part(request, packet, length, mtu);
            assert_eq!(skip, at, "packet {packet} of {length}");
            assert!((1..=mtu).contains(&part));
            at += part;
            let ends = packet + 1 == count;
            assert!(ends || part.is_multiple_of(4));
            let header = if packet == 0 { first } else { 0 } + if ends { last } else { 0 };
            let bytes = header + part.next_multiple_of(4);
            let lacks = cut.lacks(bytes);
            assert!(lacks.is_multiple_of(4));
            all.push((bytes, bytes + lacks));
        }
        assert_eq!(at, length, "all of it");
        all
    }

    fn requests() -> impl Strategy<Value = Request> {
        proptest::sample::select(vec![
            Request::Send,
            Request::SendImm(crate::wire::ImmDt { data: 1 }),
            Request::Write(REMOTE),
            Request::WriteImm(REMOTE, crate::wire::ImmDt { data: 1 }),
        ])
    }

    proptest! {
        #[test]
        fn every_byte_is_in_one_packet_and_few_are_added(
            request in requests(),
            length in 1u32..2_000_000,
            mtu in proptest::sample::select(vec![256u32, 512, 1024, 2048, 4096]),
        ) {
            let all = packets(&request, length, mtu);
            let longest = all.iter().map(|(bytes, _)| *bytes).max();
            let filled = all.iter().all(|(_, filled)| Some(*filled) <= longest.max(Some(mtu)));
            prop_assert!(filled, "no packet is longer than one of the usual cut");
            let bare: u32 = all.iter().map(|(bytes, _)| bytes).sum();
            let filled: u32 = all.iter().map(|(_, filled)| filled).sum();
            prop_assert!(filled <= bare + bare / 30 + mtu, "{filled} for {bare}");
        }
    }

    #[test]
    fn messages_of_a_few_packets_are_equal() {
        let write = Request::Write(REMOTE);
        for (request, length) in [
            (Request::Send, 8256),
            (Request::Send, 1025),
            (write.clone(), 8256),
            (write.clone(), 65000),
            // There is no room for the RETH, or for the immediate.
            (write, 65536),
            (Request::SendImm(crate::wire::ImmDt { data: 1 }), 8192),
        ] {
            let all = packets(&request, length, 1024);
            let first = all[0].1;
            assert!(all.iter().all(|(_, filled)| *filled == first), "{all:?}");
        }
        // There is nothing to be made equal.
        assert_eq!(Cut::equal(&Request::Send, 65536, 64, 1024), Cut::default());
    }

    #[test]
    fn a_message_is_like_the_one_before_if_little_is_filled() {
        let cut = |length| Cut::equal(&Request::Send, length, Mtu::B1024.packets(length), 1024);
        let like = |length, before| cut(length).like(cut(before), &Request::Send, length, 1024);
        // The parts of a message of 64 KiB as UCX cuts it.
        assert_eq!(cut(8256), Cut(920));
        assert_eq!(like(7900, 8256), Some((Cut(920), 9)));
        assert_eq!(like(8256, 7900), None);
        assert_eq!(like(8256, 8256), None);
        assert_eq!(like(4000, 8256), None);
        assert_eq!(like(8256, 4), None);
        let (like, packets) = like(7900, 8256).expect("one of them");
        let parts = (0..packets).map(|packet| like.part(&Request::Send, packet, 7900, 1024));
        assert_eq!(parts.map(|(_, length)| length).sum::<u32>(), 7900);
    }

    #[test]
    fn single_packets_stay_as_they_are() {
        assert_eq!(Cut::equal(&Request::Send, 5, 1, 1024), Cut::default());
        let write = Request::Write(REMOTE);
        assert_eq!(Cut::equal(&write, 1024, 1, 1024), Cut::default());
        assert_eq!(Cut::default().lacks(0), 0);
    }
}
