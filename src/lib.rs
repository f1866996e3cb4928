//! libibverbs, the RDMA verbs library of Linux, written in Rust.
//!
//! `export` is the C door: functions of a few lines that convert, call and convert back.
//! `core` is what verbs mean. `load` finds and matches providers. `warn` talks to the user.

#![allow(non_camel_case_types)]

mod symver;

mod core;
mod export;
mod load;
mod warn;
