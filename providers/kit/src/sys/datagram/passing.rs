//! Datagrams between processes of one host (unix(7)), with descriptors and the sender's identity.

use crate::errno::Result;
use crate::sys::control::{Control, ROOM};
use core::ffi::c_int;
use core::mem::zeroed;
use rustix::io::IoSlice;
use rustix::net::{
    self, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, UCred, sockopt,
};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// The sender of a datagram, or the peer of a connection, as reported by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Process number; 0 if it is not to be seen from here (another PID namespace).
    pub pid: i32,
    /// User: of a datagram the real one, unless its sender named another of its user ids.
    pub uid: u32,
}

/// A datagram that came in.
#[derive(Debug)]
pub struct Passed {
    /// Bytes in the buffer; `None` if it was longer.
    pub length: Option<usize>,
    /// The abstract name of the sender's socket, without the leading zero; empty if it has none.
    pub name: Vec<u8>,
    /// The sender; `None` if the socket did not request it.
    pub sender: Option<Sender>,
    /// Descriptors that came along: they are closed with this. None if there was no room for all.
    pub descriptors: Vec<OwnedFd>,
}

/// Makes the kernel report the senders of messages to this socket.
///
/// # Errors
/// Of setsockopt(2).
pub fn ask_for_senders(socket: BorrowedFd<'_>) -> Result<()> {
    Ok(sockopt::set_socket_passcred(socket, true)?)
}

/// The process at the other end of a connection, or the one that listens there: its effective user
/// when it connected or began to listen.
///
/// # Errors
/// Of getsockopt(2).
pub fn peer(socket: BorrowedFd<'_>) -> Result<Sender> {
    let mut found = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let size = size_of::<libc::ucred>();
    let mut length = libc::socklen_t::try_from(size).unwrap_or(0);
    // SAFETY: the option's value is a `struct ucred`, which lives through the call, as does its
    // length.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut length,
        )
    };
    if failed != 0 {
        return Err(super::super::errno::get());
    }
    Ok(Sender {
        pid: found.pid,
        uid: found.uid,
    })
}

