//! The provider for soft-iWARP, the iWARP device of the Linux kernel (`siw`).
//!
//! Objects are made by the kernel's commands ([`kit::uverbs`]). Queues are arrays that the kernel
//! shares ([`kit::queue::Slots`]), of entries that say by a flag whose they are; a command without
//! requests tells the kernel that a send queue has new ones. Connections are made by the
//! connection manager, which moves queue pairs to RTS in the kernel.
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
