#![forbid(unsafe_code)]
//! The protocol of rsockets (rsocket(7)), without I/O.
//!
//! | module | what it is |
//! | --- | --- |
//! | `connect` | [`ConnectData`]: what both sides say as they connect |
//! | `message` | [`Message`]: the immediate data that goes with each RDMA write |
//! | `entry` | [`Sge`] and [`IomapEntry`]: what is written into the peer's memory |
//! | `receive` | the receive buffer: what of it is filled, read, and given to the peer again |
//! | `stream` | [`Stream`]: one connection: sequence numbers, buffers, shutdown |
//! | `datagram` | headers of datagrams |
//!
//! **A stream** is two rings, one in each receiver's memory. A sender writes data into the peer's
//! ring with RDMA write and immediate data, which consumes a receive request of the peer and says
//! how many bytes were written. The receiver gives a ring's space in two halves: it writes an
//! [`Sge`] into the sender's *target SGL*, a table of two entries, and says so with a
//! [`Message::Credits`]. The message also has the sequence number up to which the sender may write,
//! so that no data message comes without a receive request.
//!
//! [`Stream`] decides; the caller has the memory, posts [`Write`]s, and reports completions. All
//! numbers from the peer are taken as hostile: they end the connection or are cut, and no index
//! depends on them unchecked.

mod connect;
mod datagram;
mod entry;
mod message;
mod receive;
mod stream;

#[cfg(test)]
mod simulation;

pub use connect::{Buffer, ConnectData, Refused};
pub use datagram::{Announcement, DatagramKind, MAX_DATAGRAM, Q_KEY, Sender};
pub use entry::{IOMAP_ENTRY, IomapEntry, SGE, Sge};
pub use message::{Control, Message};
pub use receive::{Piece, Violation};
pub use stream::{
    CONTROL_PLACES, Limits, MAX_WRITE, Payload, SEND_LOW_WATER, Stream, TARGET_ENTRIES, TargetSgl,
    Write,
};
