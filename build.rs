//! Linker arguments: the library's name and its symbol versions, and the C files: the two variadic
//! exports, and the calls in which threads are cancelled.

use std::{env, path::Path};

const VARIADIC: &str = "src/export/private/variadic.c";
const CANCEL: &str = "src/export/cancel.c";
const SYSCALLS: &str = "src/export/syscalls.c";
const SHARED: [&str; 2] = ["src/export/c.h", "include/infiniband"];

fn main() {
    let root = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let map = Path::new(&root).join("src/libibverbs.map");
    println!("cargo::rerun-if-changed={}", map.display());

    for file in [VARIADIC, CANCEL, SYSCALLS].iter().chain(&SHARED) {
        println!("cargo::rerun-if-changed={file}");
    }
    // The objects go straight to the linker: nothing in Rust refers to them, so out of an
    // archive they would not be taken.
    let objects = [VARIADIC, CANCEL, SYSCALLS].map(|file| c(file).compile_intermediates());
    for object in objects.iter().flatten() {
        println!("cargo::rustc-link-arg-cdylib={}", object.display());
    }
    // This object goes into the static library, whose programs refer to it. Providers cannot be
    // loaded there, so the variadic functions are left out.
    c(CANCEL).compile("ferroverbs_cancel");
    // lld: GNU ld refuses a named version script beside the anonymous one that rustc passes.
    println!("cargo::rustc-link-arg-cdylib=-fuse-ld=lld");
    // Debug packages find their file by it; RPM requires one of this size.
    println!("cargo::rustc-link-arg-cdylib=-Wl,--build-id=sha1");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-soname,libibverbs.so.1");
    println!(
        "cargo::rustc-link-arg-cdylib=-Wl,--version-script={}",
        map.display()
    );
}

fn c(file: &str) -> cc::Build {
    let mut build = cc::Build::new();
    build
        .file(file)
        .include("include")
        .warnings_into_errors(true)
        .extra_warnings(true)
        // Cancelled threads are unwound.
        .flag("-fexceptions")
        .flag_if_supported("-fstack-protector-strong");
    build
}
