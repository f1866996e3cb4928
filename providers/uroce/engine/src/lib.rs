//! RoCE v2 as a state machine: no socket, no clock, no thread, no memory of the application.
#![forbid(unsafe_code)]

pub mod psn;
pub mod timer;
pub mod wire;
