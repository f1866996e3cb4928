//! The check sums of IPv4, TCP and UDP (RFC 1071), which cards make and verify.

use super::headers::{self, IPV4, IPV6, Network, TCP, UDP};
use std::ops::Range;

/// What of a frame has a sum.
struct Covered {
    /// The header of IPv4.
    header: Option<Range<usize>>,
    segment: Option<Segment>,
}

/// TCP or UDP, whole.
struct Segment {
    bytes: Range<usize>,
    protocol: u8,
    /// Where the sum stands in the frame.
    place: usize,
    /// The sum of the addresses, the protocol and the length.
    pseudo: u64,
}

/// Where the sum of an IPv4 header stands in it.
const OF_HEADER: usize = 10;

/// Makes all sums of a frame, as `IBV_SEND_IP_CSUM` asks for.
pub fn make(frame: &mut [u8]) {
    let Some(parts) = Covered::find(frame) else {
        return;
    };
    if let Some(header) = parts.header {
        let place = header.start + OF_HEADER;
        put(frame, place, 0);
        let sum = !fold(sum(frame.get(header).unwrap_or_default()));
        put(frame, place, sum);
    }
    if let Some(segment) = parts.segment {
        segment.make(frame);
    }
}

/// Makes the sum of TCP or UDP in a frame of the kernel's (`TP_STATUS_CSUMNOTREADY`). One of UDP
/// that is 0 stays, because there is to be none: the kernel has begun the others.
pub fn finish(frame: &mut [u8]) {
    let segment = Covered::find(frame).and_then(|parts| parts.segment);
    if let Some(segment) = segment.filter(|segment| !segment.has_none(frame)) {
        segment.make(frame);
    }
}

/// Whether a frame of TCP or UDP over IPv4 has the right sums (`IBV_WC_IP_CSUM_OK`).
#[must_use]
pub fn is_right(frame: &[u8]) -> bool {
    let Some(parts) = Covered::find(frame) else {
        return false;
    };
    let (Some(header), Some(segment)) = (parts.header, parts.segment) else {
        return false;
    };
    let whole = fold(sum(frame.get(header).unwrap_or_default()));
    whole == u16::MAX && (segment.has_none(frame) || segment.sum(frame) == u16::MAX)
}

impl Covered {
    fn find(frame: &[u8]) -> Option<Self> {
        let (kind, _, start) = headers::packet(frame)?;
        let packet = frame.get(start..)?;
        let layers = match kind {
            IPV4 => headers::v4(packet),
            IPV6 => headers::v6(packet),
            _ => return None,
        };
        let (network, segment) = layers;
        let network = network?;
        let (header, end, addresses) = match &network {
            Network::V4(header) => {
                let length = usize::from(header.first()? & 15) * 4;
                let end = start + usize::from(headers::number(*header, 2)?);
                (
                    Some(start..start + length),
                    end,
                    header.get(12..).unwrap_or_default(),
                )
            }
            Network::V6(header, _) => {
                let end = start + header.len() + usize::from(headers::number(*header, 4)?);
                (None, end, header.get(8..).unwrap_or_default())
            }
        };
        let header = header.filter(|header| header.end <= frame.len());
        let segment = segment.filter(|_| !is_fragment(&network));
        let segment = segment.and_then(|(protocol, rest)| {
            let begin = frame.len().checked_sub(rest.len())?;
            Segment::new(frame, begin..end, protocol, sum(addresses))
        });
        Some(Self { header, segment })
    }
}

/// A part of a packet of IPv4; the sum of its segment is of all parts.
fn is_fragment(network: &Network<'_>) -> bool {
    match network {
        Network::V4(header) => headers::number(*header, 6).is_none_or(|part| part & 0x3fff != 0),
        // The length of UDP distinguishes them.
        Network::V6(..) => false,
    }
}

impl Segment {
    fn new(frame: &[u8], bytes: Range<usize>, protocol: u8, addresses: u64) -> Option<Self> {
        let length = frame.get(bytes.clone())?.len();
        let place = match protocol {
            TCP if length >= 20 => bytes.start + 16,
            UDP if length >= 8 => bytes.start + 6,
            _ => return None,
        };
        if protocol == UDP && usize::from(headers::number(frame, bytes.start + 4)?) != length {
            return None;
        }
        let length = u64::try_from(length).ok()?;
        Some(Self {
            bytes,
            protocol,
            place,
            pseudo: addresses + u64::from(protocol) + length,
        })
    }

    /// Its sender made no sum (RFC 768).
    fn has_none(&self, frame: &[u8]) -> bool {
        self.protocol == UDP && headers::number(frame, self.place) == Some(0)
    }

