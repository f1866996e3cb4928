//! Booting other kernels than this machine's, each over the root of the release or architecture
//! that it belongs to.
//!
//! A [`Boot`] names the root, a chroot whose packages are only unpacked, and the suites that run
//! there. Each suite is a stage. The machine is the one of the stages `guest` ([`crate::vm`]), but
//! sees nothing of this machine's file system except the directory of its job and the sources.
//!
//! Results are compared with the expected lists, or, where the kernel is not the one that the lists
//! were made on, with those of the release's own libraries in the same boot ([`Against`]).
#![forbid(unsafe_code)]

pub mod releases;

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{
    boots::{self, List, Outcome},
    chroot::Chroot,
    debian_deps::{self, Foreign},
    dirs::{Dirs, LIBRARY, RDMACM_BESIDE},
    expect,
    guest::{CUT_SHORT, PAGES, SOURCES},
    report::{Report, Row, Tally},
    stage::named,
    suites::Run,
    uroce,
    vm::{self, JOB_SEEN, Job},
};

/// This program, in the directory of the job.
const PROGRAM: &str = "xtask";

/// The emulated machine.
#[derive(Clone, Copy)]
pub struct Processor {
    /// virtme-ng's name of the architecture.
    pub architecture: &'static str,
    /// QEMU's name of the processor.
    pub name: &'static str,
    /// Debian's package of the emulator.
    pub emulator: &'static str,
}

/// What results are compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Against {
    /// The expected lists.
    Lists,
    /// Those of the same suite over the release's own libraries, in the same boot.
    Stock,
}

/// A boot.
pub struct Boot {
    /// Begins the names of its stages.
    pub group: &'static str,
    /// Follows in them.
    pub name: &'static str,
    pub chroot: Chroot,
    pub processor: Processor,
    /// Bytes of the kernel's pages.
    pub pages: u32,
    pub against: Against,
    /// The suites, by label.
    pub labels: &'static [&'static str],
}

/// What a machine gets from here.
pub struct Programs {
    /// The directory of the libraries, by cargo's names.
    pub libraries: PathBuf,
    /// This program.
    pub program: PathBuf,
    pub source: PathBuf,
}

/// Runs the chosen suites of each boot. `prepare` makes what the machines need, or fails, or leaves
/// the reason in the tally why that is not possible here.
pub fn stages(
    dirs: &Dirs,
    chosen: Vec<(&Boot, Vec<&'static str>)>,
    prepare: impl FnOnce(&mut Tally) -> Result<Option<Programs>>,
    report: &mut Report,
) {
    let Some((first, _)) = chosen.first() else {
        return;
    };
    let group = first.group;
    let mut prepared = Tally::default();
    let programs = prepare(&mut prepared);
    if let Err(error) = &programs {
        prepared.end(group, error);
    }
    for (boot, labels) in chosen {
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
                    tally.end(group, &error);
                    report.add(Row::new(boot.stage(label), Duration::ZERO, tally));
                }
            }
        }
    }
}

impl Boot {
    /// The stage of a suite.
    pub fn stage(&self, label: &str) -> String {
        format!("{}:{}:{label}", self.group, self.name)
    }

    /// The names of its stages.
    pub fn stages(&self) -> impl Iterator<Item = String> {
        self.labels.iter().map(|label| self.stage(label))
    }

