//! The wire format: each header as a view that reads in place and as a value with `parse` and
//! `emit`; opcodes; whole packets; the ICRC.

pub mod aeth;
pub mod atomic_ack_eth;
pub mod atomic_eth;
pub mod bth;
pub mod crc;
pub mod deth;
pub mod feth;
mod field;
pub mod filler;
mod header;
pub mod icrc;
pub mod ieth;
pub mod imm_dt;
mod opcode;
mod packet;
pub mod piggyback;
pub mod report;
pub mod reth;
mod syndrome;
pub mod xrceth;

pub use aeth::Aeth;
pub use atomic_ack_eth::AtomicAckEth;
pub use atomic_eth::AtomicEth;
pub use bth::Bth;
pub use deth::Deth;
pub use feth::Feth;
pub use filler::Filler;
pub use ieth::Ieth;
pub use imm_dt::ImmDt;
pub use opcode::{Extensions, Kind, Opcode, Operation, PayloadRule, Position, Transport};
pub use packet::{Emitted, Headers, ICRC_LEN, MAX_HEADERS, MAX_PAYLOAD, Malformed, Packet, pad_of};
pub use piggyback::Piggyback;
pub use report::Report;
pub use reth::Reth;
pub use syndrome::{Nak, Syndrome};
pub use xrceth::XrcEth;
