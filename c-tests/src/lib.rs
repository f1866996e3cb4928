//! C programs that use libibverbs; compiles them, runs them on two libraries and compares their
//! output.

#![forbid(unsafe_code)]

pub mod build;
pub mod compare;
pub mod elf;
mod error;
pub mod library;
pub mod man;
pub mod record;
pub mod run;
pub mod stub;
pub mod tree;

pub use error::{Error, Result};
