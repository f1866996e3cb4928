//! The provider for soft-RoCE, the RoCE v2 device of the Linux kernel (`rdma_rxe`), without unsafe
//! code.
//!
//! The kernel's commands create the objects ([`kit::uverbs`]). Work and completion queues are rings
//! shared with the kernel ([`kit::queue`]), and a command without requests notifies the kernel of
//! new requests in a send queue. docs/write-a-provider.md walks through this crate.
//!
//! | module | contents |
//! | --- | --- |
//! | `context` | the verbs; most are one command |
//! | `mapped` | where the driver puts sizes, indices and entries (`struct rxe_queue_buf`) |
//! | `send`, `receive`, `cq` | requests and completions in the driver's layout |
//! | `qp` | the two rings of a queue pair |
//!
//! *Refused requests.* The driver does not check some requests: an opcode beyond its table, an
//! atomic operation at an unaligned address. They are EINVAL here. A request in a state in which
//! the kernel would refuse it is EINVAL too and does not enter the ring.
//!
//! *Limits.* A resized queue is mapped again; if that fails, the next call on the queue retries.
//! Address handles need the kernel's numbers, which exist since Linux 5.16; on older kernels
//! `ibv_create_ah` is EOPNOTSUPP and the log names the cause. The driver has no XRC domains, flow
//! rules or time stamps, so the provider has none.
//!
//! Tests: `cargo test -p ferroverbs-rxe` checks entries in plain memory. In the virtual machine,
//! rdma-core's tests, the pingpongs and the C programs run over this provider
//! (`guest:pyverbs.rust`, `guest:pingpong.rust`, `guest:c-tests.rust`) against the expectations of
//! the C provider; `xtask/expected/c-tests.rust.diff` lists the accepted differences with reasons.
#![forbid(unsafe_code)]

mod context;
mod cq;
mod mapped;
mod objects;
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
