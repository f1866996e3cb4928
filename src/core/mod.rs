//! What verbs mean: devices, contexts, memory and fork, events, addresses, configuration.

pub mod address;
pub mod chardev;
pub mod config;
pub mod context;
pub mod devices;
pub mod events;
pub mod log;
pub mod marshal;
pub mod netlink;
pub mod rate;
pub mod sysfs;
pub mod text;
#[cfg(test)]
pub mod testing;
mod warn;

pub use warn::warn;
