//! Queue pairs.

pub mod attributes;
mod binds;
mod bypass;
mod core;
mod held;
mod host;
mod multicast;
mod onesided;
mod requests;

pub use core::{Core, Parts};
pub use held::{Named, Qp};
