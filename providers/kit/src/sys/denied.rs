#![forbid(unsafe_code)]
//! Which system calls a process may not make: a sandbox, or a kernel that lacks them, answers such
//! calls with an errno that says nothing of which call it was.
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
    socket, socket_with, socketpair, sockopt,
};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

/// A system call by the name of its manual page, and a way to make it.
type Call = (&'static str, fn() -> Result<()>);

const CALLS: &[Call] = &[
    ("socket", || udp().map(drop)),
    ("bind", || {
        let any = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        Ok(bind(udp()?, &any)?)
    }),
    ("setsockopt", || Ok(sockopt::set_ip_recvtos(udp()?, true)?)),
    ("getsockname", || Ok(getsockname(udp()?).map(drop)?)),
    ("connect", || {
        let kernel = SocketAddrNetlink::new(0, 0);
        let asks = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
        Ok(connect(asks, &kernel)?)
    }),
    ("socketpair", || pair().map(drop)),
    ("getsockopt", || Ok(sockopt::socket_type(udp()?).map(drop)?)),
    ("listen", || {
        let flags = SocketFlags::CLOEXEC;
        let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
        let new = socket_with(family, kind, flags, None)?;
        bind(&new, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        Ok(listen(new, 1)?)
    }),
    ("accept", || {
        let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let new = socket_with(family, kind, flags, None)?;
        bind(&new, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        listen(&new, 1)?;
        nothing_there(accept_with(&new, SocketFlags::CLOEXEC).map(drop))
    }),
    ("send", || {
        let (from, _to) = pair()?;
        Ok(send(from, b"x", SendFlags::NOSIGNAL).map(drop)?)
    }),
    ("recv", || {
        let (_from, to) = pair()?;
        nothing_there(recv(to, &mut [0; 1], RecvFlags::DONTWAIT).map(drop))
    }),
    ("sendmsg", || {
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
];

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
    named(|name| matches!(name, "send" | "recv" | "sendmsg" | "recvmsg" | "getsockopt"))
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
        let _ = write!(named, "{comma}{name}(2) (errno {})", error.raw());
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
