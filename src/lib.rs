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

/// Asks for uroce devices on these network interfaces, names separated by commas, or `all`, in a
/// program that contains the library (the crate `ferroverbs-static`). The variable `UROCE_DEVICES`
/// and the file are then not read. Returns whether this call decided: a process asks once.
pub fn ask_for_uroce(interfaces: &str) -> bool {
    uroce::config::ask_for(interfaces)
}
