#![forbid(unsafe_code)]
//! Values of options of stream sockets.

use std::time::Duration;

/// The kernel's default for TCP, in seconds.
const KEEPALIVE_FILE: &str = "/proc/sys/net/ipv4/tcp_keepalive_time";
const KEEPALIVE_TIME: u32 = 7200;
/// Values set by the program.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub reuse_address: bool,
    pub keep_alive: bool,
    /// Seconds.
    pub keep_idle: Option<u32>,
    pub keep_interval: u32,
    pub keep_count: u32,
    pub oob_inline: bool,
    pub no_delay: bool,
    pub max_segment: Option<i32>,
    pub v6_only: bool,
    pub linger: (i32, i32),
    pub tos: i32,
    pub route: Vec<u8>,
}

impl Options {
    /// The time between keepalives, if they are enabled.
    pub fn keep_alive(&self) -> Option<Duration> {
        self.keep_alive
            .then(|| Duration::from_secs(self.idle().max(1).into()))
    }

    /// Seconds until the first keepalive.
    pub fn idle(&self) -> u32 {
        self.keep_idle.unwrap_or_else(|| {
            let text = std::fs::read_to_string(KEEPALIVE_FILE).unwrap_or_default();
            text.trim().parse().unwrap_or(KEEPALIVE_TIME)
        })
    }

    /// Paths supplied by the program, `struct ibv_path_data[]`.
    pub fn route(&self) -> Option<&[u8]> {
        (!self.route.is_empty()).then_some(&self.route)
    }

    /// The time for which rclose waits, if it was set.
    pub fn linger(&self) -> Option<Duration> {
        let (on, seconds) = self.linger;
        (on != 0).then(|| Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
    }
}
