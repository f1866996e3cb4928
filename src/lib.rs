//! libibverbs, the RDMA verbs library of Linux, written in Rust.
//!
//! `export` is the C interface: short functions that convert, call and convert back. `core`
//! implements the verbs. `load` finds and matches providers. `warn` prints messages for the user.

#![allow(non_camel_case_types)]

mod symver;

mod core;
mod export;
mod load;
mod warn;
