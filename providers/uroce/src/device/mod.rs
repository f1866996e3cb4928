//! Devices and their one port each, which follow a network interface.

mod follower;
mod gids;
mod guid;
mod link;
mod ports;

pub use follower::Follower;
pub use gids::PLACES;
pub use guid::of as guid;
pub use ports::{Ports, ports};

use crate::netdev::Interface;
use gids::Gids;
use kit::abi::kernel::IB_UVERBS_QPF_GRH_REQUIRED;
use kit::abi::*;
use kit::errno::{Errno, Result};
use link::Link;
use parking_lot::{Mutex, RwLock};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Weak};
use uroce_engine::qp::Mtu;

/// Number of the one port.
pub const NUMBER: u8 = 1;
/// The one entry of the P_Key table: the default partition, full member.
pub const PKEY: u16 = 0xffff;

/// Whom a port tells its events: `IBV_EVENT_PORT_ACTIVE`, `IBV_EVENT_PORT_ERR`,
/// `IBV_EVENT_GID_CHANGE`, and `IBV_EVENT_DEVICE_FATAL` when the interface is gone for good.
pub type Listener = dyn Fn(ibv_event_type) + Send + Sync;

/// The port of a device: one a process and interface, shared by all contexts on it.
pub struct Port {
    name: String,
    interface: u32,
    guid: u64,
    state: RwLock<State>,
    listeners: Mutex<Vec<Weak<Listener>>>,
}

#[derive(Default)]
struct State {
    link: Link,
    gids: Gids,
    gone: bool,
}

impl State {
    /// Takes in what the interface is now; none when it is gone. Answers the events.
    fn follow(&mut self, interface: Option<&Interface>) -> Vec<ibv_event_type> {
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

impl Port {
    /// The port of an interface.
    #[must_use]
    pub fn new(interface: &Interface) -> Self {
        let mut state = State::default();
        state.follow(Some(interface));
        Self {
            name: interface.name.clone(),
            interface: interface.index,
            guid: guid::of(interface),
            state: RwLock::new(state),
            listeners: Mutex::default(),
        }
    }

    /// Name of the interface when the device was found.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Index of the interface.
    #[must_use]
    pub fn interface(&self) -> u32 {
        self.interface
    }

    /// Node GUID, system image GUID.
    #[must_use]
    pub fn guid(&self) -> be64 {
        be64::new(self.guid)
    }

    /// The MTU of new queue pairs, and the largest of all.
    #[must_use]
    pub fn mtu(&self) -> Mtu {
        self.state.read().link.mtu()
    }

    /// Whether the interface is gone for good.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.state.read().gone
    }

    /// Whether an address is one of the interface's.
    #[must_use]
    pub fn has(&self, address: IpAddr) -> bool {
        self.state.read().gids.has(address)
    }

    /// The address that a GID index stands for.
    ///
    /// # Errors
    /// EINVAL for an empty place, and beyond the end of the table.
    pub fn address(&self, index: u32) -> Result<IpAddr> {
        self.state.read().gids.at(index).ok_or(Errno::INVAL)
    }

    /// ibv_query_port_speed(3).
    pub fn speed(&self) -> u64 {
        ports::look_unless_followed();
        self.state.read().link.speed()
    }

    /// Fills what the port knows of ibv_query_port(3), which is all but `max_msg_sz`; the rest
    /// is zero for Ethernet and left alone.
    pub fn query(&self, attr: &mut ibv_port_attr) {
        ports::look_unless_followed();
        let link = self.state.read().link;
        (attr.state, attr.phys_state) = link.state();
        (attr.active_width, attr.active_speed) = link.width_and_speed();
        attr.active_speed_ex = attr.active_speed.into();
        attr.max_mtu = link::code(Mtu::B4096);
        attr.active_mtu = link::code(link.mtu());
        attr.gid_tbl_len = PLACES.try_into().unwrap_or(0);
        attr.pkey_tbl_len = 1;
        attr.max_vl_num = 1;
        attr.port_cap_flags = IBV_PORT_IP_BASED_GIDS;
        attr.link_layer = IBV_LINK_LAYER_ETHERNET.try_into().unwrap_or(0);
        attr.flags = IB_UVERBS_QPF_GRH_REQUIRED.try_into().unwrap_or(0);
    }

    /// ibv_query_gid_ex(3).
    ///
    /// # Errors
    /// EINVAL for another port than 1 and beyond the end of the table; ENODATA for an empty place.
    pub fn gid_entry(&self, port: u32, index: u32) -> Result<ibv_gid_entry> {
        if port != u32::from(NUMBER) || index >= PLACES {
            return Err(Errno::INVAL);
        }
        ports::look_unless_followed();
        let address = self.state.read().gids.at(index).ok_or(Errno::NODATA)?;
        Ok(self.entry(index, address))
    }

    /// ibv_query_gid_table(3): the places in use.
    #[must_use]
    pub fn gid_table(&self) -> Vec<ibv_gid_entry> {
        ports::look_unless_followed();
        let state = self.state.read();
        let places = state.gids.in_use();
        places
            .map(|(index, address)| self.entry(index, address))
            .collect()
    }

    fn entry(&self, index: u32, address: IpAddr) -> ibv_gid_entry {
        ibv_gid_entry {
            gid: gid_of(address),
            gid_index: index,
            port_num: NUMBER.into(),
            gid_type: IBV_GID_TYPE_ROCE_V2,
            ndev_ifindex: self.interface,
        }
    }

    /// The P_Key at a place of the table.
    ///
    /// # Errors
    /// EINVAL for another port than 1 or place than 0.
    pub fn pkey(&self, port: u8, index: u32) -> Result<be16> {
        if (port, index) != (NUMBER, 0) {
            return Err(Errno::INVAL);
        }
        Ok(be16::new(PKEY))
    }

    /// Tells events from here on, as long as the answer is kept. No lock of the port is held
    /// while `tell` runs; it must not wait.
    #[must_use]
    pub fn subscribe(
        &self,
        tell: impl Fn(ibv_event_type) + Send + Sync + 'static,
    ) -> Arc<Listener> {
        let listener: Arc<Listener> = Arc::new(tell);
        let mut listeners = self.listeners.lock();
        listeners.retain(|known| known.strong_count() > 0);
        listeners.push(Arc::downgrade(&listener));
        listener
    }

    /// Takes in what there is of the interface now, and tells the events. The caller sees to it
    /// that calls come one after the other.
    fn follow(&self, interface: Option<&Interface>) {
        let events = self.state.write().follow(interface);
        if events.is_empty() {
            return;
        }
        let listeners = self.listeners.lock().clone();
        let living = || listeners.iter().filter_map(Weak::upgrade);
        for event in events {
            living().for_each(|tell| tell(event));
        }
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

#[cfg(test)]
mod tests;
