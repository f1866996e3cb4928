//! Sockets that bring packets straight to this process.
//!
//! Of the sockets that share port 4791 the kernel prefers one that is connected to the packet's
//! source. When packets of a sender reach this process through another one, and their source port
//! names this process's slot, the process opens a socket connected to that address and port. No
//! other process needs these packets.

use super::send_sockets;
use super::socket::{self, Socket};
use kit::errno::Result;
use kit::sys::datagram::Received;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd};

/// Limit of connected sockets; packets of further senders are still forwarded.
const MOST: usize = 32;

#[derive(Debug)]
struct ConnectedSocket {
    ours: IpAddr,
    theirs: IpAddr,
    interface: u32,
    socket: Socket,
}

/// The connected sockets of a process.
#[derive(Debug, Default)]
pub struct ConnectedSockets(Vec<ConnectedSocket>);

impl ConnectedSockets {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no sockets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The socket of one.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<BorrowedFd<'_>> {
        self.0.get(index).map(|connected| connected.socket.as_fd())
    }

    /// Opens a socket for the sender of packets that were forwarded to `slot`, if one helps and
    /// there is none yet. `listen` adds its socket to an epoll set. Returns whether a socket was
    /// opened.
    ///
    /// # Errors
    /// Of socket(2), bind(2), connect(2), and of `listen`. Then there is no socket: its packets
    /// would not be read.
    pub fn open(
        &mut self,
        slot: u16,
        run: &Received<'_>,
        listen: impl FnOnce(BorrowedFd<'_>) -> Result<()>,
    ) -> Result<bool> {
        let local = |address: IpAddr| match address {
            IpAddr::V6(v6) if v6.is_unicast_link_local() => run.interface,
            _ => 0,
        };
        let interface = local(run.destination);
        let there = |known: &ConnectedSocket| {
            (known.ours, known.theirs, known.interface) == (run.destination, run.source, interface)
        };
        if run.port != send_sockets::port(slot) || self.0.len() >= MOST || self.0.iter().any(there)
        {
            return Ok(false);
        }
        let full = |address: IpAddr, port: u16| match address {
            IpAddr::V6(v6) => SocketAddrV6::new(v6, port, 0, interface).into(),
            IpAddr::V4(_) => SocketAddr::new(address, port),
        };
        let socket = socket::connected(
            full(run.destination, super::PORT),
            full(run.source, run.port),
        )?;
        listen(socket.as_fd())?;
        self.0.push(ConnectedSocket {
            ours: run.destination,
            theirs: run.source,
            interface,
            socket,
        });
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::errno::Errno;
    use std::net::Ipv4Addr;

    #[test]
    fn a_socket_without_listener_is_closed() {
        let slot = crate::carrier::qpn::LAST;
        let run = Received {
            data: &[],
            segment: 1,
            source: Ipv4Addr::new(127, 9, 9, 9).into(),
            port: send_sockets::port(slot),
            destination: Ipv4Addr::LOCALHOST.into(),
            interface: 1,
            hop_limit: 64,
            traffic_class: 0,
        };
        let mut sockets = ConnectedSockets::default();
        let failed = sockets.open(slot, &run, |_| Err(Errno(libc::ENOSPC)));
        assert_eq!(failed, Err(Errno(libc::ENOSPC)));
        assert!(sockets.is_empty());
        assert_eq!(sockets.open(slot, &run, |_| Ok(())), Ok(true));
        assert_eq!(sockets.open(slot, &run, |_| Ok(())), Ok(false));
        assert_eq!(sockets.len(), 1);
    }
}
