//! The Debian packages for arm64: made by sid's debhelper, examined, and installed in the chroot
//! over Debian's, where their programs run.
//!
//! A symbol that is missing or new ends their making. `debian/rules` compiles for arm64 on this
//! machine, with the optimisation of the packages.
#![forbid(unsafe_code)]

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context, Result, bail};

use super::{
    inside::{ARM, EMULATOR, Inside},
    programs, sources,
    step::{STAGE, compile, must, one},
};
use crate::{
    dirs::Dirs,
    host,
    package::{
        files::{PACKAGES, below, file_with, name_in, package_in, unpack},
        hardening, lintian_of,
    },
    report::Tally,
};

/// The directories of the packages, and in it of the sources; of cargo's results.
const JOB: &str = "package";
const SOURCES: &str = "package/ferroverbs";
pub const BUILT: &str = "package-built";
/// What dpkg(1) has noted, below a root.
const INFO: &str = "var/lib/dpkg/info";
/// Where libraries are.
const LIBRARIES: &str = "/usr/lib/aarch64-linux-gnu";
/// The beginning of the names of directories of libraries, and the one that is right.
const BY_ARCHITECTURE: (&str, &str) = ("-linux-gnu", "aarch64-linux-gnu");
const DEVICES: &str = "UROCE_DEVICES=lo";
/// The port of the pingpong.
const PORT: &str = "18100";

/// Makes them, examines them and runs their programs.
///
/// # Errors
/// They cannot be made.
pub fn run(dirs: &Dirs, inside: &Inside, tally: &mut Tally) -> Result<()> {
    println!("-- {STAGE}: Debian packages");
    let made = Made::new(dirs, inside).context("packages")?;
    tally.passed += 1;
    one(tally, "packages: what they say", made.fields());
    one(tally, "packages: files", made.files());
    let hard = hardening::check(&made.job, &made.release, &made.sources);
    one(tally, "packages: hardening", hard);
    one(tally, "packages: lintian", made.lintian());
    one(tally, "packages: ibv_devinfo", made.devinfo(dirs, inside));
    one(tally, "packages: pingpong", made.pingpong(dirs, inside));
    Ok(())
}

/// The packages.
struct Made {
    /// Where they are, outside and inside.
    job: PathBuf,
    job_inside: PathBuf,
    /// The sources, as the compiler saw them.
    sources: PathBuf,
    /// What cargo has made.
    release: PathBuf,
}

impl Made {
    /// Makes them.
    fn new(dirs: &Dirs, inside: &Inside) -> Result<Self> {
        let (outside, within) = inside.results();
        let job = outside.join(JOB);
        let sources = outside.join(SOURCES);
        fs::create_dir_all(&sources).with_context(|| sources.display().to_string())?;
        // Sources that are equal keep their time, by which cargo knows that they have not changed.
        for entry in fs::read_dir(&job)? {
            let path = entry?.path();
            if path == sources {
                sources::update(dirs, &sources)?;
            } else if path.is_dir() {
                fs::remove_dir_all(&path)?;
            } else {
                fs::remove_file(&path)?;
            }
        }
        let (sources, built) = (within.join(SOURCES), within.join(BUILT));
        let mut make = inside.script("package");
        compile(dirs, "package", make.arg(&sources).arg(&built))?;
        Ok(Self {
            job,
            job_inside: within.join(JOB),
            sources,
            release: outside.join(BUILT).join(ARM.target).join("release"),
        })
    }

    /// The architecture, and the version of the package of Debian that it replaces.
    fn fields(&self) -> Result<()> {
        for (ours, _) in PACKAGES {
            let file = package_in(&self.job, ours)?;
            let field = |name: &str| {
                let mut ask = Command::new("dpkg-deb");
                let text = host::must(ask.arg("--field").arg(&file).arg(name))?;
                anyhow::Ok(text.trim().to_owned())
            };
            let architecture = field("Architecture")?;
            if architecture != ARM.name {
                bail!("{ours} is for {architecture}");
            }
            let depends = field("Depends")?;
            if depends.contains("${") || depends.is_empty() {
                bail!("{ours} depends on {depends:?}");
            }
        }
        Ok(())
    }

