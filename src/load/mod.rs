#![forbid(unsafe_code)]
//! Providers: finding them, loading them, and matching them to devices.
//!
//! - [`built_in`]: rxe and siw, which are part of the library and tried first.
//!   `IBVERBS_PREFER_PLUGIN` names those that are tried last, after every provider that can be
//!   loaded (`rxe`, several separated by `:` or `;`, or `all`).
//! - `plugins`: loads providers in C. Nothing is loaded while every device has a provider.
//!   Otherwise the library loads the providers of `RDMAV_DRIVERS`, or else of `IBV_DRIVERS`
//!   (separated by `:` or `;`; both ignored in set-user-ID programs), then those of the lines
//!   `driver NAME` in /etc/libibverbs.d. Each provider is loaded once in the life of the process
//!   and never unloaded, because its tables stay registered.
//! - `foreign`: providers of rdma-core that serve other kernel drivers than those of the present
//!   devices. They are skipped at first and loaded only if a device still has no provider, so that
//!   a machine with one kind of card loads one provider instead of seventeen.
//! - [`drivers`]: the providers that have registered, in order of registration.
//! - [`matching`]: chooses the provider of a device. Providers whose table names the kernel driver
//!   come first, then all in order of registration. A table entry is a kernel driver, a pattern on
//!   `rdma_device:N<name>` or on the modalias, or a PCI vendor and device. A provider's own match
//!   function overrides its table. A provider that does not know the kernel driver's ABI version is
//!   skipped with a warning.
//! - [`generation`]: finds the release of rdma-core that a provider in C was compiled for.
//!
//! No lock is held while a provider loads: its constructor may call the library from any thread.

pub mod built_in;
pub mod config;
mod debian;
pub mod drivers;
mod foreign;
pub mod generation;
pub mod matching;
mod plugins;

/// Makes fork(2) wait while another thread changes the registered providers.
pub fn across_forks() {
    drivers::across_forks();
    plugins::across_forks();
}

pub use plugins::{Extent, is_loading, load};
