#![forbid(unsafe_code)]
//! Loading providers: shared objects named `lib<name>-rdmav<node>.so`, with the number of their
//! private node.
//!
//! They are looked for, first match wins and in each place the latest node first, in
//! 1. the folder that the library was built for, if the build named one by
//!    `FERROVERBS_PROVIDER_DIR`;
//! 2. the folder `libibverbs` beside the library's own file;
//! 3. the folders where distributions put them;
//! 4. where the dynamic linker looks, LD_LIBRARY_PATH included.
//!
//! A name that begins with a slash is a path without `-rdmav<node>.so`, and is looked for nowhere
//! else.

use super::config::{self, Wanted};
use super::debian;
use super::foreign::is_foreign;
use super::generation::Wish;
use crate::warn::warn;
use kit::generation::NODES;
use kit::sys::{dl, first::First, forks, lock::Lock};
use std::cell::RefCell;
use std::env::consts::ARCH;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The end of a provider's file name.
fn suffix(node: u16) -> String {
    format!("-rdmav{node}.so")
}

/// The directory of providers that was configured at build time.
const BUILT_FOR: Option<&str> = option_env!("FERROVERBS_PROVIDER_DIR");

/// A provider that a thread is loading.
#[derive(Default)]
struct Loading {
    /// The release that its line gives.
    release: Option<u16>,
    /// Why it was refused when it registered.
    refused: Option<String>,
}

thread_local! {
    static LOADING: RefCell<Option<Loading>> = const { RefCell::new(None) };
}

/// Whether this thread is in [`load`]: providers that register meanwhile are never unloaded.
pub fn is_loading() -> bool {
    LOADING.with_borrow(Option::is_some)
}

/// The release in the line of the provider that this thread is loading.
pub fn wish() -> Option<Wish> {
    let release = LOADING.with_borrow(|loading| loading.as_ref()?.release)?;
    let from = "its line in the configuration";
    Some(Wish { release, from })
}

/// Notes that the provider that this thread is loading is not used. False when it loads none.
pub fn refuse(reason: &str) -> bool {
    LOADING.with_borrow_mut(|loading| match loading {
        None => false,
        Some(loading) => {
            loading.refused = Some(reason.to_owned());
            true
        }
    })
}

/// How many of the configured providers are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent<'a> {
    /// All but those of rdma-core that are for other kernel drivers than these, which are known.
    For(&'a [u32]),
    /// All.
    All,
}

/// The providers of the configuration. It is read once.
static CONFIGURED: First<Vec<Wanted>> = First::new();

/// The providers that were tried already, loaded or not.
static TRIED: Lock<Vec<Wanted>> = Lock::new(Vec::new());

/// Has fork(2) wait while another thread notes one.
pub fn across_forks() {
    let _ = forks::wait_for(&TRIED);
}

/// Loads the providers named `first`, then those that the configuration names, each once in the
/// life of the process. A provider that cannot be loaded causes a warning.
///
/// Several threads may do this at the same time: the dynamic linker loads a file once. A provider
/// counts as tried when it has registered, so that no thread continues without it.
pub fn load(first: &[OsString], extent: Extent<'_>) {
    let folders = folders();
    let named = first.iter().map(|name| Wanted {
        name: name.clone(),
        release: None,
    });
    let read = || config::from_folder(Path::new(config::FOLDER));
    let configured = CONFIGURED
        .get_or_make(read)
        .iter()
        .filter(|wanted| match extent {
            Extent::For(devices) => !is_foreign(wanted, devices),
            Extent::All => true,
        });
    for wanted in named.chain(configured.cloned()) {
        if !TRIED.lock().contains(&wanted) {
            load_one(&wanted, &folders);
            TRIED.lock().push(wanted);
        }
    }
}

