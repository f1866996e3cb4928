#![forbid(unsafe_code)]
//! The error of accesses beyond the end of memory.

/// Memory could not be used: the place is beyond the range, or not aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange;
