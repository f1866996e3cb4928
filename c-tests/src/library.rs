//! Finds the library that this workspace builds.

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::OnceLock,
};

use crate::{Result, tree::workspace_dir};

/// A library of this workspace.
struct Built {
    /// Names the file, where it is built already.
    variable: &'static str,
    package: &'static str,
    /// Cargo's name of the file; the names that programs ask for follow.
    file: &'static str,
    soname: &'static str,
}

const IBVERBS: Built = Built {
    variable: "FERROVERBS_LIBRARY",
    package: "ferroverbs",
    file: "libibverbs.so",
    soname: "libibverbs.so.1",
};

const RDMACM: Built = Built {
    variable: "FERROVERBS_RDMACM",
    package: "ferroverbs-rdmacm",
    file: "librdmacm.so",
    soname: "librdmacm.so.1",
};

/// Builds `libibverbs.so` in release mode, once per process and unless the variable
/// `FERROVERBS_LIBRARY` names one, and returns a folder in which it stands as
/// `libibverbs.so.1` and `libibverbs.so`.
///
/// # Errors
/// When cargo fails; the compiler's words went to stderr.
pub fn built_library() -> Result<PathBuf> {
    static FOUND: OnceLock<std::result::Result<PathBuf, String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| IBVERBS.prepare().map_err(|e| e.to_string()));
    found.clone().map_err(Into::into)
}

/// The same for `librdmacm.so`; the variable is `FERROVERBS_RDMACM`.
///
/// # Errors
/// As [`built_library`].
pub fn built_rdmacm() -> Result<PathBuf> {
    static FOUND: OnceLock<std::result::Result<PathBuf, String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| RDMACM.prepare().map_err(|e| e.to_string()));
    found.clone().map_err(Into::into)
}

/// The folder cargo builds into.
#[must_use]
pub fn target_dir() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => workspace_dir().join(dir),
        None => workspace_dir().join("target"),
    }
}

impl Built {
    fn prepare(&self) -> Result<PathBuf> {
        let library =
            env::var_os(self.variable).map_or_else(|| self.build(), |named| Ok(named.into()))?;
        let dir = target_dir().join("c-tests/lib");
        fs::create_dir_all(&dir)?;
        for name in [self.soname, self.file] {
            link(&library, &dir.join(name))?;
        }
        Ok(dir)
    }

    fn build(&self) -> Result<PathBuf> {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(["build", "--release", "-p", self.package])
            .current_dir(workspace_dir())
            .status()?;
        if !status.success() {
            return Err(format!("cargo build --release -p {} failed", self.package).into());
        }
        Ok(target_dir().join("release").join(self.file))
    }
}

/// Points `at` to `library`. Another test may do the same at the same time, so the link is made
/// under another name and renamed.
fn link(library: &Path, at: &Path) -> Result<()> {
    if fs::read_link(at).is_ok_and(|to| to == library) {
        return Ok(());
    }
    let aside = at.with_extension(format!("{}.new", process::id()));
    symlink(library, &aside)?;
    Ok(fs::rename(&aside, at)?)
}
