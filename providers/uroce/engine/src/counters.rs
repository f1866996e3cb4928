//! The counters of a queue pair, from its creation on.

/// Counters of one queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets handed out.
    pub packets_sent: u64,
    /// Bytes of payload handed out.
    pub bytes_sent: u64,
    /// Packets taken in, those below included.
    pub packets_received: u64,
    /// Bytes of payload taken in.
    pub bytes_received: u64,
    /// Packets dropped: not for this queue pair, its state, its keys, or the moment.
    pub dropped: u64,
    /// Requests seen again.
    pub duplicates: u64,
    /// Requests that came too early.
    pub out_of_sequence: u64,
    /// Times that sending went back to the oldest unacknowledged packet.
    pub retries: u64,
    /// Times that no answer came in time. Sending went back, or the peer was asked once more.
    pub timeouts: u64,
    /// Receiver-not-ready answers sent.
    pub rnr_sent: u64,
    /// Receiver-not-ready answers received.
    pub rnr_received: u64,
    /// Negative acknowledgements of other kinds sent.
    pub naks_sent: u64,
    /// Negative acknowledgements of other kinds received.
    pub naks_received: u64,
    /// Congestion notifications received.
    pub congestion: u64,
    /// Completions in error, flushed ones not counted.
    pub errors: u64,
}
