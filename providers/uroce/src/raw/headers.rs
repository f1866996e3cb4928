//! The parts of a frame that rules and hashes use, in the layout of the API's filters.

use std::ops::Range;

const ADDRESSES: usize = 12;
const CVLAN: u16 = 0x8100;
const SVLAN: u16 = 0x88a8;
/// `EtherType` of IPv4.
pub const IPV4: u16 = 0x0800;
/// `EtherType` of IPv6.
pub const IPV6: u16 = 0x86dd;
/// IP protocol number of TCP.
pub const TCP: u8 = 6;
/// IP protocol number of UDP.
pub const UDP: u8 = 17;
const FRAGMENT: u8 = 44;

/// The shortest frame that can be sent: the Ethernet header.
pub const SHORTEST: usize = 14;

/// The headers of a frame. Missing or truncated headers are `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers<'a> {
    /// `ibv_flow_eth_filter`: destination, source, the type behind the last tag, the last tag. Of a
    /// frame without a tag, zeros stand there.
    pub ethernet: [u8; 16],
    /// Whether there is a VLAN tag.
    pub tagged: bool,
    /// The network layer.
    pub network: Option<Network<'a>>,
    /// Protocol, and source and destination port, of TCP and UDP.
    pub transport: Option<Transport>,
}

/// An Internet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network<'a> {
    /// The 20 bytes that all have.
    V4(&'a [u8; 20]),
    /// The header, and the protocol behind its extensions.
    V6(&'a [u8; 40], u8),
}

/// The ports of TCP or UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// [`TCP`] or [`UDP`].
    pub protocol: u8,
    /// Source port.
    pub source: [u8; 2],
    /// Destination port.
    pub destination: [u8; 2],
}

/// A number of two bytes.
pub fn number(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*bytes))
}

impl<'a> Headers<'a> {
    /// Reads a frame; `None` if not even the Ethernet header is whole.
    #[must_use]
    pub fn read(frame: &'a [u8]) -> Option<Self> {
        let mut ethernet = [0; 16];
        copy(&mut ethernet, 0..ADDRESSES, frame)?;
        let (kind, tag, start) = packet(frame)?;
        put(&mut ethernet, 12, kind);
        put(&mut ethernet, 14, tag.unwrap_or(0));
        let packet = frame.get(start..).unwrap_or_default();
        let (network, segment) = match kind {
            IPV4 => v4(packet),
            IPV6 => v6(packet),
            _ => (None, None),
        };
        Some(Self {
            ethernet,
            tagged: tag.is_some(),
            network,
            transport: segment.and_then(|(protocol, segment)| transport(protocol, segment)),
        })
    }

    /// Whether the frame is for a group.
    #[must_use]
    pub fn is_group(&self) -> bool {
        self.ethernet.first().is_some_and(|first| first & 1 != 0)
    }
}

impl Network<'_> {
    /// `ibv_flow_ipv4_ext_filter`, which begins as `ibv_flow_ipv4_filter` does: source,
    /// destination, protocol, type of service, time to live, the three flags.
    #[must_use]
    pub fn ipv4(&self) -> Option<[u8; 12]> {
        let Self::V4(header) = self else { return None };
        let mut filter = [0; 12];
        copy(&mut filter, 0..8, header.get(12..)?)?;
        copy(&mut filter, 8..9, header.get(9..)?)?;
        copy(&mut filter, 9..10, header.get(1..)?)?;
        copy(&mut filter, 10..11, header.get(8..)?)?;
        *filter.last_mut()? = header.get(6)? >> 5;
        Some(filter)
    }

    /// `ibv_flow_ipv6_filter`: source, destination, flow label, next header behind extensions,
    /// traffic class, hop limit.
    #[must_use]
    pub fn ipv6(&self) -> Option<[u8; 39]> {
        let Self::V6(header, protocol) = self else {
            return None;
        };
        let mut filter = [0; 39];
        let word = u32::from_be_bytes(*header.first_chunk()?);
        copy(&mut filter, 0..32, header.get(8..)?)?;
        copy(&mut filter, 32..36, &(word & 0x000f_ffff).to_be_bytes())?;
        let class = u8::try_from(word >> 20 & 0xff).ok()?;
        copy(&mut filter, 36..39, &[*protocol, class, *header.get(7)?])?;
        Some(filter)
    }
}

impl Transport {
    /// `ibv_flow_tcp_udp_filter`: destination, source.
    #[must_use]
    pub fn filter(&self) -> [u8; 4] {
        let ([a, b], [c, d]) = (self.destination, self.source);
        [a, b, c, d]
    }
}

fn copy(to: &mut [u8], range: Range<usize>, from: &[u8]) -> Option<()> {
    let length = range.len();
    to.get_mut(range)?.copy_from_slice(from.get(..length)?);
    Some(())
}

fn put(to: &mut [u8; 16], at: usize, value: u16) {
    if let Some(room) = to.get_mut(at..at + 2) {
        room.copy_from_slice(&value.to_be_bytes());
    }
}

/// The type of the packet in a frame, the last tag, and where the packet begins.
pub fn packet(frame: &[u8]) -> Option<(u16, Option<u16>, usize)> {
    let mut at = ADDRESSES;
    let mut kind = number(frame, at)?;
    let mut tag = None;
    while matches!(kind, CVLAN | SVLAN) {
        tag = Some(number(frame, at + 2)?);
        at += 4;
        kind = number(frame, at)?;
    }
    Some((kind, tag, at + 2))
}

