#![forbid(unsafe_code)]
//! The Ethernet address and VLAN behind a GID: what ibv_resolve_eth_l2_from_gid asks.
//!
//! The interface that owns the source address is where the packet leaves, so its VLAN counts,
//! and the route there says who the next hop is. The next hop's Ethernet address follows from
//! its own address, or stands in the kernel's neighbour table, or gets there when something is
//! sent to it.

mod kernel;
mod mac;
mod message;

pub use kernel::Rtnetlink;

use super::Gid;
use kit::errno::{Errno, Result};
use message::{Link, Route};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An Ethernet address.
pub type Mac = [u8; 6];

/// What stands for "no VLAN".
pub const NO_VLAN: u16 = 0xffff;

/// The way to a GID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
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

    /// The route to `to` by way of the interface.
    ///
    /// # Errors
    /// ENETUNREACH, EHOSTUNREACH, EACCES, EINVAL: there is none, or one that forbids.
    fn route(&mut self, to: IpAddr, interface: u32) -> Result<Route>;

    /// What there is to know of an interface.
    ///
    /// # Errors
    /// ENODEV when it is gone.
    fn link(&mut self, interface: u32) -> Result<Link>;

    /// Has the kernel find the neighbour, and waits for it.
    ///
    /// # Errors
    /// EHOSTUNREACH when there is no answer in time; else the kernel's.
    fn neighbour(&mut self, hop: &Hop) -> Result<Mac>;
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

/// The way from `source`, a GID of this host, to `destination`. `interface` is the one that
/// the source GID belongs to, if the caller knows: an address may be on several.
///
/// # Errors
/// EINVAL when no interface owns the source; EHOSTUNREACH when there is no way, or the
/// neighbour does not answer within three seconds.
pub fn resolve<N: Network>(
    network: &mut N,
    source: &Gid,
    interface: Option<u32>,
    destination: &Gid,
) -> Result<Way> {
    let (source, destination) = (address_of(source), address_of(destination));
    let owner = owner(network, source, interface).map_err(|_| Errno::INVAL)?;
    let mac =
        next_hop(network, source, owner, destination).map_err(|_| Errno(libc::EHOSTUNREACH))?;
    let vlan = network.link(owner).ok().and_then(|link| link.vlan);
    Ok(Way {
        mac,
        vlan: vlan.unwrap_or(NO_VLAN),
    })
}

fn owner<N: Network>(network: &mut N, source: IpAddr, known: Option<u32>) -> Result<u32> {
    let owners = network.owners(source)?;
    let known = known.filter(|interface| owners.contains(interface));
    known.or(owners.first().copied()).ok_or(Errno::NODEV)
}

fn next_hop<N: Network>(
    network: &mut N,
    source: IpAddr,
    interface: u32,
    destination: IpAddr,
) -> Result<Mac> {
    let route = network.route(destination, interface)?;
    if route.forbids() {
        return Err(Errno(libc::ENETUNREACH));
    }
    if route.is_local() {
        return network.link(interface)?.mac.ok_or(Errno::NODEV);
    }
    let address = route.gateway.unwrap_or(destination);
    if let Some(mac) = mac::told_by(address) {
        return Ok(mac);
    }
    network.neighbour(&Hop {
        interface,
        address,
        source,
        destination,
    })
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
