//! The connection manager of uroce's devices: the counterpart of `rdma_cm` for kernel devices.
//!
//! librdmacm gives it the commands that it gives the kernel's character device ([`kit::cm`]); the
//! messages are those of the InfiniBand specification (`uroce_cm`), between QP 1 of both hosts, so
//! that the peer may be a kernel.
//!
//! | module | contents |
//! | --- | --- |
//! | `state` | [`Cm`], one for each process: channels, ids, the agent, and their lock |
//! | `commands` | the commands, by number |
//! | `bind`, `connect` | ids: addresses, ports and routes; connections and resolutions |
//! | `report` | converts the agent's reports into events |
//! | `host`, `deferred` | the interface to the node; messages that wait |
//! | `inbound` | received messages: for this process, or forwarded to another |
//! | `neighbours`, `awaited` | ids that wait until the kernel knows a neighbour |
//! | `watches`, `peers` | the end of peers on the same host |
//! | `id`, `channel` | an id; an event channel |
//! | `claims` | ports, among the processes of the user |
//! | `lingering` | ports whose listener was closed a moment ago |
//! | `shown` | ids for `uroce-stat` |
//! | `address`, `mad` | socket addresses, routes and devices; datagrams in packets |
//!
//! *Messages of other processes.* All processes of a user share UDP port 4791, so a message may
//! reach the wrong process. Communication ids contain the slot of their process in the upper 10
//! bits; requests are assigned by the port of their service, which is claimed by a name. A process
//! that receives a message for another one forwards it to the socket of that slot, and if that
//! process does not exist, answers as a kernel does.
//!
//! *Threads.* A command runs on the thread that gives it. Messages come in where packets do, by
//! threads that poll and by the progress thread, which also acts on deadlines.
//!
//! *Locks.* One lock, taken after the inbox's. Messages are sent under it, so that they leave in
//! order. Objects whose drop waits for other threads (the node, a watch) are dropped after it is
//! released.
//!
//! *Ends.* At exit every connection sends a DREQ. A process that is killed sends none; peers on the
//! same host see its end, others do not.

mod address;
mod awaited;
mod bind;
mod channel;
mod claims;
mod commands;
mod connect;
mod deferred;
mod host;
mod id;
mod inbound;
mod lingering;
mod mad;
mod neighbours;
mod peers;
mod report;
mod shown;
mod state;
mod watches;

pub use host::{End, Host, Network, Watch};
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
/// ENODEV if the number is unknown, as in a forked child.
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
