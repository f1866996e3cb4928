//! The provider for soft-RoCE, the RoCE v2 device of the Linux kernel (`rdma_rxe`).
//!
//! Objects are made by the kernel's commands ([`kit::uverbs`]); work and completion queues are
//! rings that the kernel shares ([`kit::queue`]), and a command without requests tells it that a
//! send queue has new ones. `docs/write-a-provider.md` walks through it.
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
