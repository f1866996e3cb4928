//! The parts of a node, shared with its progress thread and its watches.

use super::inbound::sort::Sorter;
use super::outbound::Outbound;
use super::progress::alarm::{self, Alarm};
use super::progress::batches::Batches;
use super::progress::deadlines::Deadlines;
use super::progress::poll::Progress;
use super::progress::watch::Watches;
use super::registry::{Numbers, Table};
use super::teardown::Teardown;
use super::transport::Transport;
use crate::carrier::Carrier;
use crate::carrier::shm::{Directory, Links, complain};
use crate::carrier::udp::{Slot, Sockets, Tools};
use crate::cm::Cm;
use kit::errno::Result;
use kit::sys::fork_guard::ForkGuard;
use std::sync::Arc;

/// A node, but for the thread.
pub(super) struct NodeInner {
    pub guard: ForkGuard,
    pub watches: Arc<Watches>,
    pub progress: Progress,
    pub teardown: Teardown,
}

/// # Errors
/// The error of [`Directory::open`], if no other carrier is allowed.
fn open_directory(slot: &Slot, carrier: Carrier) -> Result<Option<Directory>> {
    let open = |links| Directory::open(slot.registry(), links);
    match carrier {
        Carrier::Udp => Ok(None),
        Carrier::Auto => {
            let opened = open(Links::WhenWorthwhile).inspect_err(|error| {
                complain("processes of this host", *error);
                slot.registry().refuse_rendezvous();
            });
            Ok(opened.ok())
        }
        Carrier::Shm => open(Links::AtOnce).map(Some),
    }
}

/// The system objects of a node.
struct Opened {
    guard: ForkGuard,
    slot: Arc<Slot>,
    sockets: Sockets,
    watches: Arc<Watches>,
    alarm: Alarm,
    directory: Option<Directory>,
}

impl Opened {
    /// Separate from [`NodeInner::assemble`], whose callees need little stack while it needs much
    /// itself: a coroutine that opens a device has little.
    #[inline(never)]
    fn new(carrier: Carrier) -> Result<Self> {
        let slot = Arc::new(Slot::claim(carrier != Carrier::Udp)?);
        let sockets = Sockets::open()?;
        let guard = ForkGuard::new()?;
        let watches = Arc::new(Watches::new(guard)?);
        let alarm = Alarm::new(Arc::clone(&watches), &sockets, &slot)?;
        let directory = open_directory(&slot, carrier)?;
        for socket in directory.iter().flat_map(Directory::sockets) {
            alarm.add(socket, alarm::PEERS)?;
        }
        Ok(Self {
            guard,
            slot,
            sockets,
            watches,
            alarm,
            directory,
        })
    }
}

impl NodeInner {
    pub fn open(tools: Tools, cm: Arc<Cm>) -> Result<Arc<Self>> {
        let opened = Opened::new(tools.carrier)?;
        Ok(Self::assemble(opened, tools, cm))
    }

    #[inline(never)]
    fn assemble(opened: Opened, tools: Tools, cm: Arc<Cm>) -> Arc<Self> {
        let transport = Transport {
            numbers: Numbers::new(opened.slot.number()),
            table: Table::new(),
            only_local: tools.carrier == Carrier::Shm,
            outbound: Outbound::new(opened.sockets, tools),
            deadlines: Deadlines::new(),
            alarm: opened.alarm,
            batches: Batches::new(&opened.watches),
            directory: opened.directory,
            slot: Arc::clone(&opened.slot),
            cm,
        };
        Arc::new(Self {
            guard: opened.guard,
            watches: opened.watches,
            progress: Progress::new(transport, Sorter::new(opened.slot)),
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

    /// The transport from queue pairs to the network and other processes.
    #[inline]
    pub fn transport(&self) -> &Transport {
        &self.progress.transport
    }

    /// Processes of this host that can be reached by shared memory.
    pub fn directory(&self) -> Option<&Directory> {
        self.transport().directory.as_ref()
    }
}