/// The network layer, and the protocol of the segment with all that follows in the frame.
type Layers<'a> = (Option<Network<'a>>, Option<(u8, &'a [u8])>);

/// The layers of a packet of IPv4.
pub fn v4(packet: &[u8]) -> Layers<'_> {
    let Some(header) = packet.first_chunk::<20>() else {
        return (None, None);
    };
    let words = usize::from(header[0] & 15);
    if header[0] >> 4 != 4 || words < 5 {
        return (None, None);
    }
    // Of a packet in fragments only the first has the ports.
    let later = u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0;
    let segment = packet.get(words * 4..).filter(|_| !later);
    (
        Some(Network::V4(header)),
        segment.map(|segment| (header[9], segment)),
    )
}

/// The layers of a packet of IPv6.
pub fn v6(packet: &[u8]) -> Layers<'_> {
    let Some((header, mut rest)) = packet.split_first_chunk::<40>() else {
        return (None, None);
    };
    if header[0] >> 4 != 6 {
        return (None, None);
    }
    let mut next = header[6];
    let mut later = false;
    // Hop by hop, routing, destination options: their length is in words of 8 bytes.
    while matches!(next, 0 | 43 | 60 | FRAGMENT) {
        let Some([after, length, high, low]) = rest.first_chunk::<4>() else {
            return (Some(Network::V6(header, next)), None);
        };
        let size = match next {
            FRAGMENT => {
                later |= u16::from_be_bytes([*high, *low]) >> 3 != 0;
                8
            }
            _ => 8 + 8 * usize::from(*length),
        };
        let Some(behind) = rest.get(size..) else {
            return (Some(Network::V6(header, next)), None);
        };
        (next, rest) = (*after, behind);
    }
    let segment = (!later).then_some((next, rest));
    (Some(Network::V6(header, next)), segment)
}

fn transport(protocol: u8, segment: &[u8]) -> Option<Transport> {
    let [a, b, c, d] = *segment.first_chunk::<4>()?;
    matches!(protocol, TCP | UDP).then_some(Transport {
        protocol,
        source: [a, b],
        destination: [c, d],
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A frame to a group, of UDP over IPv4, with or without a tag.
    pub fn udp4(tag: Option<u16>, source: [u8; 4], port: u16) -> Vec<u8> {
        let mut frame = vec![1, 0x50, 0x56, 1, 2, 3, 2, 0, 0, 0, 0, 9];
        if let Some(tag) = tag {
            frame.extend([0x81, 0]);
            frame.extend(tag.to_be_bytes());
        }
        frame.extend([8, 0, 0x45, 0xb8, 0, 36, 0, 0, 0x40, 0, 63, UDP, 0, 0]);
        frame.extend(source);
        frame.extend([2, 2, 2, 2]);
        frame.extend(port.to_be_bytes());
        frame.extend([0x16, 0x2e, 0, 16, 0, 0]);
        frame.extend([b'a'; 8]);
        frame
    }

    /// A frame of TCP over IPv6, with an extension header.
    pub fn tcp6() -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd];
        frame.extend([0x61, 0x23, 0x45, 0x67, 0, 28, 60, 64]);
        frame.extend([0xa0; 16]);
        frame.extend([0xb0; 16]);
        frame.extend([TCP, 0, 1, 4, 0, 0, 0, 0]);
        frame.extend([4, 210, 22, 46]);
        frame.extend([0; 16]);
        frame
    }

    #[test]
    fn every_layer_is_read() {
        let frame = udp4(Some(0xac0c), [1, 1, 1, 1], 1234);
        let headers = Headers::read(&frame).expect("a frame");
        assert!(headers.tagged && headers.is_group());
        assert_eq!(headers.ethernet[12..], [8, 0, 0xac, 0x0c]);
        let filter = headers.network.and_then(|network| network.ipv4());
        assert_eq!(filter, Some([1, 1, 1, 1, 2, 2, 2, 2, UDP, 0xb8, 63, 2]));
        let transport = headers.transport.expect("ports");
        assert_eq!(transport.filter(), [0x16, 0x2e, 4, 210]);

        let frame = tcp6();
        let headers = Headers::read(&frame).expect("a frame");
        assert!(!headers.tagged && !headers.is_group());
        let filter = headers.network.and_then(|network| network.ipv6());
        let filter = filter.expect("IPv6");
        assert_eq!(filter[32..], [0, 3, 0x45, 0x67, TCP, 0x12, 64]);
        let transport = headers.transport.expect("ports");
        assert_eq!((transport.protocol, transport.source), (TCP, [4, 210]));
    }

    #[test]
    fn later_fragments_have_no_ports() {
        let mut frame = udp4(None, [1; 4], 5);
        frame[21] = 1;
        let headers = Headers::read(&frame).expect("a frame");
        assert!(headers.network.is_some() && headers.transport.is_none());
    }

    proptest! {
        #[test]
        fn a_frame_that_is_cut_off_is_read_as_far_as_it_goes(cut in 0usize..80, six: bool) {
            let whole = if six { tcp6() } else { udp4(Some(1), [1; 4], 2) };
            let cut = cut.min(whole.len());
            let part = Headers::read(&whole[..cut]);
            let full = Headers::read(&whole).expect("a frame");
            if let Some(part) = part {
                prop_assert_eq!(part.ethernet, full.ethernet);
                prop_assert!(part.transport.is_none() || part.transport == full.transport);
            }
            prop_assert_eq!(part.is_some(), cut >= if six { 14 } else { 18 });
        }

        #[test]
        fn any_bytes_can_be_read(bytes: Vec<u8>) {
            let _ = Headers::read(&bytes);
        }
    }
}
