#![forbid(unsafe_code)]
//! Which providers to load: lines `driver NAME` in the files of a folder, and names in the
//! environment.
//!
//! In a file, blanks and tabs separate words, and a line that begins with `#` is ignored. Words
//! after NAME are ignored, except `release=N`: the provider's release of rdma-core.

use crate::warn::warn;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A provider to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its name, or its path without the end of a provider's file name.
    pub name: OsString,
    /// The release that the line gives.
    pub release: Option<u16>,
}

/// The folder of the files.
pub const FOLDER: &str = "/etc/libibverbs.d";

/// A file of that folder which is not about providers: which interfaces get a device of uroce.
const NOT_OURS: &str = "uroce.conf";

/// The providers in all regular files but [`NOT_OURS`] in `folder`, whatever their names: the files
/// in the order of their names, in each the last line first. Unreadable files cause a warning.
pub fn from_folder(folder: &Path) -> Vec<Wanted> {
    let Ok(entries) = fs::read_dir(folder) else {
        warn(&format!(
            "Warning: couldn't open config directory '{}'.",
            folder.display()
        ));
        return Vec::new();
    };
    let entries = entries.map_while(Result::ok);
    let mut files: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    files.sort_unstable();
    files
        .iter()
        .filter(|file| *file != NOT_OURS)
        .flat_map(|file| from_file(&folder.join(file)))
        .collect()
}

fn from_file(file: &Path) -> Vec<Wanted> {
    let shown = file.display();
    match fs::metadata(file) {
        Ok(info) if info.is_file() => {}
        Ok(_) => return Vec::new(),
        Err(_) => {
            warn(&format!("Warning: couldn't stat config file '{shown}'."));
            return Vec::new();
        }
    }
    let Ok(text) = fs::read(file) else {
        warn(&format!("Warning: couldn't read config file {shown}."));
        return Vec::new();
    };
    let (mut names, bad) = parse(&text);
    for word in bad {
        warn(&format!(
            "Warning: ignoring bad config directive '{}' in file '{shown}'.",
            word.display()
        ));
    }
    names.reverse();
    names
}

/// The providers in a file's text, and the first words of unknown lines.
fn parse(text: &[u8]) -> (Vec<Wanted>, Vec<OsString>) {
    let mut names = Vec::new();
    let mut bad = Vec::new();
    for line in text.split(|&byte| byte == b'\n') {
        let mut words = line
            .split(|byte| matches!(byte, b' ' | b'\t'))
            .filter(|word| !word.is_empty());
        match (words.next(), words.next()) {
            (None, _) => {}
            (Some(word), _) if word.starts_with(b"#") => {}
            (Some(b"driver"), Some(name)) => names.push(Wanted {
                name: owned(name),
                release: words
                    .take_while(|word| !word.starts_with(b"#"))
                    .find_map(release),
            }),
            (Some(word), _) => bad.push(owned(word)),
        }
    }
    (names, bad)
}

/// The release in a word `release=N`.
fn release(word: &[u8]) -> Option<u16> {
    let number = word.strip_prefix(b"release=")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// The names in an environment variable, separated by colons or semicolons.
pub fn from_variable(value: &OsStr) -> Vec<OsString> {
    value
        .as_bytes()
        .split(|byte| matches!(byte, b':' | b';'))
        .filter(|name| !name.is_empty())
        .map(owned)
        .collect()
}

fn owned(bytes: &[u8]) -> OsString {
    OsStr::from_bytes(bytes).to_owned()
}

#[cfg(test)]
mod tests;
