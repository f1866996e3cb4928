//! The stage `reproducible`: the Debian packages are built twice, in different folders, and have to
//! be equal byte for byte.
//!
//! It compiles everything twice, so it runs only if it is named.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use super::{
    Compiled,
    files::{below, unpack},
};
use crate::{dirs::Dirs, report::Tally};

pub const STAGE: &str = "reproducible";

/// Where the packages are built. The lengths of the paths differ, too.
const BUILDS: [&str; 2] = ["one", "another/folder"];

/// Builds and compares; each package is a test.
pub fn run(dirs: &Dirs) -> Tally {
    Tally::of(STAGE, |tally| {
        let job = dirs.fresh(STAGE)?;
        let [one, other] = BUILDS.map(|folder| job.join(folder));
        // Both copies first: the checkout may change during a build.
        for job in [&one, &other] {
            fs::create_dir_all(job)?;
            Compiled::copy(dirs, job)?;
        }
        for job in [&one, &other] {
            Compiled::below(dirs, job.clone())?.packages(dirs)?;
        }
        compare(&one, &other, tally)
    })
}

fn compare(one: &Path, other: &Path, tally: &mut Tally) -> Result<()> {
    let (one, other) = (packages(one)?, packages(other)?);
    if one.is_empty() || !one.keys().eq(other.keys()) {
        bail!("the builds made {:?} and {:?}", one.keys(), other.keys());
    }
    for ((name, one), other) in one.iter().zip(other.values()) {
        if fs::read(one)? == fs::read(other)? {
            tally.passed += 1;
        } else {
            let files = differing(one, other)?;
            tally.fail(format!("{STAGE}: {name} differs in {}", files.join(", ")));
        }
    }
    Ok(())
}

/// The packages in a directory, those of debug information as well, by name.
fn packages(dir: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".deb") {
            found.insert(name, entry.path());
        }
    }
    Ok(found)
}

/// The files in which two packages differ.
fn differing(one: &Path, other: &Path) -> Result<Vec<String>> {
    let mut contents = Vec::new();
    for package in [one, other] {
        let into = package.with_extension("unpacked");
        unpack(package, &into)?;
        let mut files = BTreeMap::new();
        for file in below(&into)? {
            let name = file.strip_prefix(&into)?.display().to_string();
            let contents = match fs::read_link(&file) {
                Ok(target) => target.into_os_string().into_encoded_bytes(),
                Err(_) => fs::read(&file)?,
            };
            files.insert(name, contents);
        }
        contents.push(files);
    }
    let [one, other] = contents.as_slice() else {
        bail!("two packages are compared");
    };
    let names = one
        .keys()
        .chain(other.keys().filter(|name| !one.contains_key(*name)));
    let differ = names.filter(|name| one.get(*name) != other.get(*name));
    let mut differ: Vec<_> = differ.cloned().collect();
    if differ.is_empty() {
        differ.push("its archive's own data".to_owned());
    }
    Ok(differ)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::must;
    use std::process::Command;

    /// A package with a file of these contents.
    fn package(dir: &Path, contents: &str) {
        let tree = dir.join("tree");
        fs::create_dir_all(tree.join("DEBIAN")).unwrap();
        fs::create_dir_all(tree.join("usr/lib")).unwrap();
        let control = "Package: a\nVersion: 1\nArchitecture: all\nMaintainer: a <a@a>\n\
            Description: a\n";
        fs::write(tree.join("DEBIAN/control"), control).unwrap();
        fs::write(tree.join("usr/lib/same"), "same").unwrap();
        fs::write(tree.join("usr/lib/other"), contents).unwrap();
        let mut build = Command::new("dpkg-deb");
        build.args(["--build", "--root-owner-group"]).arg(&tree);
        build
            .arg(dir.join("a_1_all.deb"))
            .env("SOURCE_DATE_EPOCH", "1");
        must(&mut build).unwrap();
    }

    fn compared(contents: [&str; 2]) -> Tally {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = BUILDS.map(|folder| dir.path().join(folder));
        for (job, contents) in [&one, &other].into_iter().zip(contents) {
            package(job, contents);
        }
        Tally::of(STAGE, |tally| compare(&one, &other, tally))
    }

    #[test]
    fn a_difference_is_named() {
        let tally = compared(["a", "b"]);
        let wanted = "reproducible: a_1_all.deb differs in usr/lib/other";
        assert_eq!(tally.failures, [wanted]);
        let tally = compared(["a", "a"]);
        assert_eq!((tally.passed, tally.failures.len()), (1, 0));
    }

    #[test]
    fn no_package_is_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        let tally = Tally::of(STAGE, |tally| compare(dir.path(), dir.path(), tally));
        assert_eq!(tally.failures.len(), 1);
    }
}
