#![forbid(unsafe_code)]
//! Loading providers: shared objects named `lib<name>-rdmav34.so`.
//!
//! They are looked for, first match wins, in
//! 1. the folder that the library was built for, if the build named one by
//!    `FERROVERBS_PROVIDER_DIR`;
//! 2. the folder `libibverbs` beside the library's own file;
//! 3. the folders where distributions put them;
//! 4. where the dynamic linker looks, LD_LIBRARY_PATH included.
//!
//! A name that begins with a slash is a path without `-rdmav34.so`, and is looked for nowhere
//! else.

use super::config;
use crate::warn::warn;
use kit::sys::dl;
use std::cell::Cell;
use std::env::consts::ARCH;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The end of a provider's file name: the generation of the private interface.
const SUFFIX: &str = "-rdmav34.so";
/// Where the build was told that providers are.
const BUILT_FOR: Option<&str> = option_env!("FERROVERBS_PROVIDER_DIR");

thread_local! {
    static LOADING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is in [`all`]: what registers meanwhile is never unloaded.
pub fn is_loading() -> bool {
    LOADING.get()
}

/// Loads the providers named `first`, then all that the configuration names. What cannot be
/// loaded is warned of.
///
/// Several threads may do this at the same time: the dynamic linker loads a file once.
pub fn all(first: &[OsString]) {
    let folders = folders();
    let outer = LOADING.replace(true);
    for name in first {
        load(name, &folders);
    }
    for name in config::from_folder(Path::new(config::FOLDER)) {
        load(&name, &folders);
    }
    LOADING.set(outer);
}

/// The folders of this system that may hold providers.
fn folders() -> Vec<PathBuf> {
    let own = dl::Object::at(all as *const () as usize)
        .and_then(|object| object.file().canonicalize().ok())
        .and_then(|file| Some(file.parent()?.join("libibverbs")));
    let known = [
        format!("/usr/lib/{ARCH}-linux-gnu/libibverbs"),
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

fn load(name: &OsStr, folders: &[PathBuf]) {
    if let Err(message) = attempt(name, folders) {
        let name = name.display();
        warn(&format!(
            "Warning: couldn't load driver '{name}': {message}"
        ));
    }
}

/// The files to try, in this order.
fn candidates(name: &OsStr, folders: &[PathBuf]) -> Vec<OsString> {
    let with_suffix = |stem: &[u8]| [stem, SUFFIX.as_bytes()].concat();
    if name.as_bytes().starts_with(b"/") {
        return vec![OsStr::from_bytes(&with_suffix(name.as_bytes())).to_owned()];
    }
    let file = with_suffix(&[b"lib", name.as_bytes()].concat());
    let file = OsStr::from_bytes(&file);
    folders
        .iter()
        .map(|folder| folder.join(file))
        .filter(|path| path.exists())
        .map(OsString::from)
        .chain([file.to_owned()])
        .collect()
}

fn attempt(name: &OsStr, folders: &[PathBuf]) -> Result<(), String> {
    let mut first = None;
    for file in candidates(name, folders) {
        match dl::load(&file) {
            Ok(()) => return Ok(()),
            Err(message) => first.get_or_insert(message),
        };
    }
    Err(first.unwrap_or_default())
}

#[cfg(test)]
mod tests;
