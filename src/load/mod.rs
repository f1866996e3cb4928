#![forbid(unsafe_code)]
//! Finding and matching providers.

pub mod built_in;
pub mod config;
pub mod drivers;
mod foreign;
pub mod generation;
pub mod matching;
mod plugins;

pub use plugins::{Extent, is_loading, load};
