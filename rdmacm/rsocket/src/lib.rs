#![forbid(unsafe_code)]
//! The protocol of rsockets (rsocket(7)), without I/O.
//!
//! | module | contents |
//! | --- | --- |
//! | `connect` | [`ConnectData`]: the parameters that both sides exchange when they connect |
//! | `message` | [`Message`]: the immediate data that goes with each RDMA write |
//! | `entry` | [`Sge`] and [`IomapEntry`]: the entries that a side writes into the peer's memory |
//! | `receive` | the receive buffer: which parts are filled, read, and granted to the peer again |
//! | `stream` | [`Stream`]: one connection: sequence numbers, buffers, shutdown |
//! | `datagram` | headers of datagrams |
//!
//! **A stream** is two rings, one in each receiver's memory. A sender writes data into the peer's
//! ring with RDMA write and immediate data. The write consumes a receive request of the peer, and
//! the immediate data is the number of bytes. The receiver grants the ring's space in two halves:
//! it writes an [`Sge`] into the sender's *target SGL*, a table of two entries, and announces it by
//! [`Message::Credits`]. That message also contains the sequence number up to which the sender may
//! write, so that every data message finds a receive request.
//!
//! [`Stream`] decides; the caller has the memory, posts [`Write`]s, and reports completions. All
//! numbers from the peer are untrusted: an invalid number ends the connection or is clamped, and
//! none is used as an index unchecked.

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
