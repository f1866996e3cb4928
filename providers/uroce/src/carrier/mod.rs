//! What carries packets between hosts and processes.

pub mod shm;
pub mod udp;
