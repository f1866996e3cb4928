//! The directories: the checkout, cargo's target directory, the cache outside both.
#![forbid(unsafe_code)]

use std::{
    env, fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

/// The compiled C tests, below the target directory. The package's own tests put them there too, so
/// that they are compiled once.
pub const C_PROGRAMS: &str = "c-tests/programs";

/// Cargo's directory of examples, beside the programs.
pub const EXAMPLES: &str = "examples";

/// Cargo's name of the library.
pub const LIBRARY: &str = "libibverbs.so";
/// The one that connects.
const RDMACM: &str = "librdmacm.so";
/// And the one that is loaded before programs.
pub const PRELOAD: &str = "librspreload.so";

/// Below the folder of the library: one that holds `librdmacm.so.1` and [`PRELOAD`] beside it.
pub const RDMACM_BESIDE: &str = "with-rdmacm";

#[derive(Clone)]
pub struct Dirs {
    /// The checkout.
    pub root: PathBuf,
    /// Cargo's target directory, wherever its configuration puts it.
    pub target: PathBuf,
    /// Logs and results of the commands here, under `target`.
    pub work: PathBuf,
    /// Downloads that outlive a `cargo clean`, outside the checkout.
    pub cache: PathBuf,
    /// This program, as the virtual machine finds it too.
    pub program: PathBuf,
    /// The library out of the packages, where those were built before it was asked for.
    pub packaged: Option<PathBuf>,
}

impl Dirs {
    pub fn find() -> Result<Self> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest.parent().context("xtask/ has no parent")?;
        let program = env::current_exe().context("where this program is")?;
        // <target>/<profile>/xtask: asking the path spares a second reading of cargo's settings.
        let target = program.ancestors().nth(2).context("no target directory")?;
        let dirs = Self {
            root: root.to_owned(),
            target: target.to_owned(),
            work: target.join("xtask"),
            cache: cache_home()?.join("ferroverbs"),
            program: program.clone(),
            packaged: None,
        };
        fs::create_dir_all(&dirs.work)
            .with_context(|| format!("create {}", dirs.work.display()))?;
        Ok(dirs)
    }

    /// The same for a target of rustc (`cargo build --target`).
    ///
    /// # Errors
    /// It is no target's name; nothing was built for it.
    pub fn for_target(&self, target: &str) -> Result<Self> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if target.is_empty() || target.starts_with('.') || !target.chars().all(plain) {
            bail!("{target} is not the name of a target of rustc");
        }
        let built = self.target.join(target);
        if !built.join("release").is_dir() {
            bail!("nothing is built for it: cargo build --release --target {target}");
        }
        Ok(Self {
            target: built,
            packaged: None,
            ..self.clone()
        })
    }

    pub fn expected(&self) -> PathBuf {
        self.root.join("xtask/expected")
    }

    /// A directory that holds no library but `libibverbs.so.1`, for `LD_LIBRARY_PATH`: a link to
    /// the file that cargo built. [`RDMACM_BESIDE`] is below it.
    pub fn library(&self) -> Result<PathBuf> {
        self.libraries(&self.work.join("lib"), |built, link| {
            match fs::remove_file(link) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => symlink(built, link)?,
            }
            Ok(())
        })
    }

    /// Puts the libraries below a directory, each by `put`, under the names that programs ask for.
    fn libraries(&self, dir: &Path, put: impl Fn(&Path, &Path) -> Result<()>) -> Result<PathBuf> {
        let beside = dir.join(RDMACM_BESIDE);
        fs::create_dir_all(&beside)?;
        let built = self.built()?;
        for folder in [dir, &beside] {
            put(&built, &folder.join("libibverbs.so.1"))?;
        }
        // A build of the library alone has neither.
        for (file, name) in [(RDMACM, "librdmacm.so.1"), (PRELOAD, PRELOAD)] {
            let built = built.with_file_name(file);
            if built.exists() {
                put(&built, &beside.join(name))?;
            }
        }
        Ok(dir.to_owned())
    }

    /// The same for the virtual machine, in a separate target directory with copies of the programs
    /// that it runs, which concurrent builds do not change.
    pub fn aside(&self) -> Result<Self> {
        let target = self.fresh("guest")?;
        let profile = self.program.parent().context("no directory")?;
        let bin = target.join(profile.file_name().context("no profile")?);
        // The program makes its own, but the virtual machine may not write here.
        fs::create_dir_all(target.join("xtask"))?;
        let runs = |name: &str| matches!(name, "xtask" | "c-tests") || name.starts_with("ibv_");
        copy(profile, &bin, &runs)?;
        let examples = profile.join(EXAMPLES);
        if examples.exists() {
            copy(&examples, &bin.join(EXAMPLES), &|name| name == "device")?;
        }
        let release = target.join("release");
        fs::create_dir_all(&release)?;
        // Runs over the system's library have none.
        if let Ok(built) = self.built() {
            let folder = built.parent().context("a file is in a folder")?;
            copy(folder, &release, &|name| {
                matches!(name, LIBRARY | RDMACM | PRELOAD)
            })?;
        }
        // They are compiled only where they are asked for.
        let programs = self.target.join(C_PROGRAMS);
        if programs.exists() {
            copy(&programs, &target.join(C_PROGRAMS), &|_| true)?;
        }
        Ok(Self {
            root: self.root.clone(),
            work: target.join("xtask"),
            cache: self.cache.clone(),
            program: bin.join(self.program.file_name().context("no name")?),
            packaged: None,
            target,
        })
    }

    /// The same below `dir` with a copy, which a concurrent build does not change.
    pub fn snapshot(&self, dir: &Path) -> Result<PathBuf> {
        self.libraries(&dir.join("lib"), |built, at| {
            fs::copy(built, at).with_context(|| format!("copy {}", built.display()))?;
            Ok(())
        })
    }

    /// The library: the file that cargo built, here or for the packages.
    pub fn built(&self) -> Result<PathBuf> {
        if let Some(packaged) = &self.packaged {
            return Ok(packaged.clone());
        }
        let built = self.target.join("release").join(LIBRARY);
        if !built.exists() {
            bail!(
                "{} is not there: cargo build --release -p ferroverbs",
                built.display()
            );
        }
        Ok(built)
    }

    /// A library by cargo's name for it: beside the one that [`Self::built`] answers.
    pub fn library_built(&self, name: &str) -> Result<PathBuf> {
        let built = self.built()?.with_file_name(name);
        if !built.exists() {
            bail!("{} is not there: cargo build --release", built.display());
        }
        Ok(built)
    }

    /// The static library that cargo built.
    pub fn archive_built(&self) -> Result<PathBuf> {
        let built = self.target.join("release/libibverbs.a");
        if !built.exists() {
            bail!(
                "{} is not there: cargo rustc --release -p ferroverbs --crate-type staticlib",
                built.display()
            );
        }
        Ok(built)
    }

    /// A program that cargo built, beside the library.
    pub fn program_built(&self, name: &str) -> Result<PathBuf> {
        let built = self.built()?.with_file_name(name);
        if !built.exists() {
            bail!("{} is not there: cargo build --release", built.display());
        }
        Ok(built)
    }

    /// An empty directory of this name below `work`.
    pub fn fresh(&self, name: &str) -> Result<PathBuf> {
        let dir = self.work.join(name);
        match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => fs::create_dir_all(&dir)?,
        }
        Ok(dir)
    }
}

