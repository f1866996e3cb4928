//! Finds the facts.
//!
//! Files are read below a root, which tests replace by a temporary folder. A file that is missing
//! or unreadable is a fact, not an error.

mod cards;
mod cm;
mod devices;
mod library;
mod plugins;
mod root;
mod system;
pub mod verbs;

pub use root::Probe;
use std::path::{Path, PathBuf};

use crate::facts::Facts;

impl Probe {
    /// The machine, or a folder in its place. `SYSFS_PATH` names another sysfs, as it does for the
    /// library.
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
            cm: cm::all(self),
            plugins: plugins::all(self),
            memlock: system::memlock(),
            interfaces: system::interfaces(self),
            verbs: None,
        }
    }

    /// Whether this is the machine itself, and no test folder.
    fn is_this_machine(&self) -> bool {
        self.root == Path::new("/")
    }

    fn sys(&self, path: &str) -> PathBuf {
        self.sys.join(path)
    }

    fn file(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}
