#![forbid(unsafe_code)]
//! Providers for devices that have a driver in the kernel.

use super::{Commands, Provider};
use crate::errno::Result;
use bytemuck::Pod;
use core::ffi::CStr;
use core::ops::RangeInclusive;

/// A provider for the devices of a kernel driver. [`super::driver`] makes the table of it that
/// devices are matched with.
///
/// The context comes from the kernel before the provider is asked, channels and events are the
/// kernel's: of the library's own code nothing differs from a context that a C provider made.
pub trait KernelProvider: Provider {
    /// The provider's name, in messages and in the setting that prefers one of two.
    const NAME: &'static CStr;
    /// The kernel driver: `enum rdma_driver_id`.
    const DRIVER: u32;
    /// Devices by name, for kernels that do not report the driver: a shell pattern on
    /// `rdma_device:N<name>`.
    const DEVICES: &'static CStr;
    /// Versions of the driver's user ABI that the provider speaks. A device of another version is
    /// not taken, which is logged.
    const ABI: RangeInclusive<u32>;

    /// The driver's response to the command that makes a context, after the kernel's part; `()`
    /// without one. A driver that has a response refuses a command without room for it.
    type Answer: Pod;

    /// Makes the provider's value for a context that has just been opened. `comp_vectors` and
    /// `answer` are the kernel's.
    ///
    /// # Errors
    /// That of ibv_open_device(3); the kernel's context is closed again.
    fn open(kernel: Commands, comp_vectors: u32, answer: Self::Answer) -> Result<Self>;
}

/// An object of which C shows the number.
pub enum Numbered<'a, P: Provider> {
    /// Protection domain.
    Pd(&'a P::Pd),
    /// Memory region.
    Mr(&'a P::Mr),
    /// Memory window.
    Mw(&'a P::Mw),
    /// Completion queue.
    Cq(&'a P::Cq),
    /// Shared receive queue.
    Srq(&'a P::Srq),
    /// Queue pair.
    Qp(&'a P::Qp),
    /// Address handle.
    Ah(&'a P::Ah),
}
