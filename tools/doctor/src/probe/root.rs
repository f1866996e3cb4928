//! Where the facts are read, and how files are.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where to look.
#[derive(Clone, Debug)]
pub struct Probe {
    pub(super) root: PathBuf,
    pub(super) sys: PathBuf,
}

/// A file's text without the white space around it; empty if it cannot be read.
pub(super) fn read(path: &Path) -> String {
    fs::read_to_string(path).map_or_else(|_| String::new(), |text| text.trim().to_owned())
}

/// A number in a file, decimal or hexadecimal with `0x`.
pub(super) fn read_number(path: &Path) -> Option<u32> {
    let text = read(path);
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The names in a folder, in order; none if it cannot be read.
pub(super) fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// The last part of where a link leads.
pub(super) fn link_name(path: &Path) -> Option<String> {
    let to = fs::read_link(path).ok()?;
    Some(to.file_name()?.to_str()?.to_owned())
}
