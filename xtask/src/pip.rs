//! Programs from Python's package index, each in a separate environment in the cache directory.
#![forbid(unsafe_code)]

use std::{
    env,
    ffi::OsString,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result};

use crate::{dirs::Dirs, host::must_run};

/// The cache directory, in that of a job.
pub const SHOWN: &str = "cache";

/// Arguments of pip(1).
pub struct Package {
    /// With versions. The environment is called like the first.
    pub names: &'static [&'static str],
    /// Ends the name of its environment where something was changed in it.
    pub variant: &'static str,
    /// Whether the dependencies of the package are installed.
    pub with_others: bool,
    /// With versions, those whose sources are unpacked into the environment, for their tests.
    pub sources: &'static [&'static str],
}

/// Where they are, each in a directory called like its package.
const SOURCES: &str = "sources";

impl Package {
    /// Sees to it that the package is there.
    ///
    /// # Errors
    /// Of pip(1) and of the file system.
    pub fn provide(&self, dirs: &Dirs) -> Result<()> {
        self.provide_finished(dirs, |_| Ok(())).map(drop)
    }

    /// The same; returns its environment. `finish` runs before a new one counts as
    /// complete.
    ///
    /// # Errors
    /// Of pip(1), of `finish`, and of the file system.
    pub fn provide_finished(
        &self,
        dirs: &Dirs,
        finish: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        // Stages that run side by side may want the same.
        static MAKING: Mutex<()> = Mutex::new(());
        let _one = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        let home = dirs.cache.join(self.directory());
        // Written last: an interrupted installation is repeated, and so is one of other versions.
        let complete = home.join("complete");
        let wanted = [self.names, self.sources].concat().join("\n");
        if fs::read_to_string(&complete).is_ok_and(|made| made == wanted) {
            return Ok(home);
        }
        println!("-- {} into {}", self.names.join(" "), home.display());
        if home.exists() {
            fs::remove_dir_all(&home)?;
        }
        fs::create_dir_all(&dirs.cache).with_context(|| dirs.cache.display().to_string())?;
        let log = dirs.work.join("venv.log");
        let mut venv = Command::new("/usr/bin/python3");
        must_run(venv.args(["-m", "venv"]).arg(&home), &log)?;
        let mut pip = Command::new(home.join("bin/pip"));
        pip.args(["install", "--disable-pip-version-check"]);
        pip.args((!self.with_others).then_some("--no-deps"));
        must_run(pip.args(self.names), &log)?;
        for name in self.sources {
            unpack(name, &home, &log)?;
        }
        finish(&home)?;
        fs::write(&complete, wanted)?;
        Ok(home)
    }

    /// Its programs, Python among them, where [`show_in`] has shown the cache directory.
    fn programs(&self, dir: &Path) -> PathBuf {
        dir.join(SHOWN).join(self.directory()).join("bin")
    }

    fn directory(&self) -> String {
        self.names
            .first()
            .copied()
            .unwrap_or_default()
            .replace("==", "-")
            + self.variant
    }
}

/// Unpacks the sources of a package. pip(1) asks their build for the dependencies, and compiles
/// nothing.
fn unpack(name: &str, home: &Path, log: &Path) -> Result<()> {
    let sources = home.join(SOURCES);
    let mut pip = Command::new(home.join("bin/pip"));
    pip.args(["download", "--disable-pip-version-check", "--no-deps"]);
    pip.args(["--no-binary", ":all:", "--dest"]).arg(&sources);
    must_run(pip.arg(name), log)?;
    let archive = sources.join(name.replace("==", "-") + ".tar.gz");
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(archive).arg("-C").arg(sources);
    must_run(&mut tar, log)
}

/// `PATH` with the programs of packages before all others. The first package's come first.
///
/// # Errors
/// There is a colon in the name of `dir`.
pub fn path<'a>(packages: impl IntoIterator<Item = &'a Package>, dir: &Path) -> Result<OsString> {
    first_in_path(packages.into_iter().map(|package| package.programs(dir)))
}

/// Lets a job find the packages by its own directory, which it knows wherever it runs.
///
/// # Errors
/// Of the file system.
pub fn show_in(dir: &Path, dirs: &Dirs) -> Result<()> {
    symlink(&dirs.cache, dir.join(SHOWN)).context("the way to the packages")
}

/// `PATH` with directories before all others.
///
/// # Errors
/// There is a colon in the name of one.
pub fn first_in_path(directories: impl IntoIterator<Item = PathBuf>) -> Result<OsString> {
    let others = env::var_os("PATH").unwrap_or_default();
    let all = directories.into_iter().chain(env::split_paths(&others));
    env::join_paths(all).context("PATH")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_is_named_for_its_version_and_variant() {
        let package = Package {
            names: &["one==2", "three==4"],
            variant: "-changed",
            with_others: true,
            sources: &[],
        };
        assert_eq!(package.directory(), "one-2-changed");
    }

    #[test]
    fn programs_of_the_first_package_come_first() -> Result<()> {
        let named = |names| Package {
            names,
            variant: "",
            with_others: false,
            sources: &[],
        };
        let path = path(
            [&named(&["one==2"]), &named(&["three==4"])],
            Path::new("/j"),
        )?;
        let found: Vec<_> = env::split_paths(&path).take(2).collect();
        let wanted = ["/j/cache/one-2/bin", "/j/cache/three-4/bin"].map(PathBuf::from);
        assert_eq!(found, wanted);
        Ok(())
    }
}
