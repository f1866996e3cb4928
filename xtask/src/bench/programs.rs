//! The measuring programs in C, and a copy of each library.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use super::row::Side;
use crate::{dirs::Dirs, host::must};

/// Where the linker finds the stock libraries.
const STOCK: &str = "/usr/lib/x86_64-linux-gnu";
const SONAME: &str = "libibverbs.so.1";
const RDMACM: &str = "librdmacm.so.1";

/// Each program with its linker options.
const PROGRAMS: [(&str, &[&str]); 6] = [
    ("start", &["-ldl"]),
    ("objects", &["-libverbs", "-ldl"]),
    ("requests", &["-libverbs", "-ldl"]),
    ("peak", &[]),
    ("fork", &["-ldl", "-lpthread"]),
    ("connections", &["-lrdmacm", "-libverbs", "-ldl"]),
];

/// A directory with everything in it, as the virtual machine gets it too.
#[derive(Clone)]
pub struct Bench {
    dir: PathBuf,
}

impl Bench {
    /// The directory as [`prepare`] left it.
    pub fn at(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
        }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn program(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The directory of a library, for `LD_LIBRARY_PATH`.
    pub fn library_dir(&self, side: Side) -> PathBuf {
        self.dir.join(side.name())
    }

    pub fn library(&self, side: Side) -> PathBuf {
        self.library_dir(side).join(SONAME)
    }

    /// The librdmacm beside it, if [`Bench::add_rdmacm`] put it there.
    pub fn rdmacm(&self, side: Side) -> PathBuf {
        self.library_dir(side).join(RDMACM)
    }

    /// Puts both libraries' librdmacm beside them.
    pub fn add_rdmacm(&self, built: &Path) -> Result<()> {
        let stock = Path::new(STOCK).join(RDMACM);
        for (side, file) in [(Side::Stock, stock.as_path()), (Side::Ours, built)] {
            strip(file, &self.rdmacm(side))?;
        }
        Ok(())
    }
}

fn strip(from: &Path, to: &Path) -> Result<()> {
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(to).arg(from);
    must(&mut strip).map(|_| ())
}

/// Compiles the programs; copies both libraries, stripped, so that only the file differs. An
/// earlier build, if there is one, takes the place of the stock library.
pub fn prepare(dirs: &Dirs, built: &Path, before: Option<&Path>) -> Result<Bench> {
    let bench = Bench::at(&dirs.fresh("bench")?);
    for (name, libraries) in PROGRAMS {
        compile(dirs, &bench, name, libraries)?;
    }
    let stock = Path::new(STOCK).join(SONAME);
    let peer = before.unwrap_or(&stock);
    for (side, file) in [(Side::Stock, peer), (Side::Ours, built)] {
        fs::create_dir_all(bench.library_dir(side))?;
        strip(file, &bench.library(side))?;
    }
    Ok(bench)
}

fn compile(dirs: &Dirs, bench: &Bench, name: &str, libraries: &[&str]) -> Result<()> {
    let mut gcc = Command::new("gcc");
    // The stock headers: both libraries see the code that existing programs are compiled to.
    gcc.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(bench.program(name))
        .arg(dirs.root.join("c-tests/bench").join(format!("{name}.c")))
        .args(libraries);
    must(&mut gcc).map(|_| ())
}
