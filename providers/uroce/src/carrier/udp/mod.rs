//! Carrier 1: RoCE v2 as it goes over the wire, in UDP datagrams to port 4791.
//!
//! All processes of a user share the port (SO_REUSEPORT), so the kernel may hand a packet to a
//! process it is not for. QP numbers name the process (see [`slot`]), and whoever gets such a
//! packet hands it on.

pub mod capture;
pub mod crc;
pub mod doors;
pub mod faults;
pub mod heirs;
pub mod outbox;
pub mod slot;
pub mod socket;
pub mod tools;
pub mod ways;

pub use doors::Doors;
pub use heirs::Heirs;
pub use outbox::{Outbox, Path};
pub use slot::Slot;
pub use socket::{Socket, Sockets};
pub use tools::Tools;
pub use ways::Ways;

/// The UDP port of RoCE v2 (IBTA volume 1, annex A17).
pub const PORT: u16 = 4791;
