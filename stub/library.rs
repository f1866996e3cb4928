//! Stub libraries for linking, for build scripts: a library that has the name, the functions and
//! the symbol versions of another one, but no code. Cargo cannot link one library with another that
//! it builds, and the system's library need not be installed.

use std::{env, error::Error, fmt::Write, fs, path::PathBuf};

/// Functions by symbol version node.
#[allow(dead_code)] // for build scripts that list them
pub type Nodes<'a> = &'a [(&'a str, &'a [&'a str])];

/// Makes a stub of `lib<name>.so.1` with these functions, and links with it.
#[allow(dead_code)] // for build scripts that list the functions
pub fn link_nodes(name: &str, nodes: Nodes<'_>) -> Result<(), Box<dyn Error>> {
    let mut map = String::new();
    for (node, functions) in nodes {
        writeln!(map, "{node} {{ global: {}; }};", functions.join("; "))?;
    }
    let functions = nodes.iter().flat_map(|(_, functions)| *functions);
    link(name, functions.copied(), &map)
}

/// The same, with a version script that names the functions.
pub fn link<'a>(
    name: &str,
    functions: impl Iterator<Item = &'a str>,
    map: &str,
) -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut source = String::new();
    for function in functions {
        writeln!(source, "void {function}(void) {{}}")?;
    }
    fs::write(out.join("empty.c"), source)?;
    fs::write(out.join("empty.map"), map)?;
    let made = cc::Build::new()
        .try_get_compiler()?
        .to_command()
        .current_dir(&out)
        .args(["-shared", "-fPIC", "-nostdlib", "-o"])
        .arg(format!("lib{name}-empty.so"))
        .arg(format!("-Wl,-soname,lib{name}.so.1"))
        .args(["-Wl,--version-script=empty.map", "empty.c"])
        .status()?;
    if !made.success() {
        return Err("the C compiler could not make a shared library".into());
    }
    println!("cargo::rustc-link-search=native={}", out.display());
    println!("cargo::rustc-link-lib=dylib={name}-empty");
    Ok(())
}
