//! The sockets that packets come in by.

use super::{PORT, port_user};
pub use crate::named::Socket;
use kit::errno::{Errno, Result};
use kit::log::{self, Level};
use kit::sys::datagram;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Requested size of socket buffers; the system may grant less (net.core.rmem_max, wmem_max).
const BUFFER: usize = 16 << 20;
/// The port of a host that sends nothing from it: discard (RFC 863).
const SILENT: u16 = 9;
/// How long a full send buffer may hold up a sender before its packets count as lost.
const SEND_PATIENCE: Duration = Duration::from_millis(20);

/// Port 4791 of both families.
#[derive(Debug)]
pub struct Sockets {
    v4: Socket,
    v6: Option<Socket>,
}

impl Sockets {
    /// Opens both; without IPv6 in the system, or where a sandbox denies it, only that of IPv4.
    ///
    /// # Errors
    /// EADDRINUSE if another user, or kernel soft-RoCE, has the port; else of socket(2), bind(2).
    pub fn open() -> Result<Self> {
        let v4 = open(AddressFamily::INET, PORT).inspect_err(|error| complain(*error))?;
        let v6 = match open(AddressFamily::INET6, PORT) {
            Ok(v6) => Some(v6),
            Err(Errno(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)) => None,
            // The same calls were permitted for IPv4.
            Err(error) if error.is_denial() => {
                let why = format!(
                    "uroce: this process may not open UDP sockets of IPv6 (socket(2), errno {}): \
                     nothing goes to addresses of IPv6",
                    error.raw()
                );
                log::line(Level::Warning, &why);
                None
            }
            Err(error) => {
                complain(error);
                return Err(error);
            }
        };
        Ok(Self { v4, v6 })
    }

    /// The socket of IPv4.
    #[must_use]
    pub fn v4(&self) -> BorrowedFd<'_> {
        self.v4.as_fd()
    }

    /// The socket of IPv6, if there is one.
    #[must_use]
    pub fn v6(&self) -> Option<BorrowedFd<'_>> {
        self.v6.as_ref().map(Socket::as_fd)
    }

    /// Later packets go to the sockets of other processes, those for groups included; packets that
    /// are in these sockets stay. Without it, the kernel drops packets for other processes that
    /// arrive between the last look and the close. A connected socket is chosen for no other
    /// sender (Linux 5.3).
    pub fn leave(&self) {
        let connect = |socket: BorrowedFd<'_>, address: IpAddr| {
            // Without a route to itself the host receives less as well.
            let _ = net::connect(socket, &SocketAddr::new(address, SILENT));
        };
        connect(self.v4(), Ipv4Addr::LOCALHOST.into());
        if let Some(v6) = self.v6() {
            connect(v6, Ipv6Addr::LOCALHOST.into());
        }
    }

    /// The socket for an address.
    ///
    /// # Errors
    /// EAFNOSUPPORT without IPv6.
    pub fn of(&self, address: IpAddr) -> Result<BorrowedFd<'_>> {
        match address {
            IpAddr::V4(_) => Ok(self.v4()),
            IpAddr::V6(_) => self.v6().ok_or(Errno(libc::EAFNOSUPPORT)),
        }
    }
}

/// Logs which user has the port, without which no device can be opened.
fn complain(error: Errno) {
    if error != Errno(libc::EADDRINUSE) {
        return;
    }
    let whose = match port_user() {
        Some(user) => format!("belongs to user {user}, or to the kernel's soft-RoCE if that is 0"),
        None => "belongs to another user, or to the kernel's soft-RoCE".to_owned(),
    };
    let own = kit::sys::identity::effective_user();
    log::line(
        Level::Error,
        &format!("uroce: no device can be opened by user {own}: UDP port {PORT} {whose}"),
    );
}

fn open(family: AddressFamily, port: u16) -> Result<Socket> {
    let socket = shared(family)?;
    receiving(&socket, family)?;
    large(&socket)?;
    net::bind(&socket, &SocketAddr::new(any(family), port))?;
    Ok(Socket::new(socket))
}

/// A socket that packets only go out by.
///
/// # Errors
/// EADDRINUSE if another user has the port; of socket(2), bind(2).
pub fn sending(family: AddressFamily, port: u16) -> Result<OwnedFd> {
    let socket = shared(family)?;
    large(&socket)?;
    // Packets that others send here are not read.
    sockopt::set_socket_recv_buffer_size(&socket, 0)?;
    net::bind(&socket, &SocketAddr::new(any(family), port))?;
    Ok(socket)
}

/// A socket that receives packets of one sender to one address of this host.
///
/// # Errors
/// Of socket(2), bind(2), connect(2).
pub fn connected(ours: SocketAddr, theirs: SocketAddr) -> Result<Socket> {
    let family = match ours {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = shared(family)?;
    receiving(&socket, family)?;
    large(&socket)?;
    net::bind(&socket, &ours)?;
    net::connect(&socket, &theirs)?;
    Ok(Socket::new(socket))
}

fn any(family: AddressFamily) -> IpAddr {
    if family == AddressFamily::INET {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    }
}

/// A socket whose port other sockets of the user may share, and that never fragments.
fn shared(family: AddressFamily) -> Result<OwnedFd> {
    let socket = net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    if family == AddressFamily::INET {
        sockopt::set_ip_mtu_discover(&socket, sockopt::Ipv4PathMtuDiscovery::PROBE)?;
    } else {
        sockopt::set_ipv6_v6only(&socket, true)?;
        sockopt::set_ipv6_mtu_discover(&socket, sockopt::Ipv6PathMtuDiscovery::PROBE)?;
    }
    Ok(socket)
}

fn receiving(socket: &OwnedFd, family: AddressFamily) -> Result<()> {
    if family == AddressFamily::INET {
        datagram::report_headers_v4(socket.as_fd())?;
    } else {
        datagram::report_headers_v6(socket.as_fd())?;
        // Without it cards and the kernel's soft-RoCE are not heard.
        let _ = datagram::receive_without_checksum(socket.as_fd());
    }
    // Without it runs come in one by one.
    let _ = datagram::receive_runs(socket.as_fd());
    Ok(())
}

/// Asks for large buffers, beyond the limits where this process may.
fn large(socket: &OwnedFd) -> Result<()> {
    if sockopt::set_socket_recv_buffer_size_force(socket, BUFFER).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(socket, BUFFER);
    }
    if sockopt::set_socket_send_buffer_size_force(socket, BUFFER).is_err() {
        let _ = sockopt::set_socket_send_buffer_size(socket, BUFFER);
    }
    sockopt::set_socket_timeout(socket, sockopt::Timeout::Send, Some(SEND_PATIENCE))?;
    Ok(())
}
