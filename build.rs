//! Link arguments that give the shared library its name and its symbol versions, and the C file
//! with the two variadic exports.

use std::{env, path::Path};

const VARIADIC: &str = "src/export/private/variadic.c";

fn main() {
    let root = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let map = Path::new(&root).join("src/libibverbs.map");
    println!("cargo::rerun-if-changed={}", map.display());
    println!("cargo::rerun-if-changed={VARIADIC}");

    // The objects go straight to the linker: nothing in Rust refers to them, so out of an
    // archive they would not be taken.
    for object in cc::Build::new()
        .file(VARIADIC)
        .warnings_into_errors(true)
        .extra_warnings(true)
        .compile_intermediates()
    {
        println!("cargo::rustc-link-arg-cdylib={}", object.display());
    }
    // lld: GNU ld refuses a named version script beside the anonymous one that rustc passes.
    println!("cargo::rustc-link-arg-cdylib=-fuse-ld=lld");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-soname,libibverbs.so.1");
    println!(
        "cargo::rustc-link-arg-cdylib=-Wl,--version-script={}",
        map.display()
    );
}
