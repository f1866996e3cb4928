//! Limits of rates.
#![forbid(unsafe_code)]

/// The limit of a queue pair's rate: ibv_modify_qp_rate_limit(3)
/// ([`QueuePair::limit_rate`](crate::QueuePair::limit_rate)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimit {
    /// In kbit/s; 0 is none.
    pub rate: u32,
    /// The largest burst in bytes; 0 leaves it to the device.
    pub burst: u32,
    /// The bytes of a typical packet; 0 leaves it to the device.
    pub packet: u16,
}
