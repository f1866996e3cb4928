//! Headers of datagrams.
//!
//! The first datagram to a peer goes through UDP, with a header that contains the sender's queue
//! pair number; so does the answer. Once the peer is known, datagrams go through a queue pair, with
//! the sender's address in front.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Most bytes of a datagram, including the header.
pub const MAX_DATAGRAM: usize = 2048;
/// The Q_Key of all queue pairs.
pub const Q_KEY: u32 = 0x0123_4567;

const TAG: u32 = 0x5555_5555;
const DATA: u8 = 0;
const CONTROL: u8 = 7;
const V4: u8 = 4;
const V6: u8 = 6;

fn version(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => V4,
        IpAddr::V6(_) => V6,
    }
}

/// The contents after an [`Announcement`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DatagramKind {
    /// Data of a program. The receiver has to answer.
    Data,
    /// No data: this is the answer.
    Control,
}

/// The header of a datagram through UDP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Announcement {
    /// The contents after the header.
    pub kind: DatagramKind,
    /// Number of the sender's queue pair.
    pub queue_pair: u32,
    /// The destination: the receiver's address as the sender knows it.
    pub target: IpAddr,
}

impl Announcement {
    /// The header.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (address, length) = match self.target {
            IpAddr::V4(address) => (address.octets().to_vec(), 16),
            IpAddr::V6(address) => (address.octets().to_vec(), 28),
        };
        let kind = match self.kind {
            DatagramKind::Data => DATA,
            DatagramKind::Control => CONTROL,
        };
        let mut bytes = TAG.to_be_bytes().to_vec();
        bytes.extend([version(self.target), kind, length, 0]);
        bytes.extend((self.queue_pair & 0xff_ffff).to_be_bytes());
        bytes.extend(address);
        bytes
    }

    /// Splits a datagram into its header and the rest; none without a valid header.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (head, rest) = bytes.split_first_chunk::<12>()?;
        let [t0, t1, t2, t3, version, kind, length, _, q0, q1, q2, q3] = *head;
        if u32::from_be_bytes([t0, t1, t2, t3]) != TAG {
            return None;
        }
        let kind = match kind {
            DATA => DatagramKind::Data,
            CONTROL => DatagramKind::Control,
            _ => return None,
        };
        let (target, rest) = match (version, length) {
            (V4, 16) => {
                let (address, rest) = rest.split_first_chunk::<4>()?;
                (IpAddr::V4(Ipv4Addr::from(*address)), rest)
            }
            (V6, 28) => {
                let (address, rest) = rest.split_first_chunk::<16>()?;
                (IpAddr::V6(Ipv6Addr::from(*address)), rest)
            }
            _ => return None,
        };
        let announcement = Self {
            kind,
            queue_pair: u32::from_be_bytes([q0, q1, q2, q3]) & 0xff_ffff,
            target,
        };
        Some((announcement, rest))
    }
}

/// The header of a datagram through a queue pair: its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sender(pub SocketAddr);

impl Sender {
    /// Bytes of the header.
    #[must_use]
    pub fn length(&self) -> usize {
        match self.0 {
            SocketAddr::V4(_) => 8,
            SocketAddr::V6(_) => 24,
        }
    }

    /// The header.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = match self.0 {
            SocketAddr::V4(_) => vec![V4, 8],
            SocketAddr::V6(_) => vec![V6, 24],
        };
        bytes.extend(self.0.port().to_be_bytes());
        match self.0 {
            SocketAddr::V4(address) => bytes.extend(address.ip().octets()),
            SocketAddr::V6(address) => {
                // As `sockaddr_in6` has this member in memory.
                bytes.extend(address.flowinfo().to_ne_bytes());
                bytes.extend(address.ip().octets());
            }
        }
        bytes
    }

    /// Splits a datagram into its header and the rest; none without a valid header.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (head, rest) = bytes.split_first_chunk::<4>()?;
        let [version, length, high, low] = *head;
        let port = u16::from_be_bytes([high, low]);
        match (version, length) {
            (V4, 8) => {
                let (address, rest) = rest.split_first_chunk::<4>()?;
                let address = SocketAddrV4::new(Ipv4Addr::from(*address), port);
                Some((Self(address.into()), rest))
            }
            (V6, 24) => {
                let (flow, rest) = rest.split_first_chunk::<4>()?;
                let (address, rest) = rest.split_first_chunk::<16>()?;
                let flow = u32::from_ne_bytes(*flow);
                let address = SocketAddrV6::new(Ipv6Addr::from(*address), port, flow, 0);
                Some((Self(address.into()), rest))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_has_its_bytes() {
        let announcement = Announcement {
            kind: DatagramKind::Control,
            queue_pair: 0x12,
            target: IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1)),
        };
        let mut bytes = announcement.encode();
        let expected = [
            0x55, 0x55, 0x55, 0x55, 4, 7, 16, 0, 0, 0, 0, 0x12, 10, 9, 0, 1,
        ];
        assert_eq!(bytes, expected);
        bytes.push(9);
        assert_eq!(Announcement::decode(&bytes), Some((announcement, &[9][..])));
        for at in [0, 4, 5, 6] {
            let mut other = bytes.clone();
            other[at] = 3;
            assert_eq!(Announcement::decode(&other), None, "{at}");
        }
        let six = Announcement {
            target: IpAddr::V6(Ipv6Addr::LOCALHOST),
            ..announcement
        };
        assert_eq!(six.encode().len(), 28);
        assert_eq!(Announcement::decode(&six.encode()), Some((six, &[][..])));
    }

    #[test]
    fn a_sender_has_its_bytes() {
        let four = Sender("10.9.0.1:7471".parse().unwrap());
        assert_eq!(four.encode(), [4, 8, 0x1d, 0x2f, 10, 9, 0, 1]);
        let six = Sender("[fe80::1]:7471".parse().unwrap());
        for sender in [four, six] {
            let bytes = sender.encode();
            assert_eq!(bytes.len(), sender.length());
            assert_eq!(Sender::decode(&bytes), Some((sender, &[][..])));
            for cut in 0..bytes.len() {
                assert_eq!(Sender::decode(&bytes[..cut]), None);
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            let _ = Announcement::decode(&bytes);
            let _ = Sender::decode(&bytes);
        }
    }
}
