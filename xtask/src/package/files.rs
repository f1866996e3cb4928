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
pub(super) const PACKAGES: [(&str, &str); 5] = [
    ("libferroverbs1", "libibverbs1"),
    ("libferroverbs-dev", "libibverbs-dev"),
    ("ferroverbs-utils", "ibverbs-utils"),
    ("libferroverbs-rdmacm1", "librdmacm1"),
    ("libferroverbs-rdmacm-dev", "librdmacm-dev"),
];

/// The name of a Debian package in this release. Debian 13 renamed some when `time_t` got 64 bits.
pub(super) fn name_here(stock: &str) -> Result<&str> {
    let mut names = vec![stock];
    names.extend(RENAMED.iter().filter(|row| row.0 == stock).map(|row| row.1));
    for name in names {
        let mut query = Command::new("dpkg-query");
        query.args(["-W", "-f", "${db:Status-Status}", name]);
        if query.output().context("dpkg-query")?.stdout == b"installed" {
            return Ok(name);
        }
    }
    bail!("{stock} of Debian is not installed")
}

/// Packages with another name since Debian 13.
const RENAMED: [(&str, &str); 1] = [("librdmacm1", "librdmacm1t64")];

/// The file of a package in a directory.
pub(super) fn package_in(dir: &Path, package: &str) -> Result<PathBuf> {
    file_with(dir, &format!("{package}_"), ".deb")
}

/// The one file of a directory that begins and ends so.
pub(super) fn file_with(dir: &Path, start: &str, end: &str) -> Result<PathBuf> {
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
pub(super) fn unpack(package: &Path, into: &Path) -> Result<()> {
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
