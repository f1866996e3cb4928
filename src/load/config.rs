#![forbid(unsafe_code)]
//! Which providers to load: lines `driver NAME` in the files of a folder, and names in the
//! environment.
//!
//! In a file, blanks and tabs separate words, `#` begins a line that is passed over, and what
//! follows NAME is passed over too.

use crate::warn::warn;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The folder of the files.
pub const FOLDER: &str = "/etc/libibverbs.d";

/// A file of that folder which is not about providers: which interfaces get a device of uroce.
const NOT_OURS: &str = "uroce.conf";

/// The names in all regular files but [`NOT_OURS`] in `folder`, whatever the files are called: the
/// files in the order of their names, in each the last line first. What cannot be read is warned
/// of.
pub fn from_folder(folder: &Path) -> Vec<OsString> {
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

fn from_file(file: &Path) -> Vec<OsString> {
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

/// The names in a file's text, and the first words of lines that say something else.
fn parse(text: &[u8]) -> (Vec<OsString>, Vec<OsString>) {
    let mut names = Vec::new();
    let mut bad = Vec::new();
    for line in text.split(|&byte| byte == b'\n') {
        let mut words = line
            .split(|byte| matches!(byte, b' ' | b'\t'))
            .filter(|word| !word.is_empty());
        match (words.next(), words.next()) {
            (None, _) => {}
            (Some(word), _) if word.starts_with(b"#") => {}
            (Some(b"driver"), Some(name)) => names.push(owned(name)),
            (Some(word), _) => bad.push(owned(word)),
        }
    }
    (names, bad)
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
