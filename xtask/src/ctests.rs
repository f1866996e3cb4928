//! Calling the runner of the C tests: it compiles here, runs in the virtual machine, compares here.
#![forbid(unsafe_code)]

mod known;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use known::{Known, RUST, UROCE};

use crate::{
    dirs::{C_PROGRAMS, Dirs},
    host,
    report::Tally,
    suites::Run,
    vm::Library,
};

/// The script in whose network the programs find a device of uroce instead of soft-RoCE.
const OVER_UROCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/guest/over-uroce");

/// Seconds after which the runner calls a program hung; the longest takes a few in emulation.
const PATIENCE: &str = "300";

/// The names of the compilations, with which each difference begins.
const COMPILATIONS: [&str; 4] = ["stock-gcc ", "ours-gcc ", "stock-clang ", "ours-clang "];

/// The sets whose programs use the device.
const WITH_DEVICE: [&str; 3] = ["rxe", "ioctl", "man"];

/// The sets whose programs call the kernel, or use no device. The others use uroce, for which the
/// kernel's interface makes no difference, and some of them take minutes in emulation.
const BY_KERNEL: [&str; 5] = ["no_device", "rxe", "plugin", "man", "post_44_rxe"];

/// The sets of a run: all; over the built-in provider those that call a provider; over the write
/// interface those that call the kernel.
fn sets(run: Run) -> impl Iterator<Item = &'static str> {
    let sets: &[&str] = match run {
        Run { cm: true, .. } => &["rdmacm"],
        Run { built_in: true, .. } => &WITH_DEVICE,
        Run { write: true, .. } => &BY_KERNEL,
        _ => &[],
    };
    sets.iter().flat_map(|set| ["--set", set])
}

fn runner(dirs: &Dirs) -> PathBuf {
    dirs.program.with_file_name("c-tests")
}

fn programs(dirs: &Dirs) -> PathBuf {
    dirs.target.join(C_PROGRAMS)
}

fn records(dir: &Path, label: &str) -> PathBuf {
    dir.join(format!("{label}.records"))
}

/// Those of programs that ran over uroce.
fn records_over_uroce(dir: &Path, run: Run) -> PathBuf {
    records(dir, &format!("{}.uroce", run.label()))
}

/// Compiles the runner and all programs.
pub fn build(dirs: &Dirs) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo
        .args(["build", "--package", "c-tests"])
        .current_dir(&dirs.root);
    let mut compile = Command::new(runner(dirs));
    compile.args(["build", "--out"]).arg(programs(dirs));
    for command in [&mut cargo, &mut compile] {
        let log = dirs.work.join("c-tests-build.log");
        let outcome = host::run(command, &log, None)?;
        if !outcome.status.success() {
            bail!("the C tests do not compile; see {}", log.display());
        }
    }
    Ok(())
}

/// Runs the programs over a library; called in the virtual machine.
///
/// The runner itself sees to it that each program runs over the library that is asked for.
pub fn run_programs(library: &Library, run: Run, dir: &Path) -> Result<()> {
    let dirs = Dirs::find()?;
    let over_rxe = Command::new(runner(&dirs));
    run_by(over_rxe, &dirs, library, run, &records(dir, &run.label()))?;
    if run.cm {
        let mut over_uroce = Command::new(OVER_UROCE);
        over_uroce.arg(runner(&dirs));
        let records = records_over_uroce(dir, run);
        run_by(over_uroce, &dirs, library, run, &records)?;
    }
    Ok(())
}

/// The same by a command that begins with the runner; the records go into a file.
fn run_by(
    mut command: Command,
    dirs: &Dirs,
    library: &Library,
    run: Run,
    records: &Path,
) -> Result<()> {
    command.arg("run").arg("--programs").arg(programs(dirs));
    match library {
        Library::Stock => command.args(["--lib", "stock"]),
        Library::Ours(dir) | Library::WithRdmacm(dir) => command.arg("--lib").arg(dir),
    };
    command.args(sets(run));
    // The headers of the compilation matter only once, and neither for the provider nor for the
    // kernel. Only ours exist for programs newer than the stock library.
    if run.built_in {
        command.args(["--combo", "stock-gcc"]);
    } else if run.write {
        command.args(["--combo", "ours-gcc"]);
    }
    command.args(["--patience", PATIENCE, "--out"]);
    command.arg(records);
    command.envs(run.env());
    let status = command.status().context("the C tests' runner")?;
    // 1 means that a program failed, which the comparison reports in detail; 2 that the run is
    // invalid.
    if !matches!(status.code(), Some(0 | 1)) {
        bail!("the C tests' runner ended with {status}");
    }
    Ok(())
}

