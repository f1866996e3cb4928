//! Compiles the C functions, passes the export list to the linker, and links against a stub that
//! has the name, the functions and the versions of `librdmacm.so.1` but no code.

use std::{env, error::Error, fmt::Write, fs, path::Path};

const PRELOAD: [&str; 3] = ["src/calls.c", "src/fork.c", "src/wait.c"];
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
        .flag("-fexceptions");
    // The objects are passed to the linker directly: no Rust code refers to them.
    for object in build.compile_intermediates() {
        println!("cargo::rustc-link-arg-cdylib={}", object.display());
    }
    let map = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("src/librspreload.map");
    // lld: GNU ld takes one version script, and rustc passes one.
    println!("cargo::rustc-link-arg-cdylib=-fuse-ld=lld");
    println!(
        "cargo::rustc-link-arg-cdylib=-Wl,--version-script={}",
        map.display()
    );
    empty_librdmacm(Path::new(&env::var("OUT_DIR")?))
}

fn empty_librdmacm(out: &Path) -> Result<(), Box<dyn Error>> {
    let map = fs::read_to_string("../src/librdmacm.map")?;
    let mut source = String::new();
    for name in map.lines().filter_map(|line| line.strip_prefix("\t\t")) {
        writeln!(source, "void {}(void) {{}}", name.trim_end_matches(';'))?;
    }
    fs::write(out.join("empty.c"), source)?;
    fs::write(out.join("empty.map"), map)?;
    let made = cc::Build::new()
        .try_get_compiler()?
        .to_command()
        .current_dir(out)
        .args(["-shared", "-fPIC", "-nostdlib", "-o", "librdmacm-empty.so"])
        .args([
            "-Wl,-soname,librdmacm.so.1",
            "-Wl,--version-script=empty.map",
        ])
        .arg("empty.c")
        .status()?;
    if !made.success() {
        return Err("the C compiler could not make a shared library".into());
    }
    println!("cargo::rustc-link-search=native={}", out.display());
    println!("cargo::rustc-link-lib=dylib=rdmacm-empty");
    Ok(())
}