    /// The suites that were asked for, after those that they are compared with; a whole run leaves
    /// all of them out.
    pub fn named(&self, only: &[String]) -> Vec<&'static str> {
        let labels = || self.labels.iter().copied();
        let is_wanted = |label: &&str| named(only, &self.stage(label));
        let references: Vec<_> = labels()
            .filter(is_wanted)
            .filter_map(|label| self.reference(label))
            .collect();
        labels()
            .filter(|label| is_wanted(label) || references.iter().any(|other| other == label))
            .collect()
    }

    /// The label of the run that this one is compared with, if it is not with a list.
    fn reference(&self, label: &str) -> Option<String> {
        let (run, _) = Run::from_label(label)?;
        let stock = Run {
            stock: true,
            write: false,
            built_in: false,
            cm: false,
            ..run
        };
        (self.against == Against::Stock && !run.stock).then(|| stock.label())
    }

    /// Boots, and compares the results of each suite.
    fn run(&self, dirs: &Dirs, programs: &Programs, labels: &[&str]) -> Result<Vec<Row>> {
        let name = self.chroot.directory();
        let provided = self.chroot.provide(dirs);
        provided.with_context(|| format!("no Debian {}", self.chroot.debian))?;
        let foreign = Foreign {
            architecture: self.processor.architecture,
            processor: self.processor.name,
            root: self.chroot.here(dirs),
            program: PROGRAM,
            seen: vec![(SOURCES, programs.source.clone())],
        };
        let kernel = self.chroot.kernel(dirs)?;
        let machine = debian_deps::foreign(dirs, self.processor.emulator, kernel, foreign)?;
        let dir = dirs.fresh(&format!("{}-{name}", self.group))?;
        copy_libraries(&programs.libraries, &dir)?;
        fs::copy(&programs.program, dir.join(PROGRAM)).context(PROGRAM)?;
        let job = Job::Suites {
            ours: Some(Path::new(JOB_SEEN).join("lib")),
            labels: labels.iter().map(|&label| label.to_owned()).collect(),
        };
        let kernel = machine.kernel.display();
        println!(
            "-- {}: booting {kernel} for {}",
            self.group,
            labels.join(" ")
        );
        let log = dir.join("console.log");
        let start = Instant::now();
        let outcome = vm::boot(dirs, &machine, &dir, &job, &log, false)?;
        let pages = format!("{PAGES}{}", self.pages);
        if !outcome.text.lines().any(|line| line.trim_end() == pages) {
            bail!("{name}: not {pages}; see {}", log.display());
        }
        let took = start.elapsed().as_secs();
        println!("-- {}: {name}: {took} s in all", self.group);
        let row = |label: &&str| {
            let judged = self.judge(dirs, &dir, label);
            let Outcome { mut tally, took } = judged.unwrap_or_else(Outcome::unjudged);
            if outcome.hung {
                tally.fail(format!("the machine hung; see {}", log.display()));
            }
            Row::new(self.stage(label), took, tally)
        };
        Ok(labels.iter().map(row).collect())
    }

    /// The results of a suite.
    fn judge(&self, dirs: &Dirs, dir: &Path, label: &str) -> Result<Outcome> {
        if label.starts_with(uroce::STAGE) {
            return uroce::judge_guest(dirs, dir, label);
        }
        let (run, _) = Run::from_label(label).with_context(|| format!("no suite {label}"))?;
        if self.against == Against::Lists {
            return boots::judge(dirs, dir, run, false);
        }
        let list = List::read(dir, label)?;
        // The release's own libraries are compared with themselves: what fails there is counted.
        let reference = self.reference(label);
        let reference = List::read(dir, reference.as_deref().unwrap_or(label))?;
        let all = reference.records.into_iter();
        let wanted: Vec<_> = all.filter(|record| run.has(&record.name)).collect();
        let ended_early = wanted.iter().any(|record| record.name == CUT_SHORT);
        let mut tally = expect::compare_with_run(&wanted, &list.records, ended_early);
        if list.took.is_none() || reference.took.is_none() {
            tally.fail("a run ended before the suite did");
        }
        let took = list.took.unwrap_or_default();
        Ok(Outcome { tally, took })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm64;

    fn all() -> impl Iterator<Item = &'static Boot> {
        arm64::guest::BOOTS.iter().chain(&releases::BOOTS)
    }

    #[test]
    fn the_suites_exist() {
        let of_uroce = uroce::names();
        for label in all().flat_map(|boot| boot.labels) {
            let is_of_uroce = of_uroce.iter().any(|name| name == label);
            assert!(is_of_uroce || Run::from_label(label).is_some(), "{label}");
        }
    }

    #[test]
    fn a_suite_follows_the_run_that_it_is_compared_with() {
        for boot in all() {
            for (at, label) in boot.labels.iter().enumerate() {
                let Some(reference) = boot.reference(label) else {
                    continue;
                };
                let before = &boot.labels[..at];
                assert!(before.contains(&reference.as_str()), "{label}");
                let named = boot.named(&[boot.stage(label)]);
                assert!(named.contains(label) && named.contains(&reference.as_str()));
            }
        }
    }
}