/// Sends to an abstract name, or to the socket's peer, without waiting. At most 8 descriptors. The
/// kernel reports the real user as sender, unless `as_user` names the effective or the saved one.
///
/// # Errors
/// Of sendmsg(2): ECONNREFUSED if no socket has the name, EAGAIN if its queue is full, EPERM if
/// `as_user` is not this process's.
pub fn pass(
    socket: BorrowedFd<'_>,
    to: Option<&SocketAddrUnix>,
    parts: &[IoSlice<'_>],
    descriptors: &[BorrowedFd<'_>],
    as_user: Option<UCred>,
) -> Result<()> {
    let mut space =
        [core::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8), ScmCredentials(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(crate::errno::Errno::INVAL);
    }
    if let Some(user) = as_user
        && !control.push(SendAncillaryMessage::ScmCredentials(user))
    {
        return Err(crate::errno::Errno::INVAL);
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    match to {
        Some(to) => net::sendmsg_addr(socket, to, parts, &mut control, flags)?,
        None => net::sendmsg(socket, parts, &mut control, flags)?,
    };
    Ok(())
}

/// Takes in a datagram, without waiting.
///
/// # Errors
/// Of recvmsg(2): EAGAIN without a datagram.
pub fn take(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Passed> {
    // SAFETY: a structure of numbers, for which zeros are values.
    let mut name: libc::sockaddr_un = unsafe { zeroed() };
    let mut control = Control::new();
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: as above, with null pointers.
    let mut head: libc::msghdr = unsafe { zeroed() };
    head.msg_name = (&raw mut name).cast();
    head.msg_namelen = libc::socklen_t::try_from(size_of::<libc::sockaddr_un>()).unwrap_or(0);
    head.msg_iov = &raw mut part;
    head.msg_iovlen = 1;
    head.msg_control = control.bytes.as_mut_ptr().cast();
    head.msg_controllen = ROOM;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the kernel writes to the name, the buffer and the control buffer, within their
    // lengths.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut head, flags) };
    let Ok(length) = usize::try_from(received) else {
        return Err(super::super::errno::get());
    };
    control.used = head.msg_controllen.min(ROOM);
    let mut passed = Passed {
        length: (head.msg_flags & libc::MSG_TRUNC == 0).then_some(length),
        name: abstract_name(&name, head.msg_namelen),
        sender: None,
        descriptors: Vec::new(),
    };
    for (level, kind, data) in control.iter() {
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                let made = data.chunks_exact(size_of::<c_int>());
                let made = made.filter_map(|bytes| bytes.first_chunk::<4>());
                passed.descriptors.extend(made.map(|bytes| {
                    // SAFETY: the kernel made it just now for this call, so nothing else owns it.
                    unsafe { OwnedFd::from_raw_fd(RawFd::from_ne_bytes(*bytes)) }
                }));
            }
            (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) => passed.sender = sender(data),
            _ => {}
        }
    }
    if head.msg_flags & libc::MSG_CTRUNC != 0 {
        // Those that came might be taken for others.
        passed.descriptors.clear();
    }
    Ok(passed)
}

/// `struct ucred`: process, user, group.
fn sender(data: &[u8]) -> Option<Sender> {
    let (pid, rest) = data.split_first_chunk::<4>()?;
    Some(Sender {
        pid: i32::from_ne_bytes(*pid),
        uid: u32::from_ne_bytes(*rest.first_chunk::<4>()?),
    })
}

fn abstract_name(name: &libc::sockaddr_un, length: libc::socklen_t) -> Vec<u8> {
    let offset = core::mem::offset_of!(libc::sockaddr_un, sun_path);
    let used = usize::try_from(length).unwrap_or(0).saturating_sub(offset);
    let bytes = name.sun_path.iter().take(used);
    let bytes: Vec<u8> = bytes.map(|byte| byte.to_ne_bytes()[0]).collect();
    match bytes.split_first() {
        Some((0, rest)) => rest.to_vec(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errno::Errno;
    use rustix::net::{AddressFamily, SocketType};
    use std::os::fd::AsFd;

    fn named(name: &str) -> OwnedFd {
        let socket = net::socket(AddressFamily::UNIX, SocketType::DGRAM, None).expect("a socket");
        let name = SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("a name");
        net::bind(&socket, &name).expect("bound");
        socket
    }

    #[test]
    fn bytes_descriptors_and_sender_arrive() {
        let me = std::process::id();
        let names = [format!("kit/{me}/1"), format!("kit/{me}/2")];
        let [first, second] = [&names[0], &names[1]].map(|name| named(name));
        ask_for_senders(second.as_fd()).expect("asked");
        let (read, write) = rustix::pipe::pipe().expect("a pipe");
        let send = |name: &str, bytes: &[u8], fds: &[BorrowedFd<'_>]| {
            let to = SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("a name");
            pass(first.as_fd(), Some(&to), &[IoSlice::new(bytes)], fds, None)
        };
        send(&names[1], b"hello", &[read.as_fd()]).expect("passed");
        send(&names[1], b"longer than the buffer", &[]).expect("passed");
        drop(read);
        let mut buffer = [0; 8];
        let passed = take(second.as_fd(), &mut buffer).expect("something");
        assert_eq!(passed.length, Some(5));
        assert_eq!(&buffer[..5], b"hello");
        assert_eq!(passed.name, names[0].as_bytes());
        let sender = passed.sender.expect("a sender");
        assert_eq!(u32::try_from(sender.pid), Ok(me));
        assert_eq!(sender.uid, rustix::process::getuid().as_raw());
        let [ref end] = passed.descriptors[..] else {
            panic!("{passed:?}");
        };
        rustix::io::write(&write, b"x").expect("written");
        assert_eq!(rustix::io::read(end, &mut [0; 2]), Ok(1));
        let passed = take(second.as_fd(), &mut buffer).expect("something");
        assert_eq!(passed.length, None);
        assert_eq!(take(second.as_fd(), &mut buffer).err(), Some(Errno::AGAIN));
        let absent = send("kit/absent", b"", &[]);
        assert_eq!(absent, Err(Errno(libc::ECONNREFUSED)));
    }

    #[test]
    fn a_connected_socket_sends_without_a_name_and_as_another_user() {
        let kind = SocketType::DGRAM;
        let [from, to] = [(); 2].map(|()| net::socket(AddressFamily::UNIX, kind, None));
        let (from, to) = (from.expect("a socket"), to.expect("a socket"));
        let name = format!("kit/{}/4", std::process::id());
        let name = SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("a name");
        net::bind(&to, &name).expect("bound");
        net::connect(&from, &name).expect("connected");
        ask_for_senders(to.as_fd()).expect("asked");
        let uid = rustix::process::geteuid();
        let me = UCred {
            pid: rustix::process::getpid(),
            uid,
            gid: rustix::process::getegid(),
        };
        pass(from.as_fd(), None, &[IoSlice::new(b"x")], &[], Some(me)).expect("passed");
        let passed = take(to.as_fd(), &mut [0; 8]).expect("something");
        let sender = passed.sender.expect("a sender");
        assert_eq!((passed.name.len(), sender.uid), (0, uid.as_raw()));
        if uid.is_root() {
            return;
        }
        let uid = rustix::process::Uid::from_raw(uid.as_raw() ^ 1);
        let other = UCred { uid, ..me };
        let refused = pass(from.as_fd(), None, &[IoSlice::new(b"x")], &[], Some(other));
        assert_eq!(refused, Err(Errno(libc::EPERM)));
    }

    #[test]
    fn the_listener_is_known_before_it_accepts() {
        let [listening, connected] = [(); 2].map(|()| {
            net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket")
        });
        let name = format!("kit/{}/5", std::process::id());
        let name = SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("a name");
        net::bind(&listening, &name).expect("bound");
        net::listen(&listening, 1).expect("listening");
        net::connect(&connected, &name).expect("connected");
        let found = peer(connected.as_fd()).expect("a peer");
        assert_eq!(u32::try_from(found.pid), Ok(std::process::id()));
        assert_eq!(found.uid, rustix::process::geteuid().as_raw());
        assert!(peer(std::fs::File::open("/dev/null").expect("there").as_fd()).is_err());
    }

    #[test]
    fn many_descriptors_are_closed_again() {
        let me = std::process::id();
        let name = format!("kit/{me}/3");
        let socket = named(&name);
        let fds = [socket.as_fd(); 8];
        let open = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let before = open();
        let to = SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("a name");
        pass(socket.as_fd(), Some(&to), &[IoSlice::new(b"")], &fds, None).expect("passed");
        let passed = take(socket.as_fd(), &mut []).expect("something");
        assert_eq!((passed.length, passed.descriptors.len()), (Some(0), 8));
        assert_eq!(passed.sender, None);
        drop(passed);
        // Other tests of this process may have opened or closed some.
        assert!(open() < before + 8);
    }
}