/// The folders of this system that may hold providers.
fn folders() -> Vec<PathBuf> {
    let own = dl::Object::at(folders as *const () as usize)
        .and_then(|object| object.file().canonicalize().ok())
        .and_then(|file| Some(file.parent()?.join("libibverbs")));
    let known = [
        format!("/usr/lib/{}/libibverbs", debian::triplet(ARCH)),
        "/usr/lib64/libibverbs".to_owned(),
        "/usr/lib/libibverbs".to_owned(),
    ];
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in BUILT_FOR
        .map(PathBuf::from)
        .into_iter()
        .chain(own)
        .chain(known.map(PathBuf::from))
    {
        if !folders.contains(&folder) && folder.is_dir() {
            folders.push(folder);
        }
    }
    folders
}

fn load_one(wanted: &Wanted, folders: &[PathBuf]) {
    if let Err(message) = attempt(wanted, folders) {
        let name = wanted.name.display();
        warn(&format!(
            "Warning: couldn't load driver '{name}': {message}"
        ));
    }
}

/// The files to try, in this order: those that are there, and those that the dynamic linker is to
/// look for.
struct Candidates {
    there: Vec<PathBuf>,
    anywhere: Vec<OsString>,
}

fn candidates(name: &OsStr, folders: &[PathBuf]) -> Candidates {
    let files = |stem: &[u8]| {
        let file = |node| [stem, suffix(node).as_bytes()].concat();
        NODES.map(|node| OsStr::from_bytes(&file(node)).to_owned())
    };
    if name.as_bytes().starts_with(b"/") {
        let files = files(name.as_bytes());
        let there = files.iter().map(PathBuf::from).filter(|p| p.exists());
        return Candidates {
            there: there.collect(),
            anywhere: Vec::new(),
        };
    }
    let files = files(&[b"lib", name.as_bytes()].concat());
    let in_folder = |folder: &PathBuf| files.clone().map(|file| folder.join(file));
    let there = folders.iter().flat_map(in_folder).filter(|p| p.exists());
    Candidates {
        there: there.collect(),
        anywhere: files.to_vec(),
    }
}

/// Loads the first file that can be, and is not refused. The reason is that of the first file
/// that is there.
fn attempt(wanted: &Wanted, folders: &[PathBuf]) -> Result<(), String> {
    let Candidates { there, anywhere } = candidates(&wanted.name, folders);
    let mut reason = None;
    for file in &there {
        match try_file(file.as_os_str(), wanted.release) {
            Ok(()) => return Ok(()),
            Err(message) => reason.get_or_insert(message),
        };
    }
    let mut missing = None;
    for file in &anywhere {
        match try_file(file, wanted.release) {
            Ok(()) => return Ok(()),
            // The last one is of the oldest node, which most systems have.
            Err(message) => missing = Some(message),
        }
    }
    let reason = reason.or_else(|| unknown_node(&wanted.name, folders));
    Err(reason.or(missing).unwrap_or_else(|| {
        let files = NODES.map(suffix).join(", ");
        format!("no such file with {files} behind it")
    }))
}

fn try_file(file: &OsStr, release: Option<u16>) -> Result<(), String> {
    let loading = Loading {
        release,
        refused: None,
    };
    let outer = LOADING.replace(Some(loading));
    let loaded = dl::load(file);
    let loading = LOADING.replace(outer).unwrap_or_default();
    loaded.and(loading.refused.map_or(Ok(()), Err))
}

/// Files of the name that are of a node that is not known here.
fn unknown_node(name: &OsStr, folders: &[PathBuf]) -> Option<String> {
    let path = Path::new(name);
    let (folders, stem) = match name.as_bytes().starts_with(b"/") {
        true => (
            vec![path.parent()?.to_owned()],
            path.file_name()?.to_owned(),
        ),
        false => {
            let stem = [b"lib", name.as_bytes()].concat();
            (folders.to_vec(), OsStr::from_bytes(&stem).to_owned())
        }
    };
    let begin = [stem.as_bytes(), b"-rdmav"].concat();
    let known = NODES.map(|node| node.to_string()).join(", ");
    folders
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flat_map(|entries| entries.map_while(Result::ok))
        .find(|entry| entry.file_name().as_bytes().starts_with(&begin))
        .map(|entry| {
            let file = entry.path();
            format!(
                "{} is of a generation that this library does not know (it knows {known})",
                file.display()
            )
        })
}

#[cfg(test)]
mod tests;
