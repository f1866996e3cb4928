//! The behaviour of programs over the installed library, and the owner of that library.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context, Result, bail};

use crate::{guest::initialised, host::must};

/// Debian's programs that use the library, as they run without a device: rdma-core's, pyverbs,
/// perftest.
pub const PROGRAMS: &[&[&str]] = &[
    &["ibv_devices"],
    &["ibv_devinfo", "-v"],
    &["ibv_asyncwatch"],
    &["ibv_rc_pingpong", "--help"],
    &["ibv_uc_pingpong", "--help"],
    &["ibv_ud_pingpong", "--help"],
    &["ibv_srq_pingpong", "--help"],
    &["ibv_xsrq_pingpong", "--help"],
    &["ibv_rc_pingpong"],
    &["rping", "-h"],
    &["ucmatose", "--help"],
    &["ib_send_bw", "--version"],
    &["ib_write_lat"],
    &[
        "/usr/bin/python3",
        "-c",
        "import pyverbs.device as d, pyverbs.qp, pyverbs.mr; print(d.get_device_list())",
    ],
];

/// The result of one run of a program.
#[derive(Debug, PartialEq)]
pub struct Observed {
    pub printed: String,
    /// The library's files, behind their links.
    pub libraries: BTreeSet<PathBuf>,
}

/// Runs a program, and makes its dynamic linker report which libibverbs it initialised.
pub fn observe(words: &[&str]) -> Result<Observed> {
    let (program, arguments) = words.split_first().context("no program")?;
    let linker = Path::new("/run/ferroverbs-linker");
    fs::create_dir_all(linker)?;
    let output = Command::new(program)
        .args(arguments)
        .env("LD_DEBUG", "libs")
        .env("LD_DEBUG_OUTPUT", linker.join("l"))
        .output()
        .with_context(|| format!("start {program}"))?;
    let mut libraries = BTreeSet::new();
    for entry in fs::read_dir(linker)? {
        let text = fs::read(entry?.path())?;
        if let Some(path) = initialised(&String::from_utf8_lossy(&text)) {
            libraries.insert(fs::canonicalize(path)?);
        }
    }
    fs::remove_dir_all(linker)?;
    Ok(Observed {
        printed: printed(&output),
        libraries,
    })
}

fn printed(output: &Output) -> String {
    let text = format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    // The one line of usage that our programs have and Debian's have not.
    let common = text.split_inclusive('\n');
    common.filter(|line| !line.contains("--json ")).collect()
}

/// Whether all symbols that these files ask of their libraries are there.
pub fn resolves(files: &[PathBuf]) -> Result<()> {
    if files.is_empty() {
        bail!("no files to look at");
    }
    for file in files {
        let output = Command::new("ldd").arg("-r").arg(file).output()?;
        let text = printed(&output);
        let lacks = |line: &&str| line.contains("undefined symbol") || line.contains("not found");
        if let Some(line) = text.lines().find(lacks) {
            bail!("{}: {}", file.display(), line.trim());
        }
        if !output.status.success() || !text.contains("libibverbs.so.1 =>") {
            bail!("{}: {text}", file.display());
        }
    }
    Ok(())
}

/// The packages of the machine, each with its version and state.
pub fn packages() -> Result<BTreeSet<String>> {
    let format = "${Package} ${Version} ${db:Status-Status}\n";
    let text = must(Command::new("dpkg-query").args(["-W", "-f", format]))?;
    Ok(text.lines().map(str::to_owned).collect())
}
