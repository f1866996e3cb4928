#![forbid(unsafe_code)]
//! The 40 bytes in front of a received datagram.
//!
//! On InfiniBand and RoCE v1 they are a GRH, which has the form of an IPv6 header (InfiniBand
//! Architecture Specification, 8.3). On RoCE v2 they are the packet's IPv6 header, or 20 bytes
//! of anything followed by its IPv4 header (RoCEv2 annex, A17).

use super::{Gid, Version};
use kit::errno::{Errno, Result};

/// Bytes of the header.
pub const SIZE: usize = 40;
/// Where an IPv4 header stands.
const IPV4_AT: usize = 20;
/// Next header: UDP, hence RoCE v2.
const UDP: u8 = 17;
/// Next header: InfiniBand transport.
const INFINIBAND: u8 = 0x1b;

/// The header after the IP header, which shows how the datagram travelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// IPv4: RoCE v2 has nothing else.
    Ipv4,
    /// IPv6, and the number of its next header.
    Ipv6(u8),
}

/// Sender, receiver and route of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// GID of the sender.
    pub source: Gid,
    /// GID that it was sent to.
    pub destination: Gid,
    /// The next header.
    pub next: Next,
    /// Hops that it had left.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
}

impl Header {
    /// Reads the header.
    ///
    /// # Errors
    /// EPROTONOSUPPORT when it is neither of IPv4 nor of IPv6.
    pub fn parse(bytes: &[u8; SIZE]) -> Result<Self> {
        let behind = bytes.last_chunk::<{ SIZE - IPV4_AT }>();
        match (bytes[0] >> 4, behind) {
            (6, Some(ipv4)) if is_sound(ipv4) => Ok(from_ipv4(ipv4)),
            (6, _) => Ok(from_ipv6(bytes)),
            (_, Some(ipv4)) if ipv4[0] >> 4 == 4 => Ok(from_ipv4(ipv4)),
            _ => Err(Errno::PROTONOSUPPORT),
        }
    }

    /// Whether it was sent to a multicast address, which is in no GID table.
    pub fn is_multicast(&self) -> bool {
        match self.next {
            // 224.0.0.0/4 in the last four bytes.
            Next::Ipv4 => self.destination[12] >> 4 == 0xe,
            Next::Ipv6(_) => self.destination[0] == 0xff,
        }
    }

    /// How it travelled.
    ///
    /// # Errors
    /// EPROTONOSUPPORT when neither UDP nor InfiniBand follows.
    pub fn version(&self) -> Result<Version> {
        match self.next {
            Next::Ipv4 | Next::Ipv6(UDP) => Ok(Version::V2),
            Next::Ipv6(INFINIBAND) => Ok(Version::V1),
            Next::Ipv6(_) => Err(Errno::PROTONOSUPPORT),
        }
    }
}

/// The flow label of a GRH; of a datagram with an IPv4 header it means nothing.
pub fn flow_label(bytes: &[u8; SIZE]) -> u32 {
    first_word(bytes) & 0xf_ffff
}

fn first_word(bytes: &[u8; SIZE]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Whether these bytes are an IPv4 header without options whose checksum is right. The bytes before
/// one may look like IPv6 by chance.
fn is_sound(header: &[u8; 20]) -> bool {
    header[0] == 0x45 && checksum(header) == 0
}

/// The sum of RFC 1071, 0 for a header that holds its own checksum.
fn checksum(header: &[u8; 20]) -> u16 {
    let words = header.chunks_exact(2);
    let sum: u32 = words.map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    // Ten words carry at most 9, and adding that carries at most once more.
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    !u16::try_from(folded & 0xffff).unwrap_or_default()
}

fn from_ipv4(header: &[u8; 20]) -> Header {
    let [.., s0, s1, s2, s3, d0, d1, d2, d3] = *header;
    Header {
        source: mapped([s0, s1, s2, s3]),
        destination: mapped([d0, d1, d2, d3]),
        next: Next::Ipv4,
        hop_limit: header[8],
        traffic_class: header[1],
    }
}

/// The GID of an IPv4 address (`::ffff:a.b.c.d`).
pub fn mapped(address: [u8; 4]) -> Gid {
    std::net::Ipv4Addr::from(address).to_ipv6_mapped().octets()
}

fn from_ipv6(bytes: &[u8; SIZE]) -> Header {
    let mut source = [0; 16];
    let mut destination = [0; 16];
    source.copy_from_slice(&bytes[8..24]);
    destination.copy_from_slice(&bytes[24..40]);
    Header {
        source,
        destination,
        next: Next::Ipv6(bytes[6]),
        hop_limit: bytes[7],
        traffic_class: bytes[0] << 4 | bytes[1] >> 4,
    }
}

#[cfg(test)]
mod tests;
