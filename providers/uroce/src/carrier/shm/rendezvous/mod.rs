//! How two processes come to share a link, or to know that they do not: a protocol without I/O.
//!
//! The process of the lower slot **offers** the link, the process of the higher slot **joins** it.
//! Messages go by sockets that hold a bounded number: a message may be lost, late, repeated or
//! refused because the socket is full, and either process may be stopped, end, or start anew at any
//! step. So no message decides anything. The decision is one compare-and-swap on a word in the
//! link's shared memory ([`LinkState`]): the joiner moves it from `Offered` to `Joined`, the
//! offerer from `Offered` to `Withdrawn`. The offerer has prepared everything before it offers, and
//! the joiner before it joins, so that nothing can fail after the swap. The joiner knows by the
//! swap that both have the link; the offerer learns it by a message, or by looking at the word,
//! which it does at growing intervals without a message.
//!
//! | state | of | action | ends by |
//! | --- | --- | --- | --- |
//! | `Idle` | both | none: packets go by UDP | [`Session::connect`]; a message of the peer |
//! | `Asking` | offerer | sent `Invite` | `Request`; `Reject`; no such process; [`PATIENCE`] |
//! | `Asking` | joiner | sent `Request` with its segment | `Offer`; `Reject`; no such process; [`PATIENCE`] |
//! | `Offered` | offerer | mapped the joiner's segment, made the link, sent `Offer` with segment and link | the word says `Joined`; `Reject` or [`PATIENCE`], by withdrawing; the joiner's end |
//! | `Linked` | joiner | mapped segment and link, swapped the word, sent `Joined` | the peer's end |
//! | `Linked` | offerer | found the word `Joined` | the peer's end |
//!
//! | event | `Idle` | `Asking` | `Offered` | `Linked` |
//! | --- | --- | --- | --- | --- |
//! | connect | send `Invite` or `Request`, unless an attempt failed just before | | | |
//! | `Request` | make the link, `Offer` | make the link, `Offer` | look; send `Offer` again; another generation, and the former has ended: discard the link, make another | another generation, and the former has ended: make a link |
//! | `Invite` | `Request` | send messages that found the socket full | - | another generation, and the former has ended: `Request` |
//! | `Offer` | join | join | - | another generation, and the former has ended: join |
//! | `Joined` | | | look | |
//! | `Reject` | | by UDP | withdraw; by UDP | |
//! | deadline | | send again; by UDP after [`PATIENCE`] | look; send again; withdraw after [`PATIENCE`] | |
//! | peer ended | | | discard the link | by UDP |
//!
//! *Join* ends in `Linked`; in `Asking` anew if the offer was withdrawn; in `Reject` and `Idle` if
//! segment or link is not available. A process that has given up still accepts later messages: a
//! peer that was stopped finds the message in its socket when it continues, and a connection that
//! used UDP gets the link then.
//!
//! The number of messages is bounded: one that was delivered is sent again at doubling intervals
//! until [`PATIENCE`] has passed, and so is one that found the socket full.
//!
//! The protocol does not decide when a link is wanted: see [`super::traffic`].
#![forbid(unsafe_code)]

mod backoff;
mod session;
#[cfg(test)]
mod simulation;

pub use session::{Host, Join, LinkState, Message, Role, Session};

/// For how long a process that does not answer is asked, and an offer stands, in nanoseconds.
pub const PATIENCE: u64 = 20_000_000_000;

/// The outcome of sending a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is in the peer's socket.
    Delivered,
    /// The peer's socket is full.
    Full,
    /// There is no such process.
    Gone,
}
