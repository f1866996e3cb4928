//! The state of a port: its derivation from the interface, and the events of a change.
#![forbid(unsafe_code)]

use super::gids::Gids;
use super::link::Link;
use crate::netdev::Interface;
use kit::abi::*;
use std::net::{IpAddr, Ipv6Addr};

/// `port_cap_flags`: as kernel drivers have it for Ethernet.
pub(super) const CAPABILITIES: ibv_port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;

/// Number of the one port.
pub const NUMBER: u8 = 1;
/// The one entry of the P_Key table: the default partition, full member.
pub const PKEY: u16 = 0xffff;

/// The state of a port, as its interface was when it was looked at last.
#[derive(Default)]
pub struct State {
    /// The attributes that follow from the link.
    pub link: Link,
    /// The GID table.
    pub gids: Gids,
    /// The interface is gone, for good.
    pub gone: bool,
}

impl State {
    /// Updates the state from the interface; none when it was removed. Returns the events.
    pub fn follow(&mut self, interface: Option<&Interface>) -> Vec<ibv_event_type> {
        if self.gone {
            return Vec::new();
        }
        let Some(interface) = interface else {
            *self = Self {
                gone: true,
                ..Self::default()
            };
            return vec![IBV_EVENT_DEVICE_FATAL];
        };
        let was_active = self.link.is_active();
        self.link = Link::of(interface);
        let gids_changed = self.gids.follow(&interface.addresses);
        let port = match (was_active, self.link.is_active()) {
            (false, true) => Some(IBV_EVENT_PORT_ACTIVE),
            (true, false) => Some(IBV_EVENT_PORT_ERR),
            _ => None,
        };
        let gids = gids_changed.then_some(IBV_EVENT_GID_CHANGE);
        gids.into_iter().chain(port).collect()
    }
}

/// The GID of an address: that of IPv4 is mapped into IPv6.
#[must_use]
pub fn gid_of(address: IpAddr) -> ibv_gid {
    let address: Ipv6Addr = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    ibv_gid {
        raw: address.octets(),
    }
}
