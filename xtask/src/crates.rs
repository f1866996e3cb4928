//! Tests and examples of other people's crates, compiled against this project's headers into the
//! cache directory.
//!
//! `xtask/crates` pins the crates; the lock file in each crate pins its dependencies.
#![forbid(unsafe_code)]

use std::{
    ffi::OsString,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result, bail};

use crate::{
    dirs::{Dirs, LIBRARY},
    host,
    host::must_run,
};

/// The package that names the crates, below the checkout.
const PINS: &str = "xtask/crates";
/// Where all this is, below the cache directory.
const HOME: &str = "crates";

/// A crate whose tests and examples are run.
pub struct Crate {
    pub name: &'static str,
    pub version: &'static str,
    /// Files of the crate's directory `tests` that are left out, without their endings.
    pub left_out: &'static [&'static str],
    /// The environment of its build script.
    pub env: &'static [(&'static str, &'static str)],
}

/// The crates of a suite.
pub struct Crates(pub &'static [Crate]);

impl Crates {
    /// Sees to it that the programs are there.
    ///
    /// # Errors
    /// Of cargo, of the compiler, and of the file system.
    pub fn provide(&self, dirs: &Dirs) -> Result<()> {
        static MAKING: Mutex<()> = Mutex::new(());
        let _one = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        let home = dirs.cache.join(HOME);
        let pins = dirs.root.join(PINS);
        // Written last, so that an interrupted build is repeated, and one with other headers or
        // versions.
        let complete = home.join("complete");
        let wanted = made_of(&pins.join("Cargo.lock"), &dirs.root.join("include"))?;
        if fs::read_to_string(&complete).is_ok_and(|made| made == wanted) {
            return Ok(());
        }
        if home.exists() {
            fs::remove_dir_all(&home)?;
        }
        fs::create_dir_all(home.join("bin")).with_context(|| home.display().to_string())?;
        let mut vendor = Command::new("cargo");
        vendor.args(["vendor", "--quiet", "--locked", "--versioned-dirs"]);
        vendor.arg("--manifest-path").arg(pins.join("Cargo.toml"));
        vendor.arg(home.join("sources")).current_dir(&home);
        must_run(&mut vendor, &dirs.work.join("vendor.log"))?;
        for one in self.0 {
            println!("-- {} {} into {}", one.name, one.version, home.display());
            one.compile(dirs, &home)
                .with_context(|| format!("the crate {}", one.name))?;
        }
        Ok(fs::write(&complete, wanted)?)
    }

    /// Where the programs are, below the cache directory.
    pub fn programs(&self, cache: &Path) -> PathBuf {
        cache.join(HOME).join("bin")
    }
}

impl Crate {
    /// Leaves its tests and examples in the directory `bin`: `NAME-lib` for the tests in its
    /// sources, `NAME-FILE` for a file of tests or an example.
    fn compile(&self, dirs: &Dirs, home: &Path) -> Result<()> {
        let log = dirs.work.join(format!("crate-{}.log", self.name));
        let built = self.cargo(dirs, home, &["test", "--no-run", "--lib", "--tests"])?;
        let built = host::run(&mut { built }, &log, None)?;
        if !built.status.success() {
            bail!("its tests do not compile; see {}", log.display());
        }
        for (name, path) in executables(&built.text) {
            if !self.left_out.contains(&name) {
                self.link(home, name, Path::new(path))?;
            }
        }
        must_run(&mut self.cargo(dirs, home, &["build", "--examples"])?, &log)?;
        let examples = self.source(home).join("examples");
        for example in fs::read_dir(&examples).with_context(|| examples.display().to_string())? {
            let example = example?.path();
            let name = example.file_stem().and_then(|stem| stem.to_str());
            let name = name.with_context(|| example.display().to_string())?;
            let program = self.target(home).join("debug/examples").join(name);
            self.link(home, name, &program)?;
        }
        Ok(())
    }

    fn cargo(&self, dirs: &Dirs, home: &Path, words: &[&str]) -> Result<Command> {
        let manifest = self.source(home).join("Cargo.toml");
        let mut command = Command::new("cargo");
        command.args(words).arg("--locked");
        command.arg("--manifest-path").arg(manifest);
        command.env("CARGO_TARGET_DIR", self.target(home));
        // bindgen would define items of its headers again; this defines them first.
        let mut headers = OsString::from("-I");
        headers.push(dirs.root.join("include"));
        headers.push(" -include infiniband/verbs.h");
        command.env("BINDGEN_EXTRA_CLANG_ARGS", headers);
        command.env("LIBRARY_PATH", linked(dirs, home)?);
        command.envs(self.env.iter().copied());
        Ok(command)
    }

    fn source(&self, home: &Path) -> PathBuf {
        home.join("sources")
            .join(format!("{}-{}", self.name, self.version))
    }

    fn target(&self, home: &Path) -> PathBuf {
        home.join("target").join(self.name)
    }

    fn link(&self, home: &Path, name: &str, program: &Path) -> Result<()> {
        let link = home.join("bin").join(format!("{}-{name}", self.name));
        symlink(program, &link).with_context(|| link.display().to_string())
    }
}

/// A directory with the library under the name that a linker looks for.
fn linked(dirs: &Dirs, home: &Path) -> Result<PathBuf> {
    let dir = home.join("lib");
    fs::create_dir_all(&dir)?;
    let link = dir.join(LIBRARY);
    match fs::remove_file(&link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => symlink(dirs.built()?, &link)?,
    }
    Ok(dir)
}

/// The test programs that cargo names: `lib` or the file of tests, and the path.
fn executables(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        let line = line.trim_start().strip_prefix("Executable ")?;
        let (what, path) = line.strip_suffix(')')?.split_once(" (")?;
        let file = what.rsplit_once(' ').map_or(what, |(_, file)| file);
        let name = file.strip_suffix(".rs")?;
        Some((name.rsplit_once('/').map_or(name, |(_, name)| name), path))
    })
}

