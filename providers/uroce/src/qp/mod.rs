//! Queue pairs.

pub mod attributes;
mod binds;
mod bypass;
mod core;
pub mod counting;
mod credit;
mod endpoint;
mod held;
mod host;
mod inherit;
mod multicast;
mod onesided;
mod requests;
mod sent;
mod turns;

pub use core::{Core, Parts};
pub use held::{Named, Qp};
