//! The parts of a node, shared with its progress thread and with what it watches.

use super::fork_guard::ForkGuard;
use super::inbound::sort::Sorter;
use super::outbound::Outbound;
use super::progress::alarm::{self, Alarm};
use super::progress::deadlines::Deadlines;
use super::progress::poll::Progress;
use super::progress::watch::Watches;
use super::registry::{Numbers, Table};
use super::teardown::Teardown;
use super::transport::Transport;
use crate::carrier::Carrier;
use crate::carrier::shm::{Directory, complain};
use crate::carrier::udp::{Slot, Sockets, Tools};
use crate::cm::Cm;
use kit::errno::Result;
use std::sync::Arc;

/// A node, but for the thread.
pub(super) struct NodeInner {
    pub guard: ForkGuard,
    pub watches: Arc<Watches>,
    pub progress: Progress,
    pub teardown: Teardown,
}

/// # Errors
/// What [`Directory::open`] answers, if there shall be no other way.
fn open_directory(slot: &Slot, carrier: Carrier) -> Result<Option<Directory>> {
    let open = || Directory::open(slot.registry());
    match carrier {
        Carrier::Udp => Ok(None),
        Carrier::Auto => {
            let opened = open().inspect_err(|error| {
                complain("processes of this host", *error);
                slot.registry().refuse_rendezvous();
            });
            Ok(opened.ok())
        }
        Carrier::Shm => open().map(Some),
    }
}

impl NodeInner {
    pub fn open(tools: Tools, cm: Arc<Cm>) -> Result<Self> {
        let slot = Arc::new(Slot::claim(tools.carrier != Carrier::Udp)?);
        let sockets = Sockets::open()?;
        let guard = ForkGuard::new()?;
        let watches = Arc::new(Watches::new(guard)?);
        let alarm = Alarm::new(Arc::clone(&watches), &sockets, &slot)?;
        let only_local = tools.carrier == Carrier::Shm;
        let directory = open_directory(&slot, tools.carrier)?;
        for socket in directory.iter().flat_map(Directory::sockets) {
            alarm.add(socket, alarm::PEERS)?;
        }
        let transport = Transport {
            numbers: Numbers::new(slot.number()),
            table: Table::new(),
            outbound: Outbound::new(sockets, tools),
            deadlines: Deadlines::new(),
            alarm,
            directory,
            only_local,
            slot: Arc::clone(&slot),
            cm,
        };
        Ok(Self {
            guard,
            watches,
            progress: Progress::new(transport, Sorter::new(slot)),
            teardown: Teardown::new(),
        })
    }

    /// Whether this is the process that made the node.
    ///
    /// # Errors
    /// ENODEV in a forked child.
    pub fn here(&self) -> Result<()> {
        self.guard.here()
    }

    /// What leads from queue pairs to the rest of the world.
    #[inline]
    pub fn transport(&self) -> &Transport {
        &self.progress.transport
    }

    /// Processes of this host that can be reached by shared memory.
    pub fn directory(&self) -> Option<&Directory> {
        self.transport().directory.as_ref()
    }
}
