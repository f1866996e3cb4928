//! The stages `arm64-guest`: Debian's kernels for arm64 in QEMU's emulation of a whole machine,
//! with the kernel's soft-RoCE.
//!
//! The machine is booted as the one of the stages `guest` is ([`crate::vm`]), and runs the same
//! suites with the same expected lists, each as a stage: `arm64-guest:16k:pingpong` is the suite
//! `pingpong` on a kernel with pages of 16 KiB. Its root is a chroot of Debian for arm64, whose
//! packages are only unpacked; this program is compiled for arm64, linked statically, and starts
//! the suites.
//!
//! - Debian 12's kernel 6.1 has pages of 4 KiB: rdma-core's tests and pingpongs over rxe, over
//!   stock and over this library, with rdma-core's provider and with the built-in one.
//! - Debian 13's kernel for pages of 16 KiB: the pingpongs over rxe in the same ways.
//! - Both: the pingpongs over uroce, in shared memory.
//! - 4 KiB: rdma-core's tests over uroce.
//!
//! The library is the optimised one of the packages: without optimisation, an emulated processor
//! needs half a second for a message of 1 MiB, and requests of the pingpongs time out.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use super::{
    inside::{ARM, Inside},
    step::compile,
};
use crate::{
    boots::{self, Outcome},
    chroot::{BOOKWORM_ARM64, Chroot, TRIXIE_ARM64_16K},
    debian_deps::{self, Foreign},
    dirs::{Dirs, LIBRARY, RDMACM_BESIDE},
    guest::PAGES,
    report::{Report, Row, Tally},
    stage::named,
    suites::Run,
    uroce,
    vm::{self, JOB_SEEN, Job},
};

/// Begins the names of the stages.
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
    /// Its pages, in the names of the stages.
    name: &'static str,
    /// Bytes of its pages.
    pages: u32,
    /// The suites, by label.
    labels: &'static [&'static str],
}

const BOOTS: [Boot; 2] = [
    Boot {
        chroot: BOOKWORM_ARM64,
        name: "4k",
        pages: 4096,
        labels: &[
            "pyverbs.stock",
            "pyverbs",
            "pyverbs.rust",
            "pingpong.stock",
            "pingpong",
            "pingpong.rust",
            "uroce:pingpong",
            "uroce:pyverbs",
        ],
    },
    Boot {
        chroot: TRIXIE_ARM64_16K,
        name: "16k",
        pages: 16384,
        labels: &[
            "pingpong.stock",
            "pingpong",
            "pingpong.rust",
            "uroce:pingpong",
        ],
    },
];

/// The names of the stages.
pub fn names() -> impl Iterator<Item = String> {
    BOOTS.iter().flat_map(|boot| {
        let labels = boot.labels.iter();
        labels.map(|label| boot.stage(label))
    })
}

/// Runs the stages that were asked for.
pub fn stages(dirs: &Dirs, only: &[String], report: &mut Report) {
    let boots = BOOTS.iter().map(|boot| (boot, boot.chosen(only)));
    let boots: Vec<_> = boots.filter(|(_, labels)| !labels.is_empty()).collect();
    if boots.is_empty() {
        return;
    }
    let mut prepared = Tally::default();
    let programs = Programs::prepare(dirs, &mut prepared);
    if let Err(error) = &programs {
        prepared.end(STAGE, error);
    }
    for (boot, labels) in boots {
        let Ok(Some(programs)) = &programs else {
            // The first one has the reason.
            let stage = |label| (boot.stage(label), std::mem::take(&mut prepared));
            let rows = labels.into_iter().map(stage);
            rows.for_each(|(stage, tally)| report.add(Row::new(stage, Duration::ZERO, tally)));
            continue;
        };
        match boot.run(dirs, programs, &labels) {
            Ok(rows) => rows.into_iter().for_each(|row| report.add(row)),
            Err(error) => {
                for label in labels {
                    let mut tally = Tally::default();
                    tally.end(STAGE, &error);
                    report.add(Row::new(boot.stage(label), Duration::ZERO, tally));
                }
            }
        }
    }
}

/// What a machine gets from here.
struct Programs {
    inside: Inside,
    /// The directory of the libraries.
    libraries: PathBuf,
    /// This program.
    program: PathBuf,
}

