//! C programs that use libibverbs, and what it takes to compile them, run them
//! on two libraries and compare what they printed.

#![forbid(unsafe_code)]

pub mod build;
pub mod compare;
pub mod elf;
pub mod library;
pub mod man;
pub mod record;
pub mod run;
pub mod stub;
pub mod tree;

/// Any error of this tool; it is printed and nothing looks inside.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;
