//! The port of a device.

use super::gids::PLACES;
use super::state::{CAPABILITIES, NUMBER, PKEY, State, gid_of};
use super::{guid, link, shown};
use crate::files::{Contents, Tree};
use crate::netdev::Interface;
use kit::abi::kernel::IB_UVERBS_QPF_GRH_REQUIRED;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::sync::{Mutex, RwLock};
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use uroce_engine::qp::Mtu;

/// Receives the events of a port: `IBV_EVENT_PORT_ACTIVE`, `IBV_EVENT_PORT_ERR`,
/// `IBV_EVENT_GID_CHANGE`, and `IBV_EVENT_DEVICE_FATAL` when the interface is gone for good.
pub type Listener = dyn Fn(ibv_event_type) + Send + Sync;

/// The port of a device: one a process and interface, shared by all contexts on it.
pub struct Port {
    name: String,
    interface: u32,
    guid: u64,
    pub(super) state: RwLock<State>,
    listeners: Mutex<Vec<Weak<Listener>>>,
    /// The files that show it, as long as the device is listed.
    files: Mutex<Weak<Tree>>,
    /// Reads the interface's present state, unless a [`Follower`](super::Follower) does: called
    /// before a query is answered.
    refresh: fn(),
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
            files: Mutex::default(),
            refresh: || (),
        }
    }

    /// The same, brought up to date by `refresh` before it is queried.
    #[must_use]
    pub(super) fn refreshed_by(self, refresh: fn()) -> Self {
        Self { refresh, ..self }
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

    /// The same as `enum ibv_mtu` has it.
    #[must_use]
    pub fn mtu_code(&self) -> u8 {
        u8::try_from(link::code(self.mtu())).unwrap_or(0)
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

    /// The first address of a family in the GID table.
    #[must_use]
    pub fn first_address(&self, is_v4: bool) -> Option<IpAddr> {
        let state = self.state.read();
        let mut addresses = state.gids.in_use().map(|(_, address)| address);
        addresses.find(|address| address.is_ipv4() == is_v4)
    }

    /// Whether packets can cross the interface.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.state.read().link.is_active()
    }

    /// Whether the kernel resolves addresses of neighbours ([`Interface::has_neighbours`]).
    #[must_use]
    pub fn has_neighbours(&self) -> bool {
        self.state.read().link.has_neighbours()
    }

    /// The address at a GID index.
    ///
    /// # Errors
    /// ENODATA for an empty place, and beyond the end of the table.
    pub fn address(&self, index: u32) -> Result<IpAddr> {
        self.state.read().gids.at(index).ok_or(Errno::NODATA)
    }

    /// ibv_query_port_speed(3).
    pub fn speed(&self) -> u64 {
        (self.refresh)();
        self.state.read().link.speed()
    }

    /// Fills in the port's part of ibv_query_port(3), which is all but `max_msg_sz`; the rest is
    /// zero for Ethernet and left unchanged.
    pub fn query(&self, attr: &mut ibv_port_attr) {
        (self.refresh)();
        let link = self.state.read().link;
        (attr.state, attr.phys_state) = link.state();
        (attr.active_width, attr.active_speed) = link.width_and_speed();
        attr.active_speed_ex = attr.active_speed.into();
        attr.max_mtu = link::code(Mtu::B4096);
        attr.active_mtu = link::code(link.mtu());
        attr.gid_tbl_len = PLACES.try_into().unwrap_or(0);
        attr.pkey_tbl_len = 1;
        attr.max_vl_num = 1;
        attr.port_cap_flags = CAPABILITIES;
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
        (self.refresh)();
        let address = self.state.read().gids.at(index).ok_or(Errno::NODATA)?;
        Ok(self.entry(index, address))
    }

    /// ibv_query_gid_table(3): the places in use.
    #[must_use]
    pub fn gid_table(&self) -> Vec<ibv_gid_entry> {
        (self.refresh)();
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

    /// Reports events from now on, as long as the result is kept. No lock of the port is held while
    /// the listener runs; it must not wait.
    #[must_use]
    pub fn subscribe(
        &self,
        report: impl Fn(ibv_event_type) + Send + Sync + 'static,
    ) -> Arc<Listener> {
        let listener: Arc<Listener> = Arc::new(report);
        let mut listeners = self.listeners.lock();
        listeners.retain(|known| known.strong_count() > 0);
        listeners.push(Arc::downgrade(&listener));
        listener
    }

    /// Shows the device of that name in files, which follow the port until the answer is dropped.
    ///
    /// # Errors
    /// ENAMETOOLONG for a path that C has no room for; why this process has no place for files.
    pub fn show(&self, name: &str) -> Result<Arc<Tree>> {
        let mut files = self.files.lock();
        let tree = match Tree::new(name, self.contents()) {
            // An application still has the device of an interface that had this one's name.
            Err(Errno(libc::EEXIST)) => {
                Tree::new(&format!("{name}.{}", self.interface), self.contents())
            }
            made => made,
        };
        let tree = Arc::new(tree?);
        *files = Arc::downgrade(&tree);
        Ok(tree)
    }

    fn contents(&self) -> Contents {
        let state = &*self.state.read();
        let shown = shown::Shown {
            interface: &self.name,
            guid: self.guid,
            state,
        };
        shown.contents()
    }

    /// Adopts the interface's present state, and reports the events. The caller has to serialize
    /// the calls.
    pub(super) fn follow(&self, interface: Option<&Interface>) {
        let (events, changed) = {
            let mut state = self.state.write();
            let before = state.link;
            let events = state.follow(interface);
            let changed = before != state.link || !events.is_empty();
            (events, changed)
        };
        let files = self.files.lock();
        if changed && let Some(files) = files.upgrade() {
            // If they cannot be written, the files keep their contents.
            let _ = files.update(self.contents());
        }
        drop(files);
        if events.is_empty() {
            return;
        }
        let listeners = self.listeners.lock().clone();
        let living = || listeners.iter().filter_map(Weak::upgrade);
        for event in events {
            living().for_each(|report| report(event));
        }
    }
}