    fn sum(&self, frame: &[u8]) -> u16 {
        let bytes = frame.get(self.bytes.clone()).unwrap_or_default();
        fold(self.pseudo + sum(bytes))
    }

    fn make(&self, frame: &mut [u8]) {
        put(frame, self.place, 0);
        // Of UDP, 0 would mean that there is none.
        let sum = match !self.sum(frame) {
            0 if self.protocol == UDP => u16::MAX,
            sum => sum,
        };
        put(frame, self.place, sum);
    }
}

fn put(frame: &mut [u8], at: usize, value: u16) {
    if let Some(room) = frame.get_mut(at..at + 2) {
        room.copy_from_slice(&value.to_be_bytes());
    }
}

/// The sum of the numbers of 16 bits; a byte alone at the end is a high one.
fn sum(bytes: &[u8]) -> u64 {
    let (pairs, last) = bytes.as_chunks::<2>();
    let last = last.first().map_or(0, |byte| u64::from(*byte) << 8);
    let pairs = pairs
        .iter()
        .map(|pair| u64::from(u16::from_be_bytes(*pair)));
    pairs.sum::<u64>() + last
}

/// In ones' complement.
fn fold(mut sum: u64) -> u16 {
    loop {
        match u16::try_from(sum) {
            Ok(sum) => return sum,
            Err(_) => sum = (sum & 0xffff) + (sum >> 16),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::headers::tests::{tcp6, udp4};
    use super::*;
    use proptest::prelude::*;

    /// A datagram from 192.168.0.1 to 192.168.0.199, with the sums of its sender.
    const DATAGRAM: [u8; 46] = [
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, // Ethernet
        0x45, 0, 0, 32, 0, 0, 0x40, 0, 0x40, 17, 0xb8, 0xb4, // IPv4, its sum
        192, 168, 0, 1, 192, 168, 0, 199, // the addresses
        4, 210, 22, 46, 0, 12, 0x7a, 0xe3, b't', b'e', b's', b't', // UDP, its sum
    ];

    #[test]
    fn known_sums() {
        // The example of RFC 1071, section 3.
        assert_eq!(fold(sum(&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7])), 0xddf2);
        let mut frame = DATAGRAM;
        make(&mut frame);
        assert_eq!(frame, DATAGRAM);
        assert!(is_right(&frame));
    }

    #[test]
    fn a_datagram_without_a_sum_keeps_none() {
        let mut frame = DATAGRAM;
        put(&mut frame, 40, 0);
        let without = frame;
        assert!(is_right(&frame));
        finish(&mut frame);
        assert_eq!(frame, without);
        make(&mut frame);
        assert_eq!(frame, DATAGRAM);
    }

    #[test]
    fn parts_of_a_packet_have_no_sum_of_a_segment() {
        let mut frame = DATAGRAM;
        // More fragments.
        frame[20] = 0x20;
        put(&mut frame, 40, 7);
        assert!(!is_right(&frame));
        make(&mut frame);
        assert_eq!(headers::number(&frame, 40), Some(7));
        assert_eq!(fold(sum(&frame[14..34])), 0xffff);
    }

    #[test]
    fn bytes_behind_the_packet_are_not_counted() {
        let mut frame = DATAGRAM.to_vec();
        frame.extend([0xff; 14]);
        assert!(is_right(&frame));
        put(&mut frame, 40, 1);
        finish(&mut frame);
        assert_eq!(frame[..46], DATAGRAM);
    }

    #[test]
    fn over_ipv6_behind_an_extension() {
        let mut frame = tcp6();
        finish(&mut frame);
        let parts = Covered::find(&frame).expect("a packet");
        assert!(parts.header.is_none());
        let segment = parts.segment.expect("a segment");
        assert_eq!(segment.sum(&frame), 0xffff);
        assert_eq!(segment.place, 14 + 40 + 8 + 16);
        assert!(!is_right(&frame), "it says so of IPv4 alone");
    }

    proptest! {
        #[test]
        fn sums_that_were_made_are_right(
            tag: Option<u16>, source: [u8; 4], port: u16, at in 0usize..42, bit in 0u8..8
        ) {
            let mut frame = udp4(tag, source, port);
            make(&mut frame);
            prop_assert!(is_right(&frame));
            let start = frame.len() - 36;
            frame[start + at % 36] ^= 1 << bit;
            prop_assume!(frame[frame.len() - 10..frame.len() - 8] != [0, 0]);
            prop_assert!(!is_right(&frame));
        }

        #[test]
        fn any_bytes_can_be_taken(mut bytes: Vec<u8>, cut in 0usize..90) {
            let mut whole = tcp6();
            whole.truncate(cut);
            for frame in [&mut bytes, &mut whole] {
                make(frame);
                finish(frame);
                let _ = is_right(frame);
            }
        }
    }
}
