#![forbid(unsafe_code)]
//! Finding and matching providers.

pub mod built_in;
pub mod config;
pub mod drivers;
pub mod generation;
pub mod matching;
mod plugins;

pub use plugins::{all, is_loading};
