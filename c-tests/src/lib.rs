//! C programs that use libibverbs, and what it takes to compile them, run them
//! on two libraries and compare what they printed.

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
