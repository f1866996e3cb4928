//! Finds the facts.
//!
//! What is a file is read below a root, which tests exchange for a folder of their own; what is
//! missing or cannot be read is a fact as well, never an error.

mod cards;
mod devices;
mod plugins;
mod system;
pub mod verbs;

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::facts::Facts;

/// Where to look.
#[derive(Clone, Debug)]
pub struct Probe {
    root: PathBuf,
    sys: PathBuf,
}

impl Probe {
    /// The machine, or a folder that stands for it. `SYSFS_PATH` names another sysfs, as it does
    /// for the library.
    #[must_use]
    pub fn new(root: Option<&Path>) -> Self {
        let given = std::env::var_os("SYSFS_PATH").map(PathBuf::from);
        match root {
            Some(root) => Self {
                root: root.to_owned(),
                sys: root.join("sys"),
            },
            None => Self {
                root: "/".into(),
                sys: given.unwrap_or_else(|| "/sys".into()),
            },
        }
    }

    /// Looks at everything but the library.
    #[must_use]
    pub fn machine(&self) -> Facts {
        Facts {
            kernel: system::kernel(self),
            cards: cards::all(self),
            devices: devices::all(self),
            nodes: system::nodes(self),
            plugins: plugins::all(self),
            memlock: system::memlock(),
            interfaces: system::interfaces(self),
            verbs: None,
        }
    }

    fn sys(&self, path: &str) -> PathBuf {
        self.sys.join(path)
    }

    fn file(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

/// A file's text without the white space around it; empty if it cannot be read.
fn read(path: &Path) -> String {
    fs::read_to_string(path).map_or_else(|_| String::new(), |text| text.trim().to_owned())
}

/// A number in a file, decimal or hexadecimal with `0x`.
fn read_number(path: &Path) -> Option<u32> {
    let text = read(path);
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The names in a folder, in order; none if it cannot be read.
fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// The last part of where a link leads.
fn link_name(path: &Path) -> Option<String> {
    let to = fs::read_link(path).ok()?;
    Some(to.file_name()?.to_str()?.to_owned())
}
