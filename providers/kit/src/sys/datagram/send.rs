//! Sending.

use crate::errno::Result;
use crate::sys::control::Control;
use core::ffi::c_int;
use core::mem::{MaybeUninit, zeroed};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Datagrams handed to the kernel by one call.
const BATCH: usize = 16;

/// A datagram to send, or a run of datagrams of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The bytes.
    pub data: &'a [u8],
    /// Bytes of each datagram of a run, of which the last may be shorter; `None` if it is one.
    pub segment: Option<u16>,
    /// Where from, an address of this host of the same family as the destination.
    pub source: IpAddr,
    /// Where to.
    pub destination: IpAddr,
    /// Port at the destination.
    pub port: u16,
    /// The outgoing interface; 0 for the route's.
    pub interface: u32,
    /// Time to live or hop limit; 0: the system's own.
    pub hop_limit: u8,
    /// Type of service or traffic class.
    pub traffic_class: u8,
}

/// Datagrams, sent in order.
pub struct Datagrams<'a, I: Iterator<Item = Datagram<'a>>>(pub I);

impl<'a, I: Iterator<Item = Datagram<'a>>> Datagrams<'a, I> {
    /// Sends as many as go by one call: up to 16. Returns how many went.
    ///
    /// # Errors
    /// Of sendmmsg(2), and then it is the first one that cannot be sent.
    pub fn send(self, fd: BorrowedFd<'_>) -> Result<usize> {
        // Written as far as they are used: mostly that is one.
        let mut places = [const { MaybeUninit::<Envelope>::uninit() }; BATCH];
        let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; BATCH];
        let mut count = 0;
        for (datagram, (header, place)) in self.0.zip(headers.iter_mut().zip(&mut places)) {
            let place = place.write(Envelope::of(&datagram));
            header.write(place.header());
            count += 1;
        }
        if count == 0 {
            return Ok(0);
        }
        let headers = headers.as_mut_ptr().cast::<libc::mmsghdr>();
        // For one datagram the older call takes less time.
        if count > 1 {
            // SAFETY: the first `count` headers are written, and point to names, buffers and
            // control messages of the lengths they name, which live through the call; the kernel
            // writes only the headers.
            let sent = unsafe { libc::sendmmsg(fd.as_raw_fd(), headers, count, 0) };
            if let Ok(sent) = usize::try_from(sent) {
                return Ok(sent);
            }
            let error = crate::sys::errno::get();
            // A sandbox may know the older call alone.
            if !error.is_denial() {
                return Err(error);
            }
        }
        // SAFETY: as above; the first header begins with that of one datagram.
        let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), headers.cast::<libc::msghdr>(), 0) };
        if sent < 0 {
            return Err(crate::sys::errno::get());
        }
        Ok(1)
    }
}

/// Memory that the header of a datagram points to.
struct Envelope {
    name: Name,
    length: libc::socklen_t,
    control: Control,
    piece: libc::iovec,
}

impl Envelope {
    fn of(datagram: &Datagram<'_>) -> Self {
        let mut name = NO_NAME;
        let length = name.set(datagram);
        let mut control = Control::new();
        describe(datagram, &mut control);
        Self {
            name,
            length,
            control,
            // Only read by the kernel.
            piece: libc::iovec {
                iov_base: datagram.data.as_ptr().cast_mut().cast(),
                iov_len: datagram.data.len(),
            },
        }
    }

    fn header(&mut self) -> libc::mmsghdr {
        // SAFETY: a structure of numbers and pointers, for which zeros are values.
        let mut header: libc::mmsghdr = unsafe { zeroed() };
        header.msg_hdr.msg_name = (&raw mut self.name).cast();
        header.msg_hdr.msg_namelen = self.length;
        header.msg_hdr.msg_iov = &raw mut self.piece;
        header.msg_hdr.msg_iovlen = 1;
        header.msg_hdr.msg_control = self.control.bytes.as_mut_ptr().cast();
        header.msg_hdr.msg_controllen = self.control.used;
        header
    }
}

#[derive(Clone, Copy)]
#[repr(C)]
union Name {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

const NO_NAME: Name = Name {
    v6: libc::sockaddr_in6 {
        sin6_family: 0,
        sin6_port: 0,
        sin6_flowinfo: 0,
        sin6_addr: libc::in6_addr { s6_addr: [0; 16] },
        sin6_scope_id: 0,
    },
};

impl Name {
    /// The address of the destination; returns its length.
    fn set(&mut self, datagram: &Datagram<'_>) -> libc::socklen_t {
        match datagram.destination {
            IpAddr::V4(address) => {
                self.v4 = libc::sockaddr_in {
                    sin_family: AF_INET,
                    sin_port: datagram.port.to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from(address).to_be(),
                    },
                    sin_zero: [0; 8],
                };
                V4_LEN
            }
            IpAddr::V6(address) => {
                self.v6 = libc::sockaddr_in6 {
                    sin6_family: AF_INET6,
                    sin6_port: datagram.port.to_be(),
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr {
                        s6_addr: address.octets(),
                    },
                    sin6_scope_id: datagram.interface,
                };
                V6_LEN
            }
        }
    }
}

const AF_INET: libc::sa_family_t = 2;
const AF_INET6: libc::sa_family_t = 10;
const V4_LEN: libc::socklen_t = 16;
const V6_LEN: libc::socklen_t = 28;
const _: () = assert!(
    AF_INET as c_int == libc::AF_INET
        && AF_INET6 as c_int == libc::AF_INET6
        && V4_LEN as usize == size_of::<libc::sockaddr_in>()
        && V6_LEN as usize == size_of::<libc::sockaddr_in6>()
);

fn describe(datagram: &Datagram<'_>, control: &mut Control) {
    let hop_limit = c_int::from(datagram.hop_limit).to_ne_bytes();
    let traffic_class = c_int::from(datagram.traffic_class).to_ne_bytes();
    let interface = datagram.interface.to_ne_bytes();
    match datagram.source {
        IpAddr::V4(source) => {
            // ipi_ifindex, ipi_spec_dst, ipi_addr (not looked at).
            let mut info = [0; 12];
            let (index, rest) = info.split_at_mut(4);
            index.copy_from_slice(&interface);
            if let Some(place) = rest.first_chunk_mut::<4>() {
                *place = source.octets();
            }
            control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            if datagram.hop_limit != 0 {
                control.push(libc::IPPROTO_IP, libc::IP_TTL, &hop_limit);
            }
            if datagram.traffic_class != 0 {
                control.push(libc::IPPROTO_IP, libc::IP_TOS, &traffic_class);
            }
        }
        IpAddr::V6(source) => {
            let mut info = [0; 20];
            let (address, index) = info.split_at_mut(16);
            address.copy_from_slice(&source.octets());
            index.copy_from_slice(&interface);
            control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            if datagram.hop_limit != 0 {
                control.push(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, &hop_limit);
            }
            if datagram.traffic_class != 0 {
                control.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &traffic_class);
            }
        }
    }
    if let Some(segment) = datagram.segment {
        control.push(libc::SOL_UDP, libc::UDP_SEGMENT, &segment.to_ne_bytes());
    }
}
