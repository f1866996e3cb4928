//! The connection manager of uroce's devices: what `rdma_cm` is for devices of the kernel.
//!
//! librdmacm gives it the commands that it gives the kernel's character device ([`kit::cm`]); the
//! messages are those of the InfiniBand specification (`uroce_cm`), between QP 1 of both hosts, so
//! that the peer may be a kernel.
//!
//! | module | contents |
//! | --- | --- |
//! | `state` | [`Cm`], of which a process has one: channels, ids, the agent, and their lock |
//! | `commands` | the commands, by number |
//! | `bind`, `connect` | ids: addresses, ports and routes; connections and resolutions |
//! | `report` | what the agent reports becomes events |
//! | `host`, `deferred` | what is asked of the node; messages that wait |
//! | `inbound` | messages on their way in: to this process, or to the one that they are for |
//! | `id`, `channel` | an id; an event channel |
//! | `claims` | ports, among the processes of the user |
//! | `address`, `mad` | socket addresses, ways and devices; datagrams in packets |
//!
//! *Messages of other processes.* All processes of a user share UDP port 4791, so a message may
//! reach the wrong process. Communication ids have the slot of their process in the upper 10 bits;
//! requests go by the port of their service, which is claimed by a name. A process that reads a
//! message for another one hands it on to the socket of that slot, and answers as a kernel does if
//! there is none.
//!
//! *Threads.* A command runs on the thread that gives it. Messages come in where packets do, by
//! threads that poll and by the progress thread, which also acts on deadlines.
//!
//! *Locks.* One lock, taken after the inbox's. Messages are sent under it, so that they leave in
//! order. What waits for other threads when it is dropped (the node, a watch) is dropped after it.
//!
//! *Ends.* At exit every connection sends a DREQ. A process that is killed sends none; peers on the
//! same host see its end, others do not.

mod address;
mod bind;
mod channel;
mod claims;
mod commands;
mod connect;
mod deferred;
mod host;
mod id;
mod inbound;
mod mad;
mod report;
mod state;

pub use host::{Host, Network};
pub use mad::{LEN as MAD, QPN, headers};
pub use state::{Cm, OpenNode};

use kit::errno::{Errno, Result};
use kit::sys::per_process::PerProcess;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A forked child begins without channels and ids.
static CM: PerProcess<OfProcess> = PerProcess::new();

struct OfProcess(Arc<Cm>);

impl Default for OfProcess {
    fn default() -> Self {
        Self(Cm::new())
    }
}

/// The connection manager of this process.
///
/// # Errors
/// ENOMEM at the first call.
pub fn of_process() -> Result<Arc<Cm>> {
    Ok(Arc::clone(&CM.get()?.0))
}

/// Opens an event channel: its number, and a descriptor that can be read as long as an event waits.
/// The ids of the channel open the node of the process by `node`.
///
/// # Errors
/// ENODEV if no device of uroce was listed; EMFILE, ENFILE, ENOMEM.
pub fn open(node: OpenNode) -> Result<(u32, OwnedFd)> {
    if address::all()?.is_empty() {
        return Err(Errno::NODEV);
    }
    of_process()?.open(node)
}

/// Closes a channel, and ends its ids.
///
/// # Errors
/// ENODEV if there is none of that number, as in a forked child.
pub fn close(channel: u32) -> Result<()> {
    of_process()?.close(channel)
}

/// Gives a channel a command ([`kit::cm::Table::ask`]).
///
/// # Errors
/// Those of the kernel's; ENODEV if there is no channel of that number, as in a forked child.
pub fn ask(channel: u32, number: u32, command: &[u8], response: &mut [u8]) -> Result<()> {
    of_process()?.ask(channel, number, command, response)
}
