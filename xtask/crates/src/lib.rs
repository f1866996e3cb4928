//! Nothing: the package is its Cargo.toml, and its Cargo.lock.
#![forbid(unsafe_code)]
