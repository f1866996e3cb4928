//! Programs of Debian packages whose installation would start a server of the machine: unpacked
//! into the cache directory.
#![forbid(unsafe_code)]

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result};

use crate::{debian_deps, dirs::Dirs, host::must_run, pip};

/// A package. Its dependencies are installed, or are on each Debian machine.
pub struct Unpacked {
    pub package: &'static str,
    /// The folder of its programs.
    programs: &'static str,
}

/// A server of HTTP.
pub const NGINX: Unpacked = Unpacked {
    package: "nginx",
    programs: "usr/sbin",
};

/// The packages in a directory. All are found before the first is unpacked into it.
fn archives(home: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(home)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            found.push(path);
        }
    }
    Ok(found)
}

impl Unpacked {
    /// Sees to it that the programs are there.
    ///
    /// # Errors
    /// Of apt-get(8), dpkg-deb(1), and of the file system.
    pub fn provide(&self, dirs: &Dirs) -> Result<()> {
        static MAKING: Mutex<()> = Mutex::new(());
        let _one = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        let home = dirs.cache.join(self.directory());
        // Written last: an interrupted download is repeated.
        let complete = home.join("complete");
        if complete.exists() {
            return Ok(());
        }
        println!("-- {} into {}", self.package, home.display());
        if home.exists() {
            fs::remove_dir_all(&home)?;
        }
        fs::create_dir_all(&home).with_context(|| home.display().to_string())?;
        if self.download(dirs, &home).is_err() {
            // The machine's list of packages may name a version that the archive has replaced.
            debian_deps::apt(dirs, &["update".into()])?;
            self.download(dirs, &home)?;
        }
        for archive in archives(&home)? {
            let mut unpack = Command::new("dpkg-deb");
            unpack.arg("-x").arg(archive).arg(&home);
            must_run(&mut unpack, &dirs.work.join("unpack.log"))?;
        }
        Ok(fs::write(&complete, "")?)
    }

    fn download(&self, dirs: &Dirs, home: &Path) -> Result<()> {
        let mut download = Command::new("apt-get");
        download.args(["download", self.package]).current_dir(home);
        must_run(&mut download, &dirs.work.join("download.log"))
    }

    /// `PATH` with its programs before all others. They are where [`pip::show_in`] has shown the
    /// cache directory.
    ///
    /// # Errors
    /// There is a colon in the name of `dir`.
    pub fn path(&self, dir: &Path) -> Result<OsString> {
        let shown = dir.join(pip::SHOWN).join(self.directory());
        pip::first_in_path([shown.join(self.programs)])
    }

    fn directory(&self) -> String {
        format!("unpacked-{}", self.package)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packages_are_unpacked() {
        let name = format!("unpacked-{}", std::process::id());
        let home = std::env::temp_dir().join(name);
        fs::create_dir_all(home.join("usr")).unwrap();
        fs::write(home.join("nginx_1_amd64.deb"), "").unwrap();
        fs::write(home.join("list"), "").unwrap();
        let found = archives(&home).unwrap();
        fs::remove_dir_all(&home).unwrap();
        assert_eq!(found, [home.join("nginx_1_amd64.deb")]);
    }
}
