//! Whole Ethernet frames of an interface: packet sockets (packet(7)), and the facts that the kernel
//! reports with a frame.

mod receive;
#[cfg(test)]
mod tests;

pub use receive::{Frame, FrameReceiver, Origin};

use crate::errno::{Errno, Result};
use core::ffi::c_int;
use core::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The kind of a packet socket's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// Its frames are Ethernet's.
    pub ethernet: bool,
    /// It is a loopback interface.
    pub loopback: bool,
    /// Its address; zeros on a loopback interface.
    pub address: [u8; 6],
}

/// Frames besides those to its address that an interface receives while a socket is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// All that passes.
    Everything,
    /// Every group.
    AllGroups,
    /// One group.
    Group([u8; 6]),
}

/// Bytes that wait in a socket that listens: the kernel counts twice as many, its own included.
const BUFFER: c_int = 4 << 20;

/// A packet socket on an interface, that does not wait. One that does not listen only sends.
///
/// # Errors
/// EPERM without `CAP_NET_RAW`, ENODEV for an interface that is gone; of socket(2).
pub fn open(interface: u32, listen: bool) -> Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: plain numbers; the answer is checked. Without a protocol nothing is received yet.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(super::errno::get());
    }
    // SAFETY: the new descriptor belongs to nothing else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    if listen {
        let on: c_int = 1;
        set(&fd, libc::SOL_PACKET, libc::PACKET_AUXDATA, &on)?;
        // Beyond net.core.rmem_max, if this process may; otherwise up to it.
        if set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &BUFFER).is_err() {
            set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &BUFFER)?;
        }
    }
    // SAFETY: numbers, for which zeros are values.
    let mut name: libc::sockaddr_ll = unsafe { zeroed() };
    name.sll_family = family()?;
    name.sll_ifindex = c_int::try_from(interface).map_err(|_| Errno::NODEV)?;
    if listen {
        name.sll_protocol = every_protocol()?;
    }
    let size = length_of::<libc::sockaddr_ll>()?;
    // SAFETY: the name lives through the call.
    let done = unsafe { libc::bind(fd.as_raw_fd(), (&raw const name).cast(), size) };
    if done != 0 {
        return Err(super::errno::get());
    }
    Ok(fd)
}

fn family() -> Result<u16> {
    u16::try_from(libc::AF_PACKET).map_err(|_| Errno::INVAL)
}

/// `ETH_P_ALL`, in network order.
fn every_protocol() -> Result<u16> {
    let number = u16::try_from(libc::ETH_P_ALL).map_err(|_| Errno::INVAL)?;
    Ok(number.to_be())
}

fn length_of<T>() -> Result<libc::socklen_t> {
    libc::socklen_t::try_from(size_of::<T>()).map_err(|_| Errno::INVAL)
}

fn set<T>(fd: &OwnedFd, level: c_int, name: c_int, value: &T) -> Result<()> {
    let size = length_of::<T>()?;
    let value = core::ptr::from_ref(value).cast();
    // SAFETY: the value lives through the call and has that size.
    match unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value, size) } {
        0 => Ok(()),
        _ => Err(super::errno::get()),
    }
}

/// The kind of the interface of a socket of [`open`].
///
/// # Errors
/// Of getsockname(2).
pub fn hardware(fd: BorrowedFd<'_>) -> Result<Hardware> {
    // SAFETY: numbers, for which zeros are values.
    let mut name: libc::sockaddr_ll = unsafe { zeroed() };
    let mut size = length_of::<libc::sockaddr_ll>()?;
    // SAFETY: the name has that size and lives through the call.
    let done = unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut name).cast(), &raw mut size) };
    if done != 0 {
        return Err(super::errno::get());
    }
    let kind = name.sll_hatype;
    let loopback = kind == libc::ARPHRD_LOOPBACK;
    let mut address = [0; 6];
    if usize::from(name.sll_halen) == address.len() {
        for (to, from) in address.iter_mut().zip(name.sll_addr) {
            *to = from;
        }
    }
    Ok(Hardware {
        ethernet: loopback || kind == libc::ARPHRD_ETHER,
        loopback,
        address,
    })
}

/// Makes the interface receive more, until the socket is closed.
///
/// # Errors
/// ENODEV for an interface that is gone, ENOBUFS.
pub fn join(fd: &OwnedFd, interface: u32, what: Membership) -> Result<()> {
    let (kind, group) = match what {
        Membership::Everything => (libc::PACKET_MR_PROMISC, None),
        Membership::AllGroups => (libc::PACKET_MR_ALLMULTI, None),
        Membership::Group(group) => (libc::PACKET_MR_MULTICAST, Some(group)),
    };
    // SAFETY: numbers, for which zeros are values.
    let mut request: libc::packet_mreq = unsafe { zeroed() };
    request.mr_ifindex = c_int::try_from(interface).map_err(|_| Errno::NODEV)?;
    request.mr_type = u16::try_from(kind).map_err(|_| Errno::INVAL)?;
    if let Some(group) = group {
        request.mr_alen = 6;
        for (to, from) in request.mr_address.iter_mut().zip(group) {
            *to = from;
        }
    }
    set(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}
