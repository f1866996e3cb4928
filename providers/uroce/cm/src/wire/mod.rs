//! Management datagrams of the communication manager (IBTA volume 1, 12.6 and 13.4).
//!
//! A datagram is 256 bytes: a header of 24, a message of 232. Each message is a value whose fields
//! are in one list with their places (`messages`), from which the parser and the encoder are made.
//! Reserved bits are not read, and written as 0.

mod bits;
mod mad;
mod messages;

pub use mad::{LEN, Mad, Malformed};
pub use messages::{
    Apr, Drep, Dreq, Lap, Message, Mra, Rej, Rep, Req, Rtu, SidrRep, SidrReq, Value,
};
