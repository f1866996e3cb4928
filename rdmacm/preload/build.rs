//! Compiles the C functions, passes the export list to the linker, and links with a stub of
//! `librdmacm.so.1` (`stub/library.rs`).

use std::{env, error::Error, fs, path::Path};

#[path = "../../stub/library.rs"]
mod stub;

const PRELOAD: [&str; 5] = [
    "src/calls.c",
    "src/fork.c",
    "src/fortified.c",
    "src/sets.c",
    "src/wait.c",
];
const SHARED: [&str; 3] = [
    "src/preload.h",
    "src/librspreload.map",
    "../src/librdmacm.map",
];
/// Headers.
const INCLUDE: [&str; 3] = ["../include", "../../include", "../../src/export"];

fn main() -> Result<(), Box<dyn Error>> {
    for file in PRELOAD.iter().chain(&SHARED) {
        println!("cargo::rerun-if-changed={file}");
    }
    let mut build = cc::Build::new();
    build
        .files(PRELOAD)
        .includes(INCLUDE)
        .warnings_into_errors(true)
        .extra_warnings(true)
        // Cancelled threads are unwound.
        .flag("-fexceptions")
        .flag_if_supported("-fstack-protector-strong");
    // The objects are passed to the linker directly: no Rust code refers to them.
    for object in build.compile_intermediates() {
        println!("cargo::rustc-link-arg-cdylib={}", object.display());
    }
    let map = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("src/librspreload.map");
    // lld: GNU ld takes one version script, and rustc passes one.
    println!("cargo::rustc-link-arg-cdylib=-fuse-ld=lld");
    // Debug packages find their file by it; RPM requires one of this size.
    println!("cargo::rustc-link-arg-cdylib=-Wl,--build-id=sha1");
    println!(
        "cargo::rustc-link-arg-cdylib=-Wl,--version-script={}",
        map.display()
    );
    let map = fs::read_to_string("../src/librdmacm.map")?;
    let names = map.lines().filter_map(|line| line.strip_prefix("\t\t"));
    stub::link("rdmacm", names.map(|name| name.trim_end_matches(';')), &map)
}
