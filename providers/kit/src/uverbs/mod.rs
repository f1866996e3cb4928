#![forbid(unsafe_code)]
//! The kernel command layer: what verbs ask of the kernel's uverbs interface.
//!
//! There are three ways to the kernel: a method of the ioctl interface; a write command carried
//! by that interface; a write command written to the command descriptor. [`try_ioctl`] and
//! [`write`](fn@write) choose among them, in this one place; each command only encodes its arguments and
//! decodes the answer. The commands take the kernel as an argument, so tests run them on a
//! made-up one.

mod destroy;
mod driver;
mod events;
mod path;
mod write;

pub mod ah;
pub mod comp_cntr;
pub mod context;
pub mod counters;
pub mod cq;
pub mod device;
pub mod dm;
pub mod dmah;
pub mod flow;
pub mod flow_action;
pub mod gid;
pub mod mr;
pub mod pd;
pub mod post;
pub mod qp;
pub mod srq;
pub mod wq;

#[cfg(test)]
pub mod fake;
#[cfg(test)]
mod tests;

pub use crate::sys::ioctl::Ioctl;
pub use crate::sys::link::Link;
pub use context::{alloc_async_fd, create_comp_channel};
pub use driver::Driver;
pub use path::{Fallback, Path, add_driver, choose_paths, read_environment, run, try_ioctl};
pub use write::{write, write_into, write_parts};

use events::unless_imported;

use crate::abi::handle::Ctx;
use crate::errno::{Errno, Result};
use crate::sys::write::Request;
use crate::table::Private;
use core::sync::atomic::{AtomicBool, Ordering};

/// Whoever carries commands out: an open context, or a made-up kernel in tests.
pub trait Kernel {
    /// What the library has found out about the kernel behind it.
    fn private(&self) -> &Private;

    /// Calls a method.
    ///
    /// # Errors
    /// The kernel's own errno.
    fn ioctl(&self, call: &mut Ioctl<'_>) -> Result<()>;

    /// Writes a command to the command descriptor.
    ///
    /// # Errors
    /// The kernel's own errno.
    fn write(&self, request: &mut Request<'_>) -> Result<()>;
}

impl Kernel for Ctx<'_> {
    fn private(&self) -> &Private {
        Ctx::private(*self)
    }

    fn ioctl(&self, call: &mut Ioctl<'_>) -> Result<()> {
        call.run(self.cmd_fd()?, Ctx::private(*self).driver_id)
    }

    fn write(&self, request: &mut Request<'_>) -> Result<()> {
        request.send(self.cmd_fd()?)
    }
}

static DISASSOCIATE: AtomicBool = AtomicBool::new(false);

/// Lets the destruction of objects succeed when their device is gone (EIO).
pub fn allow_disassociate(allow: bool) {
    DISASSOCIATE.store(allow, Ordering::Relaxed);
}

/// Whether `e`, the answer to a destroy command, means that the device is gone and that this
/// is to count as success. The kernel then told nothing else, no count of events either.
pub fn gone(e: Errno) -> bool {
    e == Errno::IO && DISASSOCIATE.load(Ordering::Relaxed)
}

/// The answer to a destroy command that tells nothing: [`gone`] is success.
///
/// # Errors
/// Every other error of `answer`.
pub fn destroyed(answer: Result<()>) -> Result<()> {
    answer.or_else(|e| if gone(e) { Ok(()) } else { Err(e) })
}
