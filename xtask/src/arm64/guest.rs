//! The stage `arm64-guest`: Debian's kernels for arm64 in QEMU's emulation of a whole machine, with
//! the kernel's soft-RoCE.
//!
//! The machine is booted as the one of the stages `guest` is ([`crate::vm`]), and runs the same
//! suites with the same expected lists. Its root is a chroot of Debian for arm64, whose packages
//! are only unpacked; this program is compiled for arm64, linked statically, and starts the suites.
//!
//! - Debian 12's kernel 6.1 has pages of 4 KiB: rdma-core's tests and pingpongs over rxe, over
//!   stock and over this library, with rdma-core's provider and with the built-in one.
//! - Debian 13's kernel for pages of 16 KiB: the pingpongs over rxe in the same ways.
//! - Both: the pingpongs over uroce, in shared memory.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result, bail};

use super::{
    inside::{ARM, Inside},
    library,
    step::compile,
};
use crate::{
    boots,
    chroot::{BOOKWORM_ARM64, Chroot, TRIXIE_ARM64_16K},
    debian_deps::{self, Foreign},
    dirs::{Dirs, LIBRARY, RDMACM_BESIDE},
    guest::PAGES,
    report::Tally,
    suites::Run,
    uroce,
    vm::{self, JOB_SEEN, Job},
};

pub const STAGE: &str = "arm64-guest";

/// It can have pages of 16 KiB; virtme-ng's choice, a Cortex-A57, cannot.
const PROCESSOR: &str = "neoverse-n1";
/// This program, in the directory of the job.
const PROGRAM: &str = "xtask";
/// Where this program finds the sources: it was compiled there.
const SOURCES: &str = "/mnt/source";
/// Its target directory: other programs are linked with shared libraries.
const STATIC: &str = "static";

/// A boot.
struct Boot {
    chroot: Chroot,
    /// Bytes of its pages.
    pages: u32,
    /// The suites, by label.
    labels: &'static [&'static str],
}

const BOOTS: [Boot; 2] = [
    Boot {
        chroot: BOOKWORM_ARM64,
        pages: 4096,
        labels: &[
            "pyverbs.stock",
            "pyverbs",
            "pyverbs.rust",
            "pingpong.stock",
            "pingpong",
            "pingpong.rust",
            "uroce:pingpong",
        ],
    },
    Boot {
        chroot: TRIXIE_ARM64_16K,
        pages: 16384,
        labels: &[
            "pingpong.stock",
            "pingpong",
            "pingpong.rust",
            "uroce:pingpong",
        ],
    },
];

/// Boots all of them.
pub fn run(dirs: &Dirs) -> Tally {
    Tally::of(STAGE, |tally| {
        let Some(inside) = Inside::for_stage(dirs, tally)? else {
            return Ok(());
        };
        library(dirs, &inside)?;
        let program = program(dirs, &inside)?;
        for boot in &BOOTS {
            let booted = Tally::of(STAGE, |tally| boot.run(dirs, &inside, &program, tally));
            tally.add(booted);
        }
        Ok(())
    })
}

/// Compiles this program for arm64, to run with the C library of any release.
fn program(dirs: &Dirs, inside: &Inside) -> Result<PathBuf> {
    println!("-- {STAGE}: the program that runs the suites");
    let mut build = inside.cargo(&["build", "--package", "xtask"], &[ARM]);
    let (outside, within) = inside.results();
    build.env("CARGO_TARGET_DIR", within.join(STATIC));
    build.env("RUSTFLAGS", "-C target-feature=+crt-static");
    compile(dirs, "xtask", &mut build).context("this program does not build for arm64")?;
    Ok(outside
        .join(STATIC)
        .join(ARM.target)
        .join("debug")
        .join(PROGRAM))
}

impl Boot {
    /// Boots, and compares the results of each suite with its list.
    fn run(&self, dirs: &Dirs, inside: &Inside, program: &Path, tally: &mut Tally) -> Result<()> {
        let name = self.chroot.directory();
        let provided = self.chroot.provide(dirs);
        provided.with_context(|| format!("no Debian {} for arm64", self.chroot.debian))?;
        let foreign = Foreign {
            architecture: ARM.name,
            processor: PROCESSOR,
            root: self.chroot.here(dirs),
            program: PROGRAM,
            seen: vec![(SOURCES, inside.source().to_owned())],
        };
        let machine = debian_deps::foreign(dirs, self.chroot.kernel(dirs)?, foreign)?;
        let dir = dirs.fresh(&format!("{STAGE}-{name}"))?;
        copy_libraries(&inside.results().0.join(ARM.target).join("debug"), &dir)?;
        fs::copy(program, dir.join(PROGRAM)).context(PROGRAM)?;
        let job = Job::Suites {
            ours: Some(Path::new(JOB_SEEN).join("lib")),
            labels: self.labels.iter().map(|&label| label.to_owned()).collect(),
        };
        let kernel = machine.kernel.display();
        println!("-- {STAGE}: booting {kernel} for {}", self.labels.join(" "));
        let log = dir.join("console.log");
        let start = Instant::now();
        let outcome = vm::boot(dirs, &machine, &dir, &job, &log, false)?;
        let pages = format!("{PAGES}{}", self.pages);
        if !outcome.text.lines().any(|line| line.trim_end() == pages) {
            bail!("{name}: not {pages}; see {}", log.display());
        }
        if outcome.hung {
            tally.fail(format!("{name}: the machine hung; see {}", log.display()));
        }
        for label in self.labels {
            let mut judged = judge(dirs, &dir, label)?;
            for failure in &mut judged.failures {
                *failure = format!("{name}: {label}: {failure}");
            }
            println!("-- {STAGE}: {name}: {label}: {} passed", judged.passed);
            tally.add(judged);
        }
        let seconds = start.elapsed().as_secs();
        println!("-- {STAGE}: {name}: {seconds} s in all");
        Ok(())
    }
}

/// Puts the libraries where the job looks for them.
fn copy_libraries(built: &Path, dir: &Path) -> Result<()> {
    let folder = dir.join("lib");
    let beside = folder.join(RDMACM_BESIDE);
    fs::create_dir_all(&beside)?;
    let copies = [
        (LIBRARY, folder.join("libibverbs.so.1")),
        (LIBRARY, beside.join("libibverbs.so.1")),
        ("librdmacm.so", beside.join("librdmacm.so.1")),
    ];
    for (name, to) in copies {
        fs::copy(built.join(name), to).context(name)?;
    }
    Ok(())
}

/// The results of a suite.
fn judge(dirs: &Dirs, dir: &Path, label: &str) -> Result<Tally> {
    if label.starts_with(uroce::STAGE) {
        return uroce::judge_guest(dirs, dir, label);
    }
    let (run, _) = Run::from_label(label).with_context(|| format!("no suite {label}"))?;
    Ok(boots::judge(dirs, dir, run, false)?.tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suites_exist() {
        let of_uroce = uroce::names();
        for label in BOOTS.iter().flat_map(|boot| boot.labels) {
            let is_of_uroce = of_uroce.iter().any(|name| name == label);
            assert!(is_of_uroce || Run::from_label(label).is_some(), "{label}");
        }
    }
}
