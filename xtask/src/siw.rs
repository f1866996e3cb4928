//! The kernel module of soft-iWARP, which Debian's kernel leaves out: built from Debian's package
//! of the kernel's sources, and kept in the cache directory.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{
    debian_deps::{self, Machine},
    dirs::Dirs,
    host,
};

/// The file, in the cache and where the virtual machine looks for it.
pub const MODULE: &str = "siw.ko";

/// Where the driver is in the kernel's sources.
const FOLDER: &str = "drivers/infiniband/sw/siw";

/// The module for the kernel that is booted.
///
/// # Errors
/// The missing part: a kernel that is not Debian's, packages that are unavailable, a driver that
/// does not compile.
pub fn module(dirs: &Dirs, machine: &Machine) -> Result<PathBuf> {
    let version = version(&machine.kernel).context("a kernel without a version in its name")?;
    let home = dirs.cache.join(format!("siw-{version}"));
    let built = home.join(MODULE);
    if built.exists() {
        return Ok(built);
    }
    let source = source_package(version).context("a kernel of no released version")?;
    let headers = format!("linux-headers-{version}");
    debian_deps::install_missing(dirs, &[&source, &headers, "make", "xz-utils"])?;
    build(dirs, version, &source, &home)?;
    Ok(built)
}

/// The version in the name of a kernel's file.
fn version(kernel: &Path) -> Option<&str> {
    kernel.file_name()?.to_str()?.strip_prefix("vmlinuz-")
}

/// Debian's package of the sources, which names the first two numbers alone.
fn source_package(version: &str) -> Option<String> {
    let mut numbers = version.split('.');
    Some(format!(
        "linux-source-{}.{}",
        numbers.next()?,
        numbers.next()?
    ))
}

/// Unpacks the driver and compiles it beside its place in the cache, where it is put last.
fn build(dirs: &Dirs, version: &str, source: &str, home: &Path) -> Result<()> {
    println!("-- building {MODULE} for {version}");
    let room = dirs.fresh("siw")?;
    let log = dirs.work.join("siw-build.log");
    let mut unpack = Command::new("tar");
    unpack
        .arg("xf")
        .arg(format!("/usr/src/{source}.tar.xz"))
        .arg("-C")
        .arg(&room)
        // The folders above the driver's.
        .arg("--strip-components=5")
        .arg(format!("{source}/{FOLDER}"));
    host::must_run(&mut unpack, &log)?;
    let mut make = Command::new("make");
    make.arg("-C")
        .arg(format!("/lib/modules/{version}/build"))
        .arg(format!("M={}", room.display()))
        .args(["CONFIG_RDMA_SIW=m", "modules"]);
    host::must_run(&mut make, &log)?;
    fs::create_dir_all(home).with_context(|| home.display().to_string())?;
    let new = home.join("new");
    fs::copy(room.join(MODULE), &new).context("the module")?;
    fs::rename(&new, home.join(MODULE))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_those_of_the_kernel() {
        let kernel = Path::new("/boot/vmlinuz-6.1.0-56-amd64");
        assert_eq!(version(kernel), Some("6.1.0-56-amd64"));
        let source = version(kernel).and_then(source_package);
        assert_eq!(source.as_deref(), Some("linux-source-6.1"));
        assert_eq!(version(Path::new("/boot/bzImage")), None);
    }
}
