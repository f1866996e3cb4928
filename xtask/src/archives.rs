//! What cargo keeps of an earlier run of the stage `archives`.
//!
//! Crates that depend on each other are compiled from their archives as from a registry. A version
//! in a registry never changes. So cargo uses compiled crates of an earlier run again, and sources
//! that were unpacked under the home of cargo for the same path of a target directory. Here the
//! version stays while the sources change.
#![forbid(unsafe_code)]

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::dirs::Dirs;

/// A crate of each such registry, without its version.
const CRATE: &str = "ferroverbs-kit-";

/// The target directory of the stage.
pub fn target(dirs: &Dirs) -> PathBuf {
    dirs.target.join("archives")
}

/// Removes all of it.
///
/// # Errors
/// Of the file system.
pub fn forget(dirs: &Dirs) -> Result<()> {
    remove(&target(dirs))?;
    let sources = home()?.join("registry/src");
    for registry in of_archives(&sources)? {
        remove(&registry)?;
    }
    Ok(())
}

fn home() -> Result<PathBuf> {
    if let Some(home) = env::var_os("CARGO_HOME") {
        return Ok(home.into());
    }
    let home = env::var_os("HOME").context("neither CARGO_HOME nor HOME is set")?;
    Ok(Path::new(&home).join(".cargo"))
}

fn remove(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.with_context(|| directory.display().to_string()),
    }
}

/// The registries in a directory that consist of archives of this project. Cargo names a registry
/// by its host and a number; one of files has no host.
fn of_archives(sources: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(sources) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| sources.display().to_string())?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(b"-") && has_crate(&entry.path())? {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn has_crate(registry: &Path) -> Result<bool> {
    for entry in fs::read_dir(registry)? {
        if entry?.file_name().to_string_lossy().starts_with(CRATE) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_registries_of_archives_are_found() {
        let sources = env::temp_dir().join(format!("registries-{}", std::process::id()));
        let all = [
            "-1/ferroverbs-kit-0.1.0",
            "-2/another-0.1.0",
            "index-3/ferroverbs-kit-0.1.0",
        ];
        for of in all {
            fs::create_dir_all(sources.join(of)).unwrap();
        }
        let found = of_archives(&sources).unwrap();
        let none = of_archives(&sources.join("missing")).unwrap();
        fs::remove_dir_all(&sources).unwrap();
        assert_eq!(found, [sources.join("-1")]);
        assert!(none.is_empty());
    }
}
