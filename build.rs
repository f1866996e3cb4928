//! Link arguments that give the shared library its name and its symbol versions.

use std::{env, path::Path};

fn main() {
    let root = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let map = Path::new(&root).join("src/libibverbs.map");
    println!("cargo::rerun-if-changed={}", map.display());
    // lld: GNU ld refuses a named version script beside the anonymous one that rustc passes.
    println!("cargo::rustc-link-arg-cdylib=-fuse-ld=lld");
    println!("cargo::rustc-link-arg-cdylib=-Wl,--undefined-version"); // while names are still being added
    println!("cargo::rustc-link-arg-cdylib=-Wl,-soname,libibverbs.so.1");
    println!(
        "cargo::rustc-link-arg-cdylib=-Wl,--version-script={}",
        map.display()
    );
}
