//! Datagrams with all fields of the Internet header: recvmmsg(2) and sendmmsg(2) with control
//! messages, and the socket options that enable them.

pub mod passing;
mod receive;
mod send;

pub use super::batch::BATCH;
pub use receive::{Received, Receiver};
pub use send::{Datagram, Datagrams};

use crate::errno::Result;
use core::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd};

fn set(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: c_int) -> Result<()> {
    let size = libc::socklen_t::try_from(size_of::<c_int>()).unwrap_or(4);
    // SAFETY: the option's value is an int that lives through the call.
    let done =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), size) };
    if done == 0 {
        return Ok(());
    }
    Err(super::errno::get())
}

/// Makes an IPv4 socket report destination, interface, time to live and type of service of received
/// packets, and receive multicast only of its memberships.
///
/// # Errors
/// Of setsockopt(2).
pub fn report_headers_v4(fd: BorrowedFd<'_>) -> Result<()> {
    set(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
    set(fd, libc::IPPROTO_IP, libc::IP_RECVTTL, 1)?;
    set(fd, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
    // As below, where a sandbox denies it.
    let _ = set(fd, libc::IPPROTO_IP, IP_MULTICAST_ALL, 0);
    Ok(())
}

/// Makes an IPv6 socket report destination, interface, hop limit and traffic class of received
/// packets, and receive multicast only of its memberships.
///
/// # Errors
/// Of setsockopt(2).
pub fn report_headers_v6(fd: BorrowedFd<'_>) -> Result<()> {
    set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
    set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1)?;
    set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
    // Since Linux 4.20; before, memberships of all sockets count, and the receiver has to check.
    let _ = set(fd, libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
    Ok(())
}

/// Lets an UDP socket receive runs of datagrams of one flow as one, see [`Received::segment`].
///
/// # Errors
/// ENOPROTOOPT before Linux 5.0.
pub fn receive_runs(fd: BorrowedFd<'_>) -> Result<()> {
    set(fd, libc::SOL_UDP, libc::UDP_GRO, 1)
}

/// Lets a UDP socket of IPv6 receive datagrams whose checksum is 0, "not computed", which it drops
/// otherwise (RFC 6935). The sender of RoCE v2 leaves the checksum to the ICRC (IBTA volume 1,
/// annex A17): cards and the kernel's soft-RoCE do.
///
/// # Errors
/// ENOPROTOOPT before Linux 3.16.
pub fn receive_without_checksum(fd: BorrowedFd<'_>) -> Result<()> {
    set(fd, libc::SOL_UDP, UDP_NO_CHECK6_RX, 1)
}

/// linux/udp.h
const UDP_NO_CHECK6_RX: c_int = 102;
/// linux/in.h
const IP_MULTICAST_ALL: c_int = 49;
/// linux/in6.h
const IPV6_MULTICAST_ALL: c_int = 29;

#[cfg(test)]
mod tests;