impl Programs {
    /// Compiles them; `None` where that is not possible: `tally` has the reason.
    fn prepare(dirs: &Dirs, tally: &mut Tally) -> Result<Option<Self>> {
        let Some(inside) = Inside::for_stage(dirs, tally)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            libraries: libraries(dirs, &inside)?,
            program: program(dirs, &inside)?,
            inside,
        }))
    }
}

/// Compiles the libraries as they are packaged.
fn libraries(dirs: &Dirs, inside: &Inside) -> Result<PathBuf> {
    println!("-- {STAGE}: the libraries");
    let mut build = inside.cargo(&["build", "--release"], &[ARM]);
    for package in ["ferroverbs", "ferroverbs-rdmacm"] {
        build.args(["--package", package]);
    }
    compile(dirs, "guest-build", &mut build).context("the libraries do not build for arm64")?;
    Ok(inside.results().0.join(ARM.target).join("release"))
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
    /// The stage of a suite.
    fn stage(&self, label: &str) -> String {
        format!("{STAGE}:{}:{label}", self.name)
    }

    /// The suites that were asked for.
    fn chosen(&self, only: &[String]) -> Vec<&'static str> {
        let labels = self.labels.iter().copied();
        labels
            .filter(|label| named(only, &self.stage(label)))
            .collect()
    }

    /// Boots, and compares the results of each suite with its list.
    fn run(&self, dirs: &Dirs, programs: &Programs, labels: &[&str]) -> Result<Vec<Row>> {
        let name = self.chroot.directory();
        let provided = self.chroot.provide(dirs);
        provided.with_context(|| format!("no Debian {} for arm64", self.chroot.debian))?;
        let foreign = Foreign {
            architecture: ARM.name,
            processor: PROCESSOR,
            root: self.chroot.here(dirs),
            program: PROGRAM,
            seen: vec![(SOURCES, programs.inside.source().to_owned())],
        };
        let machine = debian_deps::foreign(dirs, self.chroot.kernel(dirs)?, foreign)?;
        let dir = dirs.fresh(&format!("{STAGE}-{name}"))?;
        copy_libraries(&programs.libraries, &dir)?;
        fs::copy(&programs.program, dir.join(PROGRAM)).context(PROGRAM)?;
        let job = Job::Suites {
            ours: Some(Path::new(JOB_SEEN).join("lib")),
            labels: labels.iter().map(|&label| label.to_owned()).collect(),
        };
        let kernel = machine.kernel.display();
        println!("-- {STAGE}: booting {kernel} for {}", labels.join(" "));
        let log = dir.join("console.log");
        let start = Instant::now();
        let outcome = vm::boot(dirs, &machine, &dir, &job, &log, false)?;
        let pages = format!("{PAGES}{}", self.pages);
        if !outcome.text.lines().any(|line| line.trim_end() == pages) {
            bail!("{name}: not {pages}; see {}", log.display());
        }
        println!("-- {STAGE}: {name}: {} s in all", start.elapsed().as_secs());
        let row = |label: &&str| {
            let judged = judge(dirs, &dir, label);
            let Outcome { mut tally, took } = judged.unwrap_or_else(Outcome::unjudged);
            if outcome.hung {
                tally.fail(format!("the machine hung; see {}", log.display()));
            }
            Row::new(self.stage(label), took, tally)
        };
        Ok(labels.iter().map(row).collect())
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
fn judge(dirs: &Dirs, dir: &Path, label: &str) -> Result<Outcome> {
    if label.starts_with(uroce::STAGE) {
        return uroce::judge_guest(dirs, dir, label);
    }
    let (run, _) = Run::from_label(label).with_context(|| format!("no suite {label}"))?;
    boots::judge(dirs, dir, run, false)
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

    #[test]
    fn a_part_of_the_suites_can_be_asked_for() {
        let chosen = |asked: &str| {
            let only = [asked.to_owned()];
            BOOTS.iter().map(|boot| boot.chosen(&only).len()).collect()
        };
        let all: Vec<usize> = chosen(STAGE);
        assert_eq!(all, BOOTS.map(|boot| boot.labels.len()));
        assert_eq!(chosen("arm64-guest:16k"), [0, 4]);
        assert_eq!(chosen("arm64-guest:4k:uroce:pingpong"), [1, 0]);
        assert_eq!(chosen("arm64-guest:4k:pingpong"), [3, 0]);
        assert_eq!(chosen("arm64"), [0, 0]);
        assert!(BOOTS.iter().all(|boot| boot.chosen(&[]).is_empty()));
    }
}
