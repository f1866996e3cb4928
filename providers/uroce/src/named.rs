//! Sockets of this host's processes, by abstract names (unix(7)): they go with whoever holds them.

use kit::errno::Result;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::os::fd::OwnedFd;

/// What every such socket is: closed by exec(3), and never waited for.
pub const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

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