/// Compares the output of a run with the reference, the run over the stock library.
pub fn judge(dirs: &Dirs, dir: &Path, run: Run) -> Result<Tally> {
    let reference = Run {
        stock: true,
        write: false,
        built_in: false,
        cm: false,
        ..run
    };
    let reference = records(dir, &reference.label());
    let alone = compare(dirs, &[&reference], run)?;
    if run.stock {
        return Ok(alone.tally());
    }
    let with = |other: &Path, list: &str| -> Result<Comparison> {
        let mut both = compare(dirs, &[&reference, other], run)?;
        fs::write(dir.join(list), &both.text)?;
        // The comparison counts the reference's own outputs too.
        both.agree = both.agree.saturating_sub(alone.agree);
        both.titles.retain(|title| !alone.titles.contains(title));
        Ok(both)
    };
    let own = with(
        &records(dir, &run.label()),
        &format!("{}.diff", run.label()),
    )?;
    if run.cm {
        let over_uroce = with(&records_over_uroce(dir, run), UROCE)?;
        let mut tally = own.tally();
        tally.add(known_apart(
            over_uroce,
            &Known::load(&dirs.expected(), UROCE)?,
        ));
        return Ok(tally);
    }
    if !run.built_in {
        return Ok(own.tally());
    }
    Ok(known_apart(own, &Known::load(&dirs.expected(), RUST)?))
}

/// The result of a comparison, of whose differences those of a list are known.
fn known_apart(mut both: Comparison, known: &Known) -> Tally {
    let stale = known.stale(&both.titles);
    let mut reasons = Vec::new();
    let text = &both.text;
    both.titles.retain(|title| {
        let reason = known.reason(title, text);
        reasons.extend(reason.clone());
        reason.is_none()
    });
    both.titles.extend(stale);
    let mut tally = both.tally();
    for reason in &reasons {
        tally.skip(reason);
    }
    tally
}

#[derive(Debug, PartialEq)]
struct Comparison {
    agree: usize,
    titles: Vec<String>,
    text: String,
}

impl Comparison {
    fn tally(self) -> Tally {
        Tally {
            passed: self.agree,
            failures: self.titles,
            ..Tally::default()
        }
    }
}

fn compare(dirs: &Dirs, files: &[&Path], run: Run) -> Result<Comparison> {
    if let Some(missing) = files.iter().find(|file| !file.exists()) {
        let titles = vec![format!("{} was not written", missing.display())];
        let text = String::new();
        return Ok(Comparison {
            agree: 0,
            titles,
            text,
        });
    }
    let output = Command::new(runner(dirs))
        .arg("compare")
        .args(files)
        .args(sets(run))
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    parse(text).with_context(|| format!("c-tests compare: {errors}"))
}

/// Reads differences, each begun by the name of a compilation, and the line of totals.
fn parse(text: String) -> Result<Comparison> {
    let titles: Vec<_> = text
        .lines()
        .filter(|line| COMPILATIONS.iter().any(|name| line.starts_with(name)))
        .map(|line| line.trim_end_matches(':').to_owned())
        .collect();
    let last = text.lines().next_back().unwrap_or_default();
    let totals = last
        .split_once(" outputs agree, ")
        .and_then(|(agree, rest)| Some((agree, rest.strip_suffix(" differ")?)));
    let (agree, differ) = totals.with_context(|| format!("no totals in {last:?}"))?;
    let (agree, differ): (usize, usize) = (agree.parse()?, differ.parse()?);
    if differ != titles.len() {
        bail!("{differ} differences, of which {} are named", titles.len());
    }
    Ok(Comparison {
        agree,
        titles,
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named_and_counted() -> Result<()> {
        let text = "ours-gcc rxe/mr on /x:\n--- reference\n+++ found\n-a\n+b\n\n\
                    stock-gcc no_device/fork: not run\n\n7 outputs agree, 2 differ\n";
        let found = parse(text.into())?;
        assert_eq!(found.agree, 7);
        assert_eq!(
            found.titles,
            ["ours-gcc rxe/mr on /x", "stock-gcc no_device/fork: not run"]
        );
        Ok(())
    }

    #[test]
    fn a_comparison_cut_short_is_an_error() {
        assert!(parse("stock-gcc no_device/fork: not run\n".into()).is_err());
        assert!(parse("1 outputs agree, 1 differ\n".into()).is_err());
    }
}
