//! Socket addresses as commands have them, the ways between two addresses, and which device an
//! address belongs to.

use crate::carrier::udp::Path;
use crate::device::{Port, ports};
use kit::errno::{Errno, Result};
use kit::sys::datagram::Received;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// `struct sockaddr_storage`.
pub type Storage = [u8; 128];

/// `AF_IB`.
const IB: u16 = 27;
const INET: u16 = 2;
const INET6: u16 = 10;
/// Bytes of `sockaddr_in`, `sockaddr_in6`, `sockaddr_ib`.
const INET_SIZE: u16 = 16;
const INET6_SIZE: u16 = 28;
const IB_SIZE: u16 = 48;

fn field<const N: usize>(storage: &Storage, at: usize) -> [u8; N] {
    let bytes = storage.get(at..).and_then(<[u8]>::first_chunk);
    bytes.copied().unwrap_or([0; N])
}

fn put(storage: &mut Storage, at: usize, bytes: &[u8]) {
    if let Some(place) = storage.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// The address of that many bytes.
///
/// # Errors
/// EINVAL for another family, or if they are not as many as the family's; for a link-local IPv6
/// address without a scope.
pub fn parse(storage: &Storage, size: u16) -> Result<SocketAddr> {
    let family = u16::from_ne_bytes(field(storage, 0));
    let port = u16::from_be_bytes(field(storage, 2));
    let address = match (family, size) {
        (INET, INET_SIZE) => SocketAddr::new(Ipv4Addr::from(field(storage, 4)).into(), port),
        (INET6, INET6_SIZE) => {
            let flow = u32::from_be_bytes(field(storage, 4));
            let scope = u32::from_ne_bytes(field(storage, 24));
            let address = Ipv6Addr::from(field(storage, 8));
            SocketAddrV6::new(address, port, flow, scope).into()
        }
        _ => return Err(Errno::INVAL),
    };
    match address {
        SocketAddr::V6(v6) if is_link_local(*v6.ip()) && v6.scope_id() == 0 => Err(Errno::INVAL),
        _ => Ok(address),
    }
}

/// The address as a command has it, with its size.
pub fn emit(address: Option<SocketAddr>) -> (Storage, u16) {
    let mut storage = [0; 128];
    let Some(address) = address else {
        return (storage, 0);
    };
    put(&mut storage, 2, &address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => {
            put(&mut storage, 0, &INET.to_ne_bytes());
            put(&mut storage, 4, &v4.ip().octets());
            (storage, INET_SIZE)
        }
        SocketAddr::V6(v6) => {
            put(&mut storage, 0, &INET6.to_ne_bytes());
            put(&mut storage, 4, &v6.flowinfo().to_be_bytes());
            put(&mut storage, 8, &v6.ip().octets());
            put(&mut storage, 24, &v6.scope_id().to_ne_bytes());
            (storage, INET6_SIZE)
        }
    }
}

/// The `sockaddr_ib` of a GID.
pub fn of_gid(gid: [u8; 16], pkey: u16) -> (Storage, u16) {
    let mut storage = [0; 128];
    put(&mut storage, 0, &IB.to_ne_bytes());
    put(&mut storage, 2, &pkey.to_be_bytes());
    put(&mut storage, 8, &gid);
    (storage, IB_SIZE)
}

/// fe80::/10.
fn is_link_local(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xffc0 == 0xfe80
}

fn scope_of(address: IpAddr, interface: u32) -> u32 {
    match address {
        IpAddr::V6(v6) if is_link_local(v6) => interface,
        _ => 0,
    }
}

/// An address of this host and a peer's, which distinguish connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// Of this host.
    pub source: IpAddr,
    /// The peer's.
    pub destination: IpAddr,
    /// The interface, for link-local addresses; else 0.
    scope: u32,
}

impl Route {
    /// The way from an address of an interface.
    pub fn new(source: IpAddr, destination: IpAddr, interface: u32) -> Self {
        Self {
            source,
            destination,
            scope: scope_of(destination, interface),
        }
    }

    /// The route back to the sender.
    pub fn back(received: &Received<'_>) -> Self {
        Self::new(received.destination, received.source, received.interface)
    }

