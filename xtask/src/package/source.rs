//! A copy of the sources, as a release of them would be unpacked.
#![forbid(unsafe_code)]

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use anyhow::{Context, Result, bail};

/// Copies the files that git would commit; without git, everything but build results.
pub fn copy(root: &Path, into: &Path, target: &Path) -> Result<()> {
    let listed = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output();
    match listed {
        Ok(output) if output.status.success() => copy_listed(root, into, &output.stdout),
        _ => copy_tree(root, into, target),
    }
}

fn copy_listed(root: &Path, into: &Path, list: &[u8]) -> Result<()> {
    let list = std::str::from_utf8(list).context("a file name that is not UTF-8")?;
    for name in list.split_terminator('\0') {
        let from = root.join(name);
        // Deleted, and not committed yet.
        if from.symlink_metadata().is_err() {
            continue;
        }
        copy_file(&from, &into.join(name))?;
    }
    Ok(())
}

fn copy_tree(from: &Path, into: &Path, target: &Path) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let path = entry.path();
        let results = ["target", ".git", "cargo-target", "vendor"];
        if path == target || results.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        let place = into.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&path, &place, target)?;
        } else {
            copy_file(&path, &place)?;
        }
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> Result<()> {
    let Some(parent) = to.parent() else {
        bail!("{} has no place", to.display());
    };
    fs::create_dir_all(parent)?;
    let copied = match fs::read_link(from) {
        Ok(target) => symlink(target, to),
        Err(_) => fs::copy(from, to).map(|_| ()),
    };
    copied.with_context(|| format!("copy {}", from.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for name in ["src/a.rs", "target/x", "debian/vendor/y", "debian/rules"] {
            let path = dir.path().join("from").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        dir
    }

    #[test]
    fn build_results_stay_behind() {
        let dir = tree();
        let (from, into) = (dir.path().join("from"), dir.path().join("into"));
        copy_tree(&from, &into, &from.join("src")).unwrap();
        assert!(into.join("debian/rules").exists());
        for left in ["target", "debian/vendor", "src"] {
            assert!(!into.join(left).exists(), "{left}");
        }
    }

    #[test]
    fn a_link_to_a_folder_stays_one() {
        let dir = tree();
        let (from, into) = (dir.path().join("from"), dir.path().join("into"));
        fs::create_dir(from.join("rlib")).unwrap();
        symlink("../src", from.join("rlib/src")).unwrap();
        copy_listed(&from, &into, b"rlib/src\0src/a.rs\0").unwrap();
        copy_tree(&from, &dir.path().join("tree"), &from.join("target")).unwrap();
        for copy in [into, dir.path().join("tree")] {
            let link = fs::read_link(copy.join("rlib/src")).unwrap();
            assert_eq!(link, Path::new("../src"));
            assert!(copy.join("rlib/src/a.rs").exists());
        }
    }

    #[test]
    fn listed_files_are_copied_if_they_are_there() {
        let dir = tree();
        let (from, into) = (dir.path().join("from"), dir.path().join("into"));
        copy_listed(&from, &into, b"src/a.rs\0gone\0").unwrap();
        assert_eq!(
            fs::read_to_string(into.join("src/a.rs")).unwrap(),
            "src/a.rs"
        );
        assert!(!into.join("debian").exists());
    }
}
