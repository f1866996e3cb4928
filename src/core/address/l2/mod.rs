#![forbid(unsafe_code)]
//! The Ethernet address and VLAN behind a GID (`ibv_resolve_eth_l2_from_gid`).
//!
//! The packet leaves through the interface that owns the source address, so that interface's VLAN
//! applies; if several interfaces own it, the one that the GID table names. The route from there
//! gives the next hop. The next hop's Ethernet address follows from its own address, or is in the
//! kernel's neighbour table, or enters that table after a packet was sent.
//!
//! The decisions are made over a trait ([`Network`]); [`Rtnetlink`] implements it with single
//! requests to routing netlink (owners of an address, one route, one link, one interface's
//! neighbours), never a dump of the routing table. An unknown neighbour is provoked by datagrams to
//! UDP port 9, at most eleven in three seconds, while notifications of the neighbour table are
//! read. A signal does not shorten the wait.
//!
//! Tests: `cargo test -p ferroverbs --lib l2`; as root also in network namespaces, with a VLAN
//! where the kernel supports them.

mod kernel;
mod mac;
mod message;

pub use kernel::{Rtnetlink, Search};
pub use mac::Mac;

use super::Gid;
use kit::errno::{Errno, Result};
use message::{Link, Route};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The value for "no VLAN".
pub const NO_VLAN: u16 = 0xffff;

/// The next hop to a GID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// Ethernet address of the next hop.
    pub mac: Mac,
    /// VLAN of the interface, [`NO_VLAN`] when it has none.
    pub vlan: u16,
}

/// The kernel's view of the network. Tests bring a made-up one.
pub trait Network {
    /// The interfaces that own an address, in the kernel's order.
    ///
    /// # Errors
    /// The kernel's.
    fn owners(&mut self, address: IpAddr) -> Result<Vec<u32>>;

    /// The route to `to` through the interface.
    ///
    /// # Errors
    /// ENETUNREACH, EHOSTUNREACH, EACCES, EINVAL: there is no route, or one that forbids.
    fn route(&mut self, to: IpAddr, interface: u32) -> Result<Route>;

    /// The attributes of an interface.
    ///
    /// # Errors
    /// ENODEV when it is gone.
    fn link(&mut self, interface: u32) -> Result<Link>;

    /// The neighbour, if its Ethernet address is known.
    ///
    /// # Errors
    /// The kernel's.
    fn neighbour(&mut self, hop: &Hop) -> Result<Option<Mac>>;
}

/// A neighbour that is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The interface that it is behind.
    pub interface: u32,
    /// Its address.
    pub address: IpAddr,
    /// The address of this host that asks.
    pub source: IpAddr,
    /// The address that the packet is for in the end.
    pub destination: IpAddr,
}

/// What the kernel knows of a next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Known(NextHop),
    /// A neighbour whose Ethernet address has to be searched for, and the VLAN.
    Unknown(Hop, u16),
}

/// The next hop from `source`, a GID of this host, to `destination`. `interface` is the one that
/// the source GID belongs to, if the caller knows: an address may be on several.
///
/// # Errors
/// EINVAL when no interface owns the source; EHOSTUNREACH when there is no route.
pub fn resolve<N: Network>(
    network: &mut N,
    source: &Gid,
    interface: Option<u32>,
    destination: &Gid,
) -> Result<Found> {
    let (source, destination) = (address_of(source), address_of(destination));
    let owner = owner(network, source, interface).map_err(|_| Errno::INVAL)?;
    let mac = next_hop(network, source, owner, destination).map_err(unreachable)?;
    let vlan = network.link(owner).ok().and_then(|link| link.vlan);
    let vlan = vlan.unwrap_or(NO_VLAN);
    Ok(match mac {
        Ok(mac) => Found::Known(NextHop { mac, vlan }),
        Err(hop) => Found::Unknown(hop, vlan),
    })
}

/// The failure of a search, whatever its cause.
fn unreachable(_: Errno) -> Errno {
    Errno(libc::EHOSTUNREACH)
}

fn owner<N: Network>(network: &mut N, source: IpAddr, known: Option<u32>) -> Result<u32> {
    let owners = network.owners(source)?;
    let known = known.filter(|interface| owners.contains(interface));
    known.or(owners.first().copied()).ok_or(Errno::NODEV)
}

/// The Ethernet address, or the neighbour that has to be searched for.
fn next_hop<N: Network>(
    network: &mut N,
    source: IpAddr,
    interface: u32,
    destination: IpAddr,
) -> Result<std::result::Result<Mac, Hop>> {
    let route = network.route(destination, interface)?;
    if route.forbids() {
        return Err(Errno(libc::ENETUNREACH));
    }
    if route.is_local() {
        return network.link(interface)?.mac.map(Ok).ok_or(Errno::NODEV);
    }
    let address = route.gateway.unwrap_or(destination);
    if let Some(mac) = mac::of_link_local(address) {
        return Ok(Ok(mac));
    }
    let hop = Hop {
        interface,
        address,
        source,
        destination,
    };
    Ok(network.neighbour(&hop)?.ok_or(hop))
}

/// The IP address that a GID is. IPv4 multicast groups have GIDs below `ff0e::ffff:0:0`, all
/// other IPv4 addresses are mapped.
fn address_of(gid: &Gid) -> IpAddr {
    const GROUPS: [u8; 12] = [0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
    let [.., a, b, c, d] = *gid;
    let address = Ipv6Addr::from(*gid);
    if address.to_ipv4_mapped().is_some() || gid.starts_with(&GROUPS) {
        return Ipv4Addr::new(a, b, c, d).into();
    }
    address.into()
}

#[cfg(test)]
mod tests;