    /// The way of packets.
    pub fn path(&self) -> Path {
        Path {
            source: self.source,
            destination: self.destination,
            interface: self.scope,
            traffic_class: 0,
            hop_limit: 0,
            // Only the network leads to the peer's connection manager.
            local: false,
        }
    }
}

/// The ports of the devices of this process.
///
/// # Errors
/// Those of [`ports`].
pub fn all() -> Result<Vec<Arc<Port>>> {
    Ok(ports()?.all())
}

/// Whether no interface of this host has an address, with a device or without.
fn is_nowhere(address: IpAddr, scope: u32) -> bool {
    let address = match address {
        IpAddr::V4(v4) => SocketAddr::new(v4.into(), 0),
        IpAddr::V6(v6) => SocketAddrV6::new(v6, 0, 0, scope).into(),
    };
    let bound = datagrams(&address).and_then(|socket| Ok(rustix::net::bind(&socket, &address)?));
    bound == Err(Errno(libc::EADDRNOTAVAIL))
}

/// A UDP socket of the family of an address. It is the kernel's: librspreload replaces the C
/// library's functions, by which the standard library opens sockets.
fn datagrams(address: &SocketAddr) -> Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(
        family,
        SocketType::DGRAM,
        flags,
        None,
    )?)
}

/// The port of an address that an id is bound to.
///
/// # Errors
/// EADDRNOTAVAIL if no interface has the address; ENODEV if it is one without a device.
pub fn own_port(address: IpAddr, scope: u32) -> Result<Arc<Port>> {
    port_of(address, scope).map_err(|error| match error {
        Errno::NODEV if is_nowhere(address, scope) => Errno(libc::EADDRNOTAVAIL),
        other => other,
    })
}

/// The port whose interface has an address.
///
/// # Errors
/// ENODEV if none has it.
pub fn port_of(address: IpAddr, scope: u32) -> Result<Arc<Port>> {
    let has = |port: &Arc<Port>| port.has(address) && (scope == 0 || port.interface() == scope);
    all()?.into_iter().find(has).ok_or(Errno::NODEV)
}

/// The first port that packets can cross, and its first address of a family.
///
/// # Errors
/// ENODEV if there is no port.
pub fn first(is_v4: bool) -> Result<(Arc<Port>, IpAddr)> {
    let found = all()?.into_iter().find_map(|port| {
        let address = port.first_address(is_v4).filter(|_| port.is_active())?;
        Some((port, address))
    });
    found.ok_or(Errno::NODEV)
}

/// The source address of packets to a destination, according to the routes.
///
/// # Errors
/// ENETUNREACH and others of connect(2).
pub fn source_for(destination: SocketAddr) -> Result<IpAddr> {
    const DISCARD: u16 = 9;
    let socket = datagrams(&destination)?;
    let mut to = destination;
    to.set_port(DISCARD);
    // Nothing is sent.
    rustix::net::connect(&socket, &to)?;
    let name = rustix::net::getsockname(&socket)?;
    let name = SocketAddr::try_from(name).map_err(|_| Errno::INVAL)?;
    Ok(name.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_were_written() {
        for text in ["10.1.2.3:7471", "[fd00::1]:9", "[fe80::1%3]:9"] {
            let address: SocketAddr = text.parse().expect("an address");
            let (storage, size) = emit(Some(address));
            assert_eq!(parse(&storage, size), Ok(address));
            assert_eq!(parse(&storage, size - 1), Err(Errno::INVAL));
        }
        assert_eq!(emit(None), ([0; 128], 0));
        assert_eq!(parse(&[0; 128], 16), Err(Errno::INVAL));
    }

    #[test]
    fn a_link_local_address_needs_a_scope() {
        let address: SocketAddr = "[fe80::1]:9".parse().expect("an address");
        let (storage, size) = emit(Some(address));
        assert_eq!(parse(&storage, size), Err(Errno::INVAL));
    }

    #[test]
    fn an_interface_distinguishes_routes_of_equal_addresses() {
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        let route = |text: &str, interface| Route::new(address("::1"), address(text), interface);
        assert_eq!(route("fd00::2", 1), route("fd00::2", 2));
        assert_ne!(route("fe80::2", 1), route("fe80::2", 2));
    }

    #[test]
    fn loopback_is_sent_from_itself() {
        let to: SocketAddr = "127.0.0.1:7471".parse().expect("an address");
        assert_eq!(source_for(to), Ok(to.ip()));
    }
}
