//! The choices of the command line, and the time for which an end waits for the other.

use std::time::Duration;

/// The choices of the command line.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// The device, or that of the connection's address, or the first one.
    pub device: Option<String>,
    /// Its port.
    pub port: u8,
    /// The place of the GID, or that of the connection's address.
    pub gid: Option<u32>,
    /// The TCP port.
    pub tcp: u16,
}

/// How long the other end may keep silent. Each step is done in less than a second.
pub const PATIENCE: Duration = Duration::from_secs(20);