/// A description of the sources, by which outdated programs are found.
fn made_of(lock: &Path, headers: &Path) -> Result<String> {
    let mut digest = DefaultHasher::new();
    hash_files(headers, &mut digest)?;
    let lock = fs::read_to_string(lock).with_context(|| lock.display().to_string())?;
    Ok(format!("headers {:016x}\n{lock}", digest.finish()))
}

/// Hashes names and bytes of all files below a directory.
fn hash_files(dir: &Path, digest: &mut DefaultHasher) -> Result<()> {
    let entries = fs::read_dir(dir).with_context(|| dir.display().to_string())?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        path.file_name().hash(digest);
        if path.is_dir() {
            hash_files(&path, digest)?;
        } else {
            fs::read(&path)?.hash(digest);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_in_the_output_of_cargo() {
        let text = "   Compiling sideway v0.4.3 (/c/sideway-0.4.3)
  Executable unittests src/lib.rs (/c/deps/sideway-fa023df47282c0de)
  Executable tests/test_qp.rs (/c/deps/test_qp-504c01d01d5ed88a)\n";
        let found: Vec<_> = executables(text).collect();
        let wanted = [
            ("lib", "/c/deps/sideway-fa023df47282c0de"),
            ("test_qp", "/c/deps/test_qp-504c01d01d5ed88a"),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn other_headers_or_versions_make_all_anew() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let (lock, headers) = (dir.path().join("lock"), dir.path().join("include"));
        fs::write(&lock, "one")?;
        fs::create_dir_all(headers.join("inner"))?;
        fs::write(headers.join("inner/verbs.h"), "int a;")?;
        let first = made_of(&lock, &headers)?;
        assert_eq!(made_of(&lock, &headers)?, first);
        fs::write(headers.join("inner/verbs.h"), "int b;")?;
        let second = made_of(&lock, &headers)?;
        assert_ne!(second, first);
        fs::write(&lock, "two")?;
        assert_ne!(made_of(&lock, &headers)?, second);
        Ok(())
    }

    #[test]
    fn the_lock_file_pins_the_run_crates() -> Result<()> {
        let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/Cargo.lock");
        let lock = fs::read_to_string(lock)?;
        for one in crate::suites::crates::ALL.0 {
            let pin = format!("name = \"{}\"\nversion = \"{}\"\n", one.name, one.version);
            assert!(lock.contains(&pin), "{pin}");
        }
        Ok(())
    }
}
