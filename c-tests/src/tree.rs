//! Where the sources stand, and which of them there are.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::Result;

/// The requirements of a program, and the reference for its output.
///
/// Each set is a folder under `programs/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Set {
    /// Needs no RDMA device; the stock library and ours must print the same.
    NoDevice,
    /// Needs the device `rxe0`; the stock library and ours must print the same.
    Rxe,
    /// As [`Set::Rxe`], with answers that only the ioctl interface of the kernel
    /// gives; left out where `IBVERBS_FORCE_WRITE` takes the write interface.
    Ioctl,
    /// As [`Set::Rxe`], with numbers of the kernel's that the program writes into objects. A
    /// provider in C names the object by it; the library's own ones do not look there.
    Plugin,
    /// As [`Set::Rxe`], over librdmacm; left out over a library that has no librdmacm beside it.
    Rdmacm,
    /// Examples of the manual pages inside a template; needs `rxe0`.
    Man,
    /// Checks itself, by conditions that the stock library may not meet, so it
    /// runs only on ours. Needs no device.
    SelfChecking,
    /// Uses features that the stock library lacks, so it is compiled with our headers and runs only
    /// on our library. Needs no device.
    Post44,
    /// As [`Set::Post44`]; needs `rxe0`.
    Post44Rxe,
}

impl Set {
    /// All sets, in the order in which they run.
    pub const ALL: [Set; 9] = [
        Set::NoDevice,
        Set::Rxe,
        Set::Ioctl,
        Set::Plugin,
        Set::Rdmacm,
        Set::Man,
        Set::SelfChecking,
        Set::Post44,
        Set::Post44Rxe,
    ];

    /// Whether its programs need features that only our headers and our library have.
    #[must_use]
    pub fn is_post_44(self) -> bool {
        matches!(self, Set::Post44 | Set::Post44Rxe)
    }

    /// Whether its programs run on our library alone.
    #[must_use]
    pub fn is_ours(self) -> bool {
        self == Set::SelfChecking || self.is_post_44()
    }

    /// Whether its programs need `rxe0`. The others are run by `cargo test`, on this machine.
    #[must_use]
    pub fn needs_device(self) -> bool {
        match self {
            Set::NoDevice | Set::SelfChecking | Set::Post44 => false,
            Set::Rxe | Set::Ioctl | Set::Plugin | Set::Rdmacm | Set::Man | Set::Post44Rxe => true,
        }
    }

    /// The folder's name, which is also the name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Set::NoDevice => "no_device",
            Set::Rxe => "rxe",
            Set::Ioctl => "ioctl",
            Set::Plugin => "plugin",
            Set::Rdmacm => "rdmacm",
            Set::Man => "man",
            Set::SelfChecking => "self_checking",
            Set::Post44 => "post_44",
            Set::Post44Rxe => "post_44_rxe",
        }
    }

    /// The set of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Set> {
        Set::ALL.into_iter().find(|set| set.name() == name)
    }
}

/// One C program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Program {
    /// The folder it stands in.
    pub set: Set,
    /// File name without `.c`.
    pub name: String,
}

impl Program {
    /// `set/name`, as results are keyed.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}", self.set.name(), self.name)
    }

    /// The program of that key.
    #[must_use]
    pub fn from_key(key: &str) -> Option<Program> {
        let (set, name) = key.split_once('/')?;
        Some(Program {
            set: Set::from_name(set)?,
            name: name.to_owned(),
        })
    }

    /// Its source file.
    #[must_use]
    pub fn source(&self) -> PathBuf {
        programs_dir()
            .join(self.set.name())
            .join(format!("{}.c", self.name))
    }
}

/// The folder of this package.
#[must_use]
pub fn package_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of the workspace.
#[must_use]
pub fn workspace_dir() -> &'static Path {
    package_dir().parent().unwrap_or(Path::new("."))
}

/// The folder that holds one folder per [`Set`].
#[must_use]
pub fn programs_dir() -> PathBuf {
    package_dir().join("programs")
}

/// Every program, sorted.
///
/// # Errors
/// When a folder of the sources cannot be read.
pub fn programs() -> Result<Vec<Program>> {
    let mut found = Vec::new();
    for set in Set::ALL {
        let dir = programs_dir().join(set.name());
        for name in c_files(&dir)? {
            found.push(Program { set, name });
        }
    }
    found.sort();
    Ok(found)
}

fn c_files(dir: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|ext| ext != "c") {
            continue;
        }
        if let Some(stem) = path.file_stem() {
            names.push(stem.to_string_lossy().into_owned());
        }
    }
    Ok(names)
}
