//! The meaning of the verbs: the device list, contexts, memory registration and fork protection,
//! events, addresses, configuration, the log, and the analysis behind the diagnostics. No file here
//! knows how C passes arguments, and none has unsafe code.

pub mod address;
pub mod chardev;
pub mod config;
pub mod context;
pub mod devices;
pub mod events;
pub mod explain;
pub mod fork;
pub mod init;
pub mod log;
pub mod marshal;
pub mod memory;
pub mod netlink;
pub mod rate;
pub mod region;
pub mod report;
mod suppressions;
pub mod sysfs;
#[cfg(test)]
pub mod testing;
pub mod text;
pub mod trace;
pub mod validate;
pub mod wait;
