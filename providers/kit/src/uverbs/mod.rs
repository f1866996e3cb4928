#![forbid(unsafe_code)]
//! The kernel command layer: the commands of verbs to the kernel's uverbs interface. [`crate::sys`]
//! executes them.
//!
//! A command reaches the kernel in one of three ways:
//! 1. a method of the ioctl interface, with attributes ([`Ioctl`]);
//! 2. a write command carried by the ioctl interface (`UVERBS_METHOD_INVOKE_WRITE`);
//! 3. a write command written to the command descriptor ([`crate::sys::write::Request`]).
//!
//! *Choosing.* [`choose_paths`] asks a new context's kernel once whether it has way 2. A command
//! that has a method calls [`try_ioctl`]. If the kernel answers ENOTTY (no ioctl interface) or
//! EPROTONOSUPPORT (the method, or a mandatory attribute, is missing), the context remembers that
//! by the verb's slot, and the result is [`Path::Write`], [`Path::WriteEx`] or EOPNOTSUPP,
//! depending on the command's [`Fallback`] and the provider's own attributes. Every other errno is
//! the result of the command. [`write`](fn@write) takes way 2 or 3. `IBVERBS_FORCE_WRITE=1` treats
//! every method as refused from the opening of the context, so all commands with a write form take
//! way 3. Methods without one (device memory, counters, advice, memory queries) are still called.
//!
//! *Encoding.* A write command is identified by its kernel structure: `sys::command::WriteCommand`
//! ties the structure to number, kind and response type. One function fills in the header, the word
//! counts and the address of the response. A method call is a list of attributes; each borrows its
//! input or output for as long as the call exists, so the kernel only accesses live memory. Input
//! of up to 8 bytes is stored inside the attribute; more than 65535 bytes is EINVAL.
//!
//! *Driver data.* [`Driver`] is the data that a provider passes with the command: two buffers in
//! the form of the write interface, or a chain of attributes ([`Link`]). On every way, driver data
//! is read from and written to the provider's memory, and a written command is assembled in the
//! provider's buffers, so the provider reads the kernel's response there. If a buffer has too
//! little room at its front, the command is assembled elsewhere and the driver's response is copied
//! back.
//!
//! *Interruption.* A call that a signal interrupts (EINTR) is issued again: the kernel undoes the
//! work of a failed command. *Removal.* With `verbs_allow_disassociate_destroy` set, EIO from a
//! destroy command means that the device was removed and counts as success ([`gone`]).
//!
//! Tests: commands take the kernel as an argument ([`Kernel`]); `fake` is one that records the
//! commands.

mod destroy;
mod driver;
mod events;
mod kernel;
mod path;
mod removal;
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
pub use kernel::Kernel;
pub use path::{
    Fallback, Path, add_driver, choose_paths, read_environment, run, try_ioctl, try_ioctl_here,
};
pub use removal::{allow_disassociate, destroyed, gone};
pub use write::{write, write_into, write_parts};

use events::unless_imported;
