//! Captures the packets of this process in a file for packet analysers: `UROCE_PCAP=file`.
//!
//! The file has the classic pcap format with raw IP packets (LINKTYPE_RAW). `%p` in its name is
//! replaced by the process id; processes that name the same file append to it. The Internet headers
//! are those on the wire, except for fields that a socket does not see: the UDP checksum over IPv4
//! (0, "none") and the flow label of IPv6 (0).

use kit::errno::Result;
use kit::sys::output::Output;
use rustix::fs::{FlockOperation, flock, fstat};
use std::ffi::OsStr;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{SystemTime, UNIX_EPOCH};

/// The variable.
pub const VARIABLE: &str = "UROCE_PCAP";

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const LINKTYPE_RAW: u32 = 101;
const LONGEST: u32 = 65_535;
const UDP: u8 = 17;

/// A packet with all data for the file.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Where from.
    pub source: IpAddr,
    /// Where to.
    pub destination: IpAddr,
    /// UDP ports, source first.
    pub ports: (u16, u16),
    /// Time to live or hop limit.
    pub hop_limit: u8,
    /// Type of service or traffic class.
    pub traffic_class: u8,
    /// IPv4 identification.
    pub identification: u16,
    /// The UDP payload.
    pub payload: &'a [u8],
}

/// An open capture.
#[derive(Debug)]
pub struct Capture(Output);

impl Capture {
    /// Opens the file, for this process's number in the place of `%p`.
    ///
    /// # Errors
    /// Of open(2), fstat(2).
    pub fn open(name: &str) -> Result<Self> {
        let name = name.replace("%p", &std::process::id().to_string());
        let output = Output::open(VARIABLE, OsStr::new(&name))?;
        if let Some(file) = output.file() {
            // The first one writes the header. Where files cannot be locked, a second may too.
            let locked = flock(file, FlockOperation::LockExclusive);
            if fstat(file)?.st_size == 0 {
                output.write(&header());
            }
            if locked.is_ok() {
                flock(file, FlockOperation::Unlock)?;
            }
        }
        Ok(Self(output))
    }

    /// Adds a packet, until one cannot be written.
    pub fn add(&self, record: &Record<'_>) {
        let Some(packet) = packet(record) else {
            return;
        };
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = since.unwrap_or_default();
        let seconds = u32::try_from(since.as_secs()).unwrap_or(u32::MAX);
        let length = u32::try_from(packet.len()).unwrap_or(LONGEST);
        let mut bytes = Vec::with_capacity(16 + packet.len());
        for field in [seconds, since.subsec_nanos(), length, length] {
            bytes.extend(field.to_ne_bytes());
        }
        bytes.extend(packet);
        // One write for each record, at the end of the file, which other processes may write, too.
        self.0.write(&bytes);
    }
}

fn header() -> [u8; 24] {
    let mut header = [0; 24];
    // Magic, version 2.4, time zone, accuracy, longest record, link type.
    let fields = [MAGIC_NANOSECONDS, version(), 0, 0, LONGEST, LINKTYPE_RAW];
    for (place, field) in header.chunks_exact_mut(4).zip(fields) {
        place.copy_from_slice(&field.to_ne_bytes());
    }
    header
}

/// Two numbers of 16 bits, 2 and 4, in this order in memory.
fn version() -> u32 {
    let ([a, b], [c, d]) = (2u16.to_ne_bytes(), 4u16.to_ne_bytes());
    u32::from_ne_bytes([a, b, c, d])
}

fn packet(record: &Record<'_>) -> Option<Vec<u8>> {
    let udp_length = u16::try_from(record.payload.len() + 8).ok()?;
    let mut udp = Vec::new();
    udp.extend(record.ports.0.to_be_bytes());
    udp.extend(record.ports.1.to_be_bytes());
    udp.extend(udp_length.to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(record.payload);
    let mut bytes = Vec::with_capacity(40 + udp.len());
    match (record.source, record.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let total = udp_length.checked_add(20)?;
            bytes.extend([0x45, record.traffic_class]);
            bytes.extend(total.to_be_bytes());
            bytes.extend(record.identification.to_be_bytes());
            bytes.extend([0x40, 0, record.hop_limit, UDP, 0, 0]);
            bytes.extend(source.octets());
            bytes.extend(destination.octets());
            let sum = !sum(&bytes, 0);
            bytes.get_mut(10..12)?.copy_from_slice(&sum.to_be_bytes());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let class = record.traffic_class;
            bytes.extend([0x60 | class >> 4, class << 4, 0, 0]);
            bytes.extend(udp_length.to_be_bytes());
            bytes.extend([UDP, record.hop_limit]);
            bytes.extend(source.octets());
            bytes.extend(destination.octets());
            let checksum = udp_checksum(source, destination, &udp);
            udp.get_mut(6..8)?.copy_from_slice(&checksum.to_be_bytes());
        }
        _ => return None,
    }
    bytes.extend(udp);
    Some(bytes)
}

fn udp_checksum(source: Ipv6Addr, destination: Ipv6Addr, udp: &[u8]) -> u16 {
    let mut pseudo = Vec::with_capacity(40);
    pseudo.extend(source.octets());
    pseudo.extend(destination.octets());
    pseudo.extend(u32::try_from(udp.len()).unwrap_or(0).to_be_bytes());
    pseudo.extend([0, 0, 0, UDP]);
    match !sum(udp, sum(&pseudo, 0)) {
        0 => 0xffff,
        sum => sum,
    }
}

/// The ones' complement sum (RFC 1071).
fn sum(bytes: &[u8], start: u16) -> u16 {
    let mut sum = u32::from(start);
    for word in bytes.chunks(2) {
        let high = word.first().copied().unwrap_or(0);
        let low = word.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([high, low]));
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn the_file_is_one_that_others_add_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().join("%p.pcap");
        let name = name.to_str().expect("text");
        let record = Record {
            source: Ipv4Addr::new(10, 0, 0, 1).into(),
            destination: Ipv4Addr::new(10, 0, 0, 2).into(),
            ports: (0xc000, 4791),
            hop_limit: 64,
            traffic_class: 0,
            identification: 3,
            payload: &[7; 21],
        };
        for _ in 0..2 {
            Capture::open(name).expect("a file").add(&record);
        }
        let name = name.replace("%p", &std::process::id().to_string());
        let bytes = std::fs::read(name).expect("the file");
        assert_eq!(bytes.len(), 24 + 2 * (16 + 20 + 8 + 21));
        assert_eq!(bytes[..4], MAGIC_NANOSECONDS.to_ne_bytes());
        let ip = &bytes[40..60];
        assert_eq!((ip[0], ip[5], ip[6]), (0x45, 3, 0x40));
        assert_eq!(sum(ip, 0), 0xffff);
    }

    #[test]
    fn checksums_of_ipv6() {
        let record = Record {
            source: Ipv6Addr::LOCALHOST.into(),
            destination: Ipv6Addr::LOCALHOST.into(),
            ports: (0xc000, 4791),
            hop_limit: 64,
            traffic_class: 0xff,
            identification: 0,
            payload: &[1, 2, 3],
        };
        let bytes = packet(&record).expect("a packet");
        let mut pseudo = bytes[8..40].to_vec();
        pseudo.extend([0, 0, 0, 11, 0, 0, 0, UDP]);
        assert_eq!(sum(&bytes[40..], sum(&pseudo, 0)), 0xffff);
    }
}
