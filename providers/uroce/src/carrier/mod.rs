//! Carriers of packets between hosts and processes.
//!
//! [`udp`] and [`shm`] are the two carriers, and independent of each other; [`Sender`] chooses
//! between them. Both find processes by the [`registry`]. They share the other parts of this
//! folder: the layout of QP numbers ([`qpn`]), the processes that have taken numbers over
//! ([`successors`]), and the user's choice of a carrier ([`choice`]).

pub mod address;
pub mod choice;
pub mod qpn;
pub mod registry;
mod sender;
pub mod shm;
pub mod successors;
pub mod udp;

pub use choice::Carrier;
pub use sender::{HEAD, Sender, Via};
pub use successors::Successors;