/// Copies the files of these names; directories, if their names are such, with all that is in them.
pub fn copy(from: &Path, to: &Path, wanted: &dyn Fn(&str) -> bool) -> Result<()> {
    fs::create_dir_all(to)?;
    let entries = fs::read_dir(from).with_context(|| from.display().to_string())?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if !name.to_str().is_some_and(wanted) {
            continue;
        }
        let (from, to) = (entry.path(), to.join(&name));
        if from.is_dir() {
            copy(&from, &to, &|_| true)?;
        } else {
            fs::copy(&from, &to).with_context(|| format!("copy {}", from.display()))?;
        }
    }
    Ok(())
}

fn cache_home() -> Result<PathBuf> {
    if let Some(dir) = env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()) {
        return Ok(dir.into());
    }
    let home = env::var_os("HOME").context("neither XDG_CACHE_HOME nor HOME is set")?;
    Ok(Path::new(&home).join(".cache"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_for_a_target_are_apart() {
        let room = tempfile::tempdir().unwrap();
        let target = room.path().join("target");
        let dirs = Dirs {
            root: room.path().to_owned(),
            work: target.join("xtask"),
            target: target.clone(),
            cache: room.path().to_owned(),
            program: target.join("debug/xtask"),
            packaged: None,
        };
        let name = "aarch64-unknown-linux-gnu";
        let reason = dirs.for_target(name).err().map(|error| error.to_string());
        assert!(reason.unwrap().ends_with(&format!("--target {name}")));
        let release = target.join(name).join("release");
        fs::create_dir_all(&release).unwrap();
        fs::write(release.join(LIBRARY), "").unwrap();
        let built = dirs.for_target(name).and_then(|dirs| dirs.built());
        assert_eq!(built.unwrap(), release.join(LIBRARY));
        for bad in ["", "..", "../release", "/", "a b"] {
            assert!(dirs.for_target(bad).is_err(), "{bad}");
        }
    }
}
