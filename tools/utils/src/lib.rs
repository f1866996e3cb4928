//! What the programs have in common: options, numbers, words, errors.
//!
//! Each program is a file in `bin/` that calls one function here. What they print and how they
//! end is that of rdma-core's programs of the same names, which scripts parse; `--json` is theirs
//! alone, and prints one JSON document, or one a line, in place of the text.
#![forbid(unsafe_code)]

pub mod asyncwatch;
pub mod devices;
pub mod devinfo;
mod numbers;
pub mod pingpong;
mod program;
mod words;

pub use program::main;
