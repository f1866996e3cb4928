//! What carries packets between hosts and processes.

pub mod udp;
