//! The packages, and their files in a directory.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::host::must;

/// Our packages, each with the Debian package that it replaces, by its name in Debian 12
/// ([`name_here`]).
pub const PACKAGES: [(&str, &str); 5] = [
    ("libferroverbs1", "libibverbs1"),
    ("libferroverbs-dev", "libibverbs-dev"),
    ("ferroverbs-utils", "ibverbs-utils"),
    ("libferroverbs-rdmacm1", "librdmacm1"),
    ("libferroverbs-rdmacm-dev", "librdmacm-dev"),
];

/// The name of a Debian package in this release. Debian 13 renamed some when `time_t` got 64 bits.
pub fn name_here(stock: &str) -> Result<&str> {
    for name in names(stock) {
        let mut query = Command::new("dpkg-query");
        query.args(["-W", "-f", "${db:Status-Status}", name]);
        if query.output().context("dpkg-query")?.stdout == b"installed" {
            return Ok(name);
        }
    }
    bail!("{stock} of Debian is not installed")
}

/// The same among those that dpkg(1) has noted in this directory.
///
/// # Errors
/// It is not there.
pub fn name_in<'a>(info: &Path, stock: &'a str) -> Result<&'a str> {
    // The architecture is in the names of packages that may be there for several.
    let is_there = |name: &&str| {
        let alone = info.join(format!("{name}.list"));
        alone.exists() || file_with(info, &format!("{name}:"), ".list").is_ok()
    };
    let mut names = names(stock).filter(is_there);
    names
        .next()
        .with_context(|| format!("no {stock} in {}", info.display()))
}

/// All names of a package.
fn names(stock: &str) -> impl Iterator<Item = &str> {
    let others = RENAMED.iter().filter(move |row| row.0 == stock);
    std::iter::once(stock).chain(others.map(|row| row.1))
}

/// Packages with another name since Debian 13.
const RENAMED: [(&str, &str); 1] = [("librdmacm1", "librdmacm1t64")];

/// The file of a package in a directory.
pub fn package_in(dir: &Path, package: &str) -> Result<PathBuf> {
    file_with(dir, &format!("{package}_"), ".deb")
}

/// The one file of a directory that begins and ends so.
pub fn file_with(dir: &Path, start: &str, end: &str) -> Result<PathBuf> {
    let entries = fs::read_dir(dir).with_context(|| dir.display().to_string())?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(start) && name.ends_with(end) {
            return Ok(entry.path());
        }
    }
    bail!("no {start}*{end} in {}", dir.display())
}

/// Unpacks a package into a directory.
pub fn unpack(package: &Path, into: &Path) -> Result<()> {
    let mut command = Command::new("dpkg-deb");
    must(command.arg("--extract").arg(package).arg(into)).map(drop)
}

/// All files and links below a directory.
pub fn below(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => found.extend(below(&entry.path())?),
            false => found.push(entry.path()),
        }
    }
    Ok(found)
}
