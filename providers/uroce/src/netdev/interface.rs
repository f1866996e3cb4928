//! A network interface, as a value.

use std::net::IpAddr;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its index, never used again in the same namespace while the system runs.
    pub index: u32,
    /// Bytes of the largest packet, IP header included.
    pub mtu: u32,
    /// Its Ethernet address; none if it has none, or one of all zeros.
    pub mac: Option<Mac>,
    /// It has been set up.
    pub up: bool,
    /// It is up and has a carrier.
    pub running: bool,
    /// Its packets are sent to an address of the link, which the kernel asks the neighbour for
    /// (ARP, NDP).
    pub has_neighbours: bool,
    /// Megabits a second, where it is known.
    pub speed: Option<u32>,
    /// The addresses that can be sent from, each once: those of IPv4, then of IPv6, those that
    /// reach further first.
    pub addresses: Vec<IpAddr>,
}
