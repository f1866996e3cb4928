#![forbid(unsafe_code)]
//! Records the system calls that a process may not make: a sandbox, or a kernel that lacks them,
//! returns an errno for such calls that does not identify the call.
//!
//! Each call that devices in user space need is made once, to no effect.

use super::madvise::Page;
use crate::errno::Result;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fs::{MemfdFlags, fstat, memfd_create};
use rustix::io::{IoSlice, IoSliceMut, fcntl_dupfd_cloexec};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags,
    SocketType, accept_with, bind, connect, getsockname, listen, recv, recvmsg, send, sendmsg,
    socket_with, socketpair, sockopt,
};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

/// A system call by its manual page, and a way to make it.
type Call = (&'static str, fn() -> Result<()>);

const CALLS: &[Call] = &[
    ("socket(2)", || udp().map(drop)),
    ("socket(2) for AF_NETLINK", || netlink().map(drop)),
    ("bind(2)", || {
        let any = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        Ok(bind(udp()?, &any)?)
    }),
    ("setsockopt(2)", || {
        Ok(sockopt::set_ip_recvtos(udp()?, true)?)
    }),
    ("getsockname(2)", || Ok(getsockname(udp()?).map(drop)?)),
    ("connect(2)", || {
        let kernel = SocketAddrNetlink::new(0, 0);
        // A denied socket has its own line.
        let Ok(asks) = netlink() else { return Ok(()) };
        Ok(connect(asks, &kernel)?)
    }),
    ("socketpair(2)", || pair().map(drop)),
    ("getsockopt(2)", || {
        Ok(sockopt::socket_type(udp()?).map(drop)?)
    }),
    ("listen(2)", || {
        let flags = SocketFlags::CLOEXEC;
        let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
        let new = socket_with(family, kind, flags, None)?;
        bind(&new, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        Ok(listen(new, 1)?)
    }),
    ("accept(2)", || {
        let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let new = socket_with(family, kind, flags, None)?;
        bind(&new, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        listen(&new, 1)?;
        nothing_there(accept_with(&new, SocketFlags::CLOEXEC).map(drop))
    }),
    ("send(2)", || {
        let (from, _to) = pair()?;
        Ok(send(from, b"x", SendFlags::NOSIGNAL).map(drop)?)
    }),
    ("recv(2)", || {
        let (_from, to) = pair()?;
        nothing_there(recv(to, &mut [0; 1], RecvFlags::DONTWAIT).map(drop))
    }),
    ("sendmsg(2)", || {
        let (from, _to) = pair()?;
        let pieces = [IoSlice::new(b"x")];
        let none = &mut SendAncillaryBuffer::default();
        Ok(sendmsg(from, &pieces, none, SendFlags::NOSIGNAL).map(drop)?)
    }),
    ("recvmsg", || {
        let (_from, to) = pair()?;
        let mut byte = [0];
        let pieces = &mut [IoSliceMut::new(&mut byte)];
        let none = &mut RecvAncillaryBuffer::default();
        nothing_there(recvmsg(to, pieces, none, RecvFlags::DONTWAIT).map(drop))
    }),
    ("epoll_create", || {
        Ok(epoll::create(epoll::CreateFlags::CLOEXEC).map(drop)?)
    }),
    ("epoll_ctl", || {
        let (watched, _other) = pair()?;
        let watch = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (data, events) = (epoll::EventData::new_u64(0), epoll::EventFlags::IN);
        Ok(epoll::add(watch, watched, data, events)?)
    }),
    ("eventfd", || {
        Ok(eventfd(0, EventfdFlags::CLOEXEC).map(drop)?)
    }),
    ("fcntl", || Ok(fcntl_dupfd_cloexec(udp()?, 0).map(drop)?)),
    ("pipe", || Ok(pipe_with(PipeFlags::CLOEXEC).map(drop)?)),
    ("fstat", || Ok(fstat(udp()?).map(drop)?)),
    ("memfd_create", || {
        Ok(memfd_create("probe", MemfdFlags::CLOEXEC).map(drop)?)
    }),
    ("mprotect", || Page::new()?.protect()),
    ("madvise", || {
        let page = Page::new()?;
        super::madvise::dont_fork(page.addr(), rustix::param::page_size())
    }),
    ("clone(2)", || {
        let thread = super::thread::start("uroce-probe", || {})?;
        // An error would be a panic of the thread, which does nothing.
        let _ = thread.join();
        Ok(())
    }),
];

/// The calls with which packets are sent and received.
const OF_PACKETS: [&str; 5] = [
    "send(2)",
    "recv(2)",
    "sendmsg(2)",
    "recvmsg(2)",
    "getsockopt(2)",
];

fn netlink() -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
    Ok(socket_with(family, kind, flags, None)?)
}

fn udp() -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    Ok(socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        flags,
        None,
    )?)
}

fn pair() -> Result<(OwnedFd, OwnedFd)> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    Ok(socketpair(family, kind, SocketFlags::CLOEXEC, None)?)
}

fn nothing_there(received: rustix::io::Result<()>) -> Result<()> {
    match received {
        Err(rustix::io::Errno::AGAIN) => Ok(()),
        other => Ok(other?),
    }
}

/// Names the calls that this process may not make, each with its errno: `connect(2) (errno 1),
/// send(2) (errno 1)`. None if it may make all of them, or fails for another reason.
#[must_use]
pub fn calls() -> Option<String> {
    named(|_| true)
}

/// The same of those alone with which packets are sent and received.
#[must_use]
pub fn of_packets() -> Option<String> {
    named(|name| OF_PACKETS.contains(&name))
}

fn named(wanted: impl Fn(&str) -> bool) -> Option<String> {
    let wanted = CALLS.iter().filter(|(name, _)| wanted(name));
    let denied = wanted.filter_map(|(name, call)| {
        let error = call().err().filter(|e| e.is_denial())?;
        Some((*name, error))
    });
    let mut named = String::new();
    for (name, error) in denied {
        let comma = if named.is_empty() { "" } else { ", " };
        // A string takes everything.
        let _ = write!(named, "{comma}{name} (errno {})", error.raw());
    }
    (!named.is_empty()).then_some(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errno::Errno;

    #[test]
    fn this_process_may_make_every_call() {
        for (name, call) in CALLS {
            assert_eq!(call(), Ok(()), "{name}");
        }
        assert_eq!((calls(), of_packets()), (None, None));
    }

    #[test]
    fn other_failures_are_no_denials() {
        assert!(Errno::NOSYS.is_denial() && Errno::PERM.is_denial());
        assert!(!Errno(libc::EMFILE).is_denial() && !Errno::NOMEM.is_denial());
    }
}
