//! The neighbours that ids wait for.

use super::host::Watch;
use crate::device::Port;
use crate::netdev::neighbour::Neighbour;
use kit::own_keys::Map;
use std::net::IpAddr;
use std::sync::Arc;

/// A port and the addresses of both sides.
pub(super) struct Resolved {
    pub port: Arc<Port>,
    pub source: IpAddr,
    pub destination: IpAddr,
}

/// The ids that wait, and the watch of the kernel's notifications as long as there are any.
#[derive(Default)]
pub(super) struct Neighbours {
    pub waiting: Map<u32, Waiting>,
    pub watch: Option<Box<dyn Watch>>,
}

/// What an id waits for.
pub(super) struct Waiting {
    pub neighbour: Neighbour,
    pub found: Resolved,
    pub due: u64,
}

impl Neighbours {
    /// When the time of an id is over.
    pub fn due(&self) -> Option<u64> {
        self.waiting.values().map(|waiting| waiting.due).min()
    }

    /// The ids that a question is true of.
    pub fn those(&self, is_wanted: impl Fn(&Waiting) -> bool) -> Vec<u32> {
        let waiting = self.waiting.iter();
        let wanted = waiting.filter(|(_, waiting)| is_wanted(waiting));
        wanted.map(|(number, _)| *number).collect()
    }
}
