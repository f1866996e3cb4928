//! What carries packets between hosts and processes.

mod sender;
pub mod shm;
pub mod udp;

pub use sender::{HEAD, Sender};
