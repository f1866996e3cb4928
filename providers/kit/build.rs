//! Refuses machines whose layouts of the structures are unknown. The compiler would do so too, by
//! an error for each of them.
#![forbid(unsafe_code)]

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name, value| env::var(name).is_ok_and(|found| found == value);
    let known =
        is("CARGO_CFG_TARGET_POINTER_WIDTH", "64") && is("CARGO_CFG_TARGET_ENDIAN", "little");
    if !known {
        println!(
            "cargo::error=ferroverbs needs a 64-bit little-endian machine: no other layout of its \
             structures is known"
        );
    }
}
