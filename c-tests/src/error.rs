//! The error type of this crate.
#![forbid(unsafe_code)]

/// Any error of this tool; it is printed and nothing looks inside.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;
