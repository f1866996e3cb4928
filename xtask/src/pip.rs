//! Programs from Python's package index, each in a separate environment in the cache directory.
#![forbid(unsafe_code)]

use std::{
    env,
    ffi::OsString,
    fs, iter,
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
}

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
        let wanted = self.names.join("\n");
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
        finish(&home)?;
        fs::write(&complete, wanted)?;
        Ok(home)
    }

    /// `PATH` with its programs, Python among them, before all others. They are where [`show_in`]
    /// has shown the cache directory.
    ///
    /// # Errors
    /// There is a colon in the name of `dir`.
    pub fn path(&self, dir: &Path) -> Result<OsString> {
        first_in_path(dir.join(SHOWN).join(self.directory()).join("bin"))
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

/// Lets a job find the packages by its own directory, which it knows wherever it runs.
///
/// # Errors
/// Of the file system.
pub fn show_in(dir: &Path, dirs: &Dirs) -> Result<()> {
    symlink(&dirs.cache, dir.join(SHOWN)).context("the way to the packages")
}

/// `PATH` with a directory before all others.
///
/// # Errors
/// There is a colon in its name.
pub fn first_in_path(directory: PathBuf) -> Result<OsString> {
    let others = env::var_os("PATH").unwrap_or_default();
    let all = iter::once(directory).chain(env::split_paths(&others));
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
        };
        assert_eq!(package.directory(), "one-2-changed");
    }
}
