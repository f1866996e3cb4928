//! Receiving.

use crate::errno::Result;
use crate::sys::batch::Batch;
use core::ffi::c_int;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::BorrowedFd;

/// The most bytes of a datagram or a run.
const SIZE: usize = 1 << 16;

/// A datagram that came in, or a run of datagrams of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// The bytes.
    pub data: &'a [u8],
    /// Bytes of each datagram of a run, of which the last may be shorter.
    pub segment: usize,
    /// Where from.
    pub source: IpAddr,
    /// Port at the source.
    pub port: u16,
    /// Where to.
    pub destination: IpAddr,
    /// The interface it came in by.
    pub interface: u32,
    /// Time to live or hop limit.
    pub hop_limit: u8,
    /// Type of service or traffic class.
    pub traffic_class: u8,
}

/// Buffers for [`super::BATCH`] datagrams and the information about them.
pub struct Receiver(Batch<libc::sockaddr_storage>);

impl Default for Receiver {
    fn default() -> Self {
        Self::new()
    }
}

impl Receiver {
    /// Empty buffers.
    #[must_use]
    pub fn new() -> Self {
        Self(Batch::new(0, SIZE))
    }

    /// Receives the pending datagrams, without waiting. Returns their number for
    /// [`Receiver::received`]; earlier datagrams are dropped.
    ///
    /// # Errors
    /// Of recvmmsg(2): EAGAIN if there is nothing.
    pub fn receive(&mut self, fd: BorrowedFd<'_>) -> Result<usize> {
        self.0.receive(fd)
    }

    /// Receives one pending datagram, without waiting: for sockets that have probably none, or one
    /// alone. Returns 1.
    ///
    /// # Errors
    /// Of recvmsg(2): EAGAIN if there is nothing.
    pub fn receive_one(&mut self, fd: BorrowedFd<'_>) -> Result<usize> {
        self.0.receive_one(fd)
    }

    /// One of those received last; `None` if it did not fit, or came over no Internet protocol.
    #[must_use]
    pub fn received(&self, index: usize) -> Option<Received<'_>> {
        let (place, buffer) = self.0.get(index)?;
        let data = buffer.get(..place.length)?;
        let (source, port) = address(&place.name)?;
        let mut received = Received {
            data,
            segment: data.len(),
            source,
            port,
            destination: source,
            interface: 0,
            hop_limit: 0,
            traffic_class: 0,
        };
        let mut complete = false;
        for (level, kind, data) in place.control.iter() {
            complete |= received.apply(level, kind, data) == Some(true);
        }
        complete.then_some(received)
    }
}

impl Received<'_> {
    /// Takes over a control message; `Some(true)` for the one that nothing goes without.
    fn apply(&mut self, level: c_int, kind: c_int, data: &[u8]) -> Option<bool> {
        match (level, kind) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                // ipi_ifindex, ipi_spec_dst, ipi_addr.
                self.interface = u32::from_ne_bytes(*data.first_chunk()?);
                let address = data.get(8..)?.first_chunk::<4>()?;
                self.destination = IpAddr::V4(Ipv4Addr::from(*address));
                return Some(true);
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let address = data.first_chunk::<16>()?;
                self.destination = IpAddr::V6(Ipv6Addr::from(*address));
                self.interface = u32::from_ne_bytes(*data.get(16..)?.first_chunk()?);
                return Some(true);
            }
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                self.hop_limit = low_byte(data)?;
            }
            // The only one of these that is a byte and no int.
            (libc::IPPROTO_IP, libc::IP_TOS) => self.traffic_class = *data.first()?,
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => self.traffic_class = low_byte(data)?,
            (libc::SOL_UDP, libc::UDP_GRO) => {
                let size = c_int::from_ne_bytes(*data.first_chunk()?);
                self.segment = usize::try_from(size).ok().filter(|size| *size > 0)?;
            }
            _ => {}
        }
        Some(false)
    }
}

fn low_byte(data: &[u8]) -> Option<u8> {
    u8::try_from(c_int::from_ne_bytes(*data.first_chunk()?)).ok()
}

fn address(name: &libc::sockaddr_storage) -> Option<(IpAddr, u16)> {
    let storage = core::ptr::from_ref(name);
    match c_int::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: large and aligned enough, and any bytes are a value.
            let name = unsafe { &*storage.cast::<libc::sockaddr_in>() };
            let address = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
            Some((IpAddr::V4(address), u16::from_be(name.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let name = unsafe { &*storage.cast::<libc::sockaddr_in6>() };
            let address = Ipv6Addr::from(name.sin6_addr.s6_addr);
            Some((IpAddr::V6(address), u16::from_be(name.sin6_port)))
        }
        _ => None,
    }
}
