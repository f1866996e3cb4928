//! The sources that are compiled, in a directory that outlives the run.
#![forbid(unsafe_code)]

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use anyhow::{Context, Result};

use crate::{dirs::Dirs, excused, host, package::source};

/// Makes the directory equal to the sources. Files that are equal keep their time, by which cargo
/// knows that they have not changed.
///
/// # Errors
/// Of the file system.
pub fn update(dirs: &Dirs, into: &Path) -> Result<()> {
    let fresh = dirs.fresh("arm64-source")?;
    source::copy(&dirs.root, &fresh, &dirs.target)?;
    mirror(&fresh, into)?;
    fs::remove_dir_all(&fresh)?;
    Ok(())
}

fn mirror(from: &Path, into: &Path) -> Result<()> {
    fs::create_dir_all(into).with_context(|| into.display().to_string())?;
    let mut wanted = BTreeSet::new();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, place) = (entry.path(), into.join(entry.file_name()));
        let kind = entry.file_type()?;
        let found = place.symlink_metadata().map(|found| found.file_type());
        if found.is_ok_and(|found| found != kind) {
            remove(&place)?;
        }
        if kind.is_dir() {
            mirror(&source, &place)?;
        } else if kind.is_symlink() {
            if place.symlink_metadata().is_ok() {
                remove(&place)?;
            }
            std::os::unix::fs::symlink(fs::read_link(&source)?, &place)?;
        } else if !same(&source, &place)? {
            fs::copy(&source, &place).with_context(|| place.display().to_string())?;
        }
        wanted.insert(entry.file_name());
    }
    for entry in fs::read_dir(into)? {
        let entry = entry?;
        if !wanted.contains(&entry.file_name()) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Whether both files have the same contents and the same rights.
fn same(source: &Path, place: &Path) -> Result<bool> {
    let Ok(found) = place.metadata() else {
        return Ok(false);
    };
    let wanted = source.metadata()?;
    Ok(found.len() == wanted.len()
        && found.permissions() == wanted.permissions()
        && fs::read(source)? == fs::read(place)?)
}

fn remove(path: &Path) -> Result<()> {
    let is_dir = path.symlink_metadata()?.is_dir();
    if is_dir {
        fs::remove_dir_all(path)?;
    } else {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// The crates of `Cargo.lock`, for a cargo without a network.
///
/// # Errors
/// Of `cargo vendor`.
pub fn crates(dirs: &Dirs, into: &Path) -> Result<()> {
    let complete = into.with_extension("lock");
    let wanted = fs::read(dirs.root.join("Cargo.lock")).context("Cargo.lock")?;
    if fs::read(&complete).is_ok_and(|made| made == wanted) {
        return Ok(());
    }
    // A run that is interrupted from here on leaves them incomplete.
    if complete.exists() {
        fs::remove_file(&complete)?;
    }
    let mut vendor = Command::new("cargo");
    // Not quietly: the warnings show whether the registry was reached.
    vendor.args(["vendor", "--locked", "--versioned-dirs"]);
    vendor.arg("--respect-source-config").arg(into);
    let log = dirs.work.join("arm64-vendor.log");
    let vendored = host::must_run(vendor.current_dir(&dirs.root), &log);
    vendored.map_err(|error| {
        let printed = fs::read_to_string(&log).unwrap_or_default();
        excused::of_crates(error, &printed)
    })?;
    fs::write(&complete, wanted)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_files_keep_their_time_and_others_are_written_or_removed() -> Result<()> {
        let room = std::env::temp_dir().join(format!("xtask-mirror-{}", std::process::id()));
        let (from, into) = (room.join("from"), room.join("into"));
        fs::create_dir_all(from.join("a"))?;
        fs::write(from.join("a/same"), "1")?;
        fs::write(from.join("changes"), "1")?;
        fs::write(from.join("goes"), "1")?;
        mirror(&from, &into)?;
        let before = into.join("a/same").metadata()?.modified()?;
        fs::write(from.join("a/same"), "1")?;
        fs::write(from.join("changes"), "2")?;
        fs::remove_file(from.join("goes"))?;
        fs::create_dir(from.join("goes"))?;
        fs::write(into.join("stranger"), "")?;
        mirror(&from, &into)?;
        assert_eq!(into.join("a/same").metadata()?.modified()?, before);
        assert_eq!(fs::read(into.join("changes"))?, b"2");
        assert!(into.join("goes").is_dir());
        assert!(!into.join("stranger").exists());
        fs::remove_dir_all(&room)?;
        Ok(())
    }
}
