//! The provider for soft-iWARP, the iWARP device of the Linux kernel (`siw`), without unsafe code.
//!
//! The kernel's commands create the objects ([`kit::uverbs`]). Queues are arrays shared with the
//! kernel ([`kit::queue::Slots`]), whose entries have a flag that names the owning side.
//!
//! | module | contents |
//! | --- | --- |
//! | `context` | the verbs; most are one command |
//! | `mapped` | queues, each an array from the start of its mapping |
//! | `send`, `receive`, `cq` | requests and completions in the driver's layout, with their flags |
//! | `qp` | the two queues of a queue pair, and the command without requests that notifies the kernel |
//!
//! *Connections* are made by the connection manager, whose kernel side moves a queue pair to RTS.
//! Only the kernel knows whether the queue pair may send. If it refuses the notification
//! (ENOTCONN), the last request is removed and becomes the bad one; the requests before it remain
//! posted, and leave with the next accepted notification.
//!
//! *Notification* is omitted while the kernel has not yet reached the request before the new ones.
//! The first request of a call gets its flag last, so the kernel sees all requests of a call or
//! none.
//!
//! *Refused requests.* Requests that would stop the driver's queue for ever return EINVAL: inline
//! data with an operation other than send and write, a read with more than one element or with a
//! fence. So do operations that the driver reserves for the kernel (local invalidation) or does not
//! have (atomics, immediate data).
//!
//! *Completions* with an unknown opcode or status are `IBV_WC_GENERAL_ERR`. Arming a queue writes a
//! number behind the completions and needs no command.
//!
//! Locks: each queue has a mutex.
//!
//! Tests: `cargo test -p ferroverbs-siw` checks entries in plain memory. In the virtual machine the
//! programs of `guest:siw` run over the C provider and over this one (`guest:siw.rust`).
#![forbid(unsafe_code)]

mod context;
mod cq;
mod mapped;
mod qp;
mod receive;
mod send;

pub use context::Context;

use kit::abi::handle::Driver;
use kit::errno::Result;

/// The provider, as devices are matched with it.
///
/// # Errors
/// None today.
pub fn driver() -> Result<Driver> {
    kit::provider::driver::<Context>()
}
