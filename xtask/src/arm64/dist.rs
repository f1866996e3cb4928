//! The wheel and the archive for arm64, of the files that are in the Debian packages.
//!
//! pip accepts the wheel for a machine of arm64; a program of each is run.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::{
    inside::{ARM, EMULATOR, Inside},
    packages::{BUILT, is_of_arm64},
    programs,
    step::{STAGE, must, one},
};
use crate::{
    debian_deps,
    dirs::Dirs,
    host,
    install::{self, Built},
    package::files::below,
    report::Tally,
};

/// Their directory, below that of cargo's results.
const JOB: &str = "dist";
/// The compiled files of another architecture are stripped by its own program.
const BINUTILS: &str = "binutils-aarch64-linux-gnu";
/// Ends the name of the wheel.
const TAG: &str = "_aarch64.whl";

/// Makes and tries both.
///
/// # Errors
/// Of the directory; a package is missing.
pub fn run(dirs: &Dirs, inside: &Inside, tally: &mut Tally) -> Result<()> {
    println!("-- {STAGE}: wheel and archive");
    debian_deps::install_missing(dirs, &[BINUTILS])?;
    let (outside, within) = inside.results();
    let packaged = Dirs {
        target: outside.join(BUILT),
        ..dirs.clone()
    };
    let job = outside.join(JOB);
    if job.exists() {
        fs::remove_dir_all(&job)?;
    }
    let made = Made {
        built: Built::of_target(&packaged, ARM.target)?,
        job,
        job_inside: within.join(JOB),
    };
    one(tally, "wheel", made.wheel(dirs, inside));
    one(tally, "archive", made.archive(dirs, inside));
    Ok(())
}

struct Made {
    built: Built,
    /// Their directory, outside and inside.
    job: PathBuf,
    job_inside: PathBuf,
}

impl Made {
    fn wheel(&self, dirs: &Dirs, inside: &Inside) -> Result<()> {
        let wheel = install::make_wheel(&self.built, &self.job)?;
        let name = wheel.file_name().and_then(|name| name.to_str());
        let tag = name.and_then(|name| name.strip_suffix(".whl")?.rsplit('-').next());
        let tag = tag.with_context(|| wheel.display().to_string())?;
        ensure!(wheel.to_string_lossy().ends_with(TAG), "{name:?}");
        println!("-- {STAGE}: the wheel is for {tag}");
        let place = self.job.join("python");
        // Debian's Python has pip only in environments.
        let environment = self.job.join("environment");
        let mut python = Command::new("/usr/bin/python3");
        host::must(python.args(["-m", "venv"]).arg(&environment))?;
        let mut pip = Command::new(environment.join("bin/pip"));
        pip.args(["--disable-pip-version-check", "install", "--no-index"]);
        pip.args(["--no-deps", "--only-binary", ":all:", "--platform", tag]);
        host::must(pip.arg("--target").arg(&place).arg(&wheel))?;
        for file in below(&place)? {
            let bytes = fs::read(&file)?;
            ensure!(
                is_of_arm64(&bytes),
                "{} is for another machine",
                file.display()
            );
        }
        let package = self.job_inside.join("python/ferroverbs");
        shows_a_device(dirs, inside, &package.join("lib"), &package.join("bin"))
    }

    fn archive(&self, dirs: &Dirs, inside: &Inside) -> Result<()> {
        let archive = install::make_tarball(&self.built, &self.job)?;
        let name = install::tarball_name("aarch64");
        host::must(
            Command::new("tar")
                .args(["--extract", "--gzip", "--file"])
                .arg(&archive)
                .arg("--directory")
                .arg(&self.job),
        )?;
        let prefix = self.job_inside.join("prefix");
        let mut install = inside.command("sh");
        install.arg(self.job_inside.join(name).join("install.sh"));
        must(dirs, "install", install.arg("--prefix").arg(&prefix))?;
        shows_a_device(dirs, inside, &prefix.join("lib"), &prefix.join("bin"))
    }
}

/// Runs `ibv_devinfo` of a folder over the library of another one.
fn shows_a_device(dirs: &Dirs, inside: &Inside, libraries: &Path, bin: &Path) -> Result<()> {
    let program = bin.join("ibv_devinfo");
    let mut devinfo = inside.arm64(libraries, &[("UROCE_DEVICES", "lo")], program);
    let text = must(dirs, "dist-devinfo", devinfo.args(["-d", "uroce_lo"]))?;
    programs::shows_a_device(&text)
        .with_context(|| format!("{EMULATOR} with {}", libraries.display()))
}
