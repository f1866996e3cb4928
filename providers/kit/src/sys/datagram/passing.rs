//! Datagrams between processes of one host (unix(7)), with descriptors and who sent them.

use super::control::{Control, ROOM};
use crate::errno::Result;
use core::ffi::c_int;
use core::mem::zeroed;
use rustix::io::IoSlice;
use rustix::net::{
    self, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, sockopt,
};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Who sent a datagram, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Process number; 0 if it is not to be seen from here (another PID namespace).
    pub pid: i32,
    /// Real user.
    pub uid: u32,
}

/// A datagram that came in.
#[derive(Debug)]
pub struct Passed {
    /// Bytes in the buffer; `None` if it was longer.
    pub length: Option<usize>,
    /// The abstract name of the sender's socket, without the leading zero; empty if it has none.
    pub name: Vec<u8>,
    /// Who sent it; `None` if the socket did not ask for that.
    pub sender: Option<Sender>,
    /// Descriptors that came along: they are closed with this. None if there was no room for all.
    pub descriptors: Vec<OwnedFd>,
}

/// Has the kernel say who sends to this socket.
///
/// # Errors
/// Of setsockopt(2).
pub fn ask_for_senders(socket: BorrowedFd<'_>) -> Result<()> {
    Ok(sockopt::set_socket_passcred(socket, true)?)
}

/// Sends to an abstract name, without waiting. At most 8 descriptors.
///
/// # Errors
/// Of sendmsg(2): ECONNREFUSED if nobody has the name, EAGAIN if its queue is full.
pub fn pass(
    socket: BorrowedFd<'_>,
    name: &[u8],
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<()> {
    let to = SocketAddrUnix::new_abstract_name(name)?;
    let mut space = [core::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(crate::errno::Errno::INVAL);
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    net::sendmsg_addr(socket, &to, &[IoSlice::new(bytes)], &mut control, flags)?;
    Ok(())
}

/// Takes in a datagram, without waiting.
///
/// # Errors
/// Of recvmsg(2): EAGAIN if there is none.
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
    // SAFETY: the kernel writes to the name, the buffer and the control buffer, no more than their
    // lengths say.
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
                    // SAFETY: the kernel made it just now for this call, so nobody else owns it.
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
        let to = names[1].as_bytes();
        pass(first.as_fd(), to, b"hello", &[read.as_fd()]).expect("passed");
        pass(first.as_fd(), to, b"longer than the buffer", &[]).expect("passed");
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
        let nobody = pass(first.as_fd(), b"kit/nobody", b"", &[]);
        assert_eq!(nobody, Err(Errno(libc::ECONNREFUSED)));
    }

    #[test]
    fn many_descriptors_are_closed_again() {
        let me = std::process::id();
        let name = format!("kit/{me}/3");
        let socket = named(&name);
        let fds = [socket.as_fd(); 8];
        let open = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let before = open();
        pass(socket.as_fd(), name.as_bytes(), b"", &fds).expect("passed");
        let passed = take(socket.as_fd(), &mut []).expect("something");
        assert_eq!((passed.length, passed.descriptors.len()), (Some(0), 8));
        assert_eq!(passed.sender, None);
        drop(passed);
        // Other tests of this process may have opened or closed some.
        assert!(open() < before + 8);
    }
}
