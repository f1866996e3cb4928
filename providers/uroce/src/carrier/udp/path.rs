//! The path of a packet through the network.

use std::net::IpAddr;

/// Where packets go. The UDP source port is the carrier's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Where from, an address of this host.
    pub source: IpAddr,
    /// Where to, of the same family.
    pub destination: IpAddr,
    /// The outgoing interface (its index); 0 for the route's. Link-local addresses and multicast
    /// need it.
    pub interface: u32,
    /// Traffic class, or type of service.
    pub traffic_class: u8,
    /// Hop limit, or time to live; 0: the system's own.
    pub hop_limit: u8,
    /// The destination is an address of this host.
    pub local: bool,
}
