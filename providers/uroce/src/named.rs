//! Sockets that belong to this process alone, and abstract names for them (unix(7)), which end with
//! the last process that holds them.

use kit::errno::Result;
use kit::sys::child::ParentOnly;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Flags of every such socket: closed by exec(3), and non-blocking.
pub const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// A socket that a forked child does not get: the child would keep the name, and the socket would
/// queue messages that are never read.
#[derive(Debug)]
pub struct Socket {
    /// Dropped first.
    _here: Option<ParentOnly>,
    socket: OwnedFd,
}

impl Socket {
    /// Keeps a socket out of forked children, as far as there is room for that.
    #[must_use]
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            _here: ParentOnly::new(socket.as_fd()).ok(),
            socket,
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// One without a name.
///
/// # Errors
/// Of socket(2).
pub fn socket(kind: SocketType) -> Result<OwnedFd> {
    Ok(net::socket_with(AddressFamily::UNIX, kind, FLAGS, None)?)
}

/// An abstract name.
///
/// # Errors
/// ENAMETOOLONG beyond 107 bytes.
pub fn name(name: &str) -> Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(name.as_bytes())?)
}