    /// Compiled files are for arm64, and no file is in another architecture's directory.
    fn files(&self) -> Result<()> {
        for (ours, _) in PACKAGES {
            let into = self.job.join(format!("{ours}-files"));
            unpack(&package_in(&self.job, ours)?, &into)?;
            for file in below(&into)? {
                let name = file.strip_prefix(&into)?.to_string_lossy().into_owned();
                let (any, right) = BY_ARCHITECTURE;
                if name
                    .split('/')
                    .any(|part| part.ends_with(any) && part != right)
                {
                    bail!("{ours} has {name}");
                }
                if file.symlink_metadata()?.is_file() && !is_of_arm64(&fs::read(&file)?) {
                    bail!("{ours}: {name} is compiled for another architecture");
                }
            }
        }
        Ok(())
    }

    fn lintian(&self) -> Result<()> {
        let changes = file_with(&self.job, "ferroverbs_", ".changes")?;
        host::must(&mut lintian_of(&changes)).map(drop)
    }

    /// A command in the chroot, over the installed packages.
    fn installed(&self, inside: &Inside) -> Command {
        let mut command = inside.script("installed");
        command.arg(&self.job_inside);
        command
    }

    /// The packages replace those of Debian that they represent, and no other; `ibv_devinfo` of
    /// ours shows a device of uroce.
    fn devinfo(&self, dirs: &Dirs, inside: &Inside) -> Result<()> {
        let mut command = self.installed(inside);
        command.args([EMULATOR, "-E", DEVICES, "/usr/bin/ibv_devinfo"]);
        let text = must(dirs, "package-devinfo", command.args(["-d", "uroce_lo"]))?;
        let info = inside.root().join(INFO);
        for (ours, stock) in PACKAGES {
            let stock = name_in(&info, stock)?;
            for wanted in [format!("- {stock}:arm64"), format!("+ {ours}:arm64")] {
                if !text.lines().any(|line| line == wanted) {
                    bail!("not {wanted}: {text}");
                }
            }
        }
        let gone = text.lines().filter(|line| line.starts_with("- ")).count();
        if gone != PACKAGES.len() {
            bail!("{gone} packages are gone: {text}");
        }
        programs::shows_a_device(&text)
    }

    /// Both ends of the pingpong of ours.
    fn pingpong(&self, dirs: &Dirs, inside: &Inside) -> Result<()> {
        let mut command = self.installed(inside);
        command.args(["xtask/arm64/pair", LIBRARIES, "shm", PORT]);
        command.args(["/usr/bin/ibv_rc_pingpong", "-d", "uroce_lo", "-p", PORT]);
        command.args(["-g", "0", "-n", "20", "-c"]);
        let text = must(dirs, "package-pingpong", &mut command)?;
        programs::exchanged(&text)
    }
}

/// Whether a file is either not compiled, or for arm64 (`e_machine` of its header).
pub fn is_of_arm64(bytes: &[u8]) -> bool {
    const ARM64: [u8; 2] = 183_u16.to_le_bytes();
    !bytes.starts_with(b"\x7fELF") || bytes.get(18..20) == Some(&ARM64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_compiled_file_names_its_machine() {
        let mut header = [0; 64];
        header[..4].copy_from_slice(b"\x7fELF");
        header[18] = 62;
        assert!(!is_of_arm64(&header));
        header[18] = 183;
        assert!(is_of_arm64(&header));
        assert!(!is_of_arm64(b"\x7fELF"));
        assert!(is_of_arm64(b"#!/bin/sh\n"));
    }

    #[test]
    fn directories_of_libraries_are_named_by_the_compiler() {
        let (_, right) = BY_ARCHITECTURE;
        assert!(Path::new(LIBRARIES).ends_with(right));
        assert!(ARM.compiler.starts_with(right));
    }
}
