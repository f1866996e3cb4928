//! `cargo xtask test`: the stages, which of them run, and in what order.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::Path,
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{
    cli,
    dirs::Dirs,
    expect,
    guest::COMPLETE,
    host,
    needs::{self, Machine},
    record::{Record, parse_list},
    report::{Report, Tally},
    suites::{Run, SUITES},
    unit,
    vm::{self, Job},
};

/// A stage on this machine: its name, cargo's words, and the variable that makes warnings errors.
struct Cargo {
    name: &'static str,
    words: &'static [&'static str],
    env: Option<(&'static str, &'static str)>,
}

const CARGO: &[Cargo] = &[
    Cargo {
        name: "fmt",
        words: &["fmt", "--all", "--", "--check"],
        env: None,
    },
    Cargo {
        name: "clippy",
        words: &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
        env: None,
    },
    Cargo {
        name: "doc",
        words: &[
            "doc",
            "--workspace",
            "--no-deps",
            "--document-private-items",
        ],
        env: Some(("RUSTDOCFLAGS", "-D warnings")),
    },
    Cargo {
        name: "build",
        words: &["build", "--release", "--package", "ferroverbs"],
        env: None,
    },
    Cargo {
        name: UNIT,
        words: &["test", "--workspace", "--no-fail-fast"],
        env: None,
    },
];

const UNIT: &str = "unit";
const GUEST: &str = "guest:";

/// The runs of the suites, in the order of their boots.
fn guest_runs(stock: bool) -> Vec<(u8, Run)> {
    let mut runs = Vec::new();
    for suite in SUITES {
        let run = Run {
            suite: suite.name,
            stock,
            write: false,
        };
        runs.push((suite.boot, run));
        if suite.both_paths && !stock {
            runs.push((suite.boot, Run { write: true, ..run }));
        }
    }
    runs
}

fn names(stock: bool) -> Vec<String> {
    let cargo = CARGO.iter().map(|stage| stage.name.to_owned());
    let guest = guest_runs(stock)
        .into_iter()
        .map(|(_, run)| format!("{GUEST}{}", run.label()));
    cargo.chain(guest).collect()
}

/// Whether a stage was asked for: by its name, or by a part of it up to a `:` or `.`.
fn chosen(only: &[String], stage: &str) -> bool {
    only.is_empty() || only.iter().any(|asked| names_stage(asked, stage))
}

fn names_stage(asked: &str, stage: &str) -> bool {
    let Some(rest) = stage.strip_prefix(asked) else {
        return false;
    };
    rest.is_empty() || rest.starts_with([':', '.'])
}

pub fn run(options: &cli::Test) -> Result<ExitCode> {
    let names = names(options.stock);
    for asked in &options.only {
        if !names.iter().any(|name| names_stage(asked, name)) {
            bail!("no stage is called {asked}; there are: {}", names.join(" "));
        }
    }
    if options.list {
        println!("{}", names.join("\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let dirs = Dirs::find()?;
    let machine = needs::provide(&dirs)?;
    let mut report = Report::default();
    // The stock library's results say nothing about what is built here.
    if !options.stock {
        on_this_machine(&dirs, options, &mut report)?;
    }
    in_the_guest(&dirs, &machine, options, &mut report)?;
    println!("\n{}", report.text());
    Ok(if report.failed() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn on_this_machine(dirs: &Dirs, options: &cli::Test, report: &mut Report) -> Result<()> {
    for stage in CARGO
        .iter()
        .filter(|stage| chosen(&options.only, stage.name))
    {
        println!("-- {}: cargo {}", stage.name, stage.words.join(" "));
        let start = Instant::now();
        let log = dirs.work.join(format!("{}.log", stage.name));
        let mut command = Command::new("cargo");
        command
            .args(stage.words)
            .envs(stage.env)
            .current_dir(&dirs.root);
        let outcome = host::run(&mut command, &log, None)?;
        let ended_well = outcome.status.success();
        let tally = if stage.name == UNIT {
            unit::tally(&outcome.text, ended_well)
        } else {
            one_test(stage.name, ended_well, &log)
        };
        report.add(stage.name, start.elapsed(), tally);
    }
    Ok(())
}

fn one_test(name: &str, ended_well: bool, log: &Path) -> Tally {
    let mut tally = Tally::default();
    if ended_well {
        tally.passed = 1;
    } else {
        tally.fail(format!("{name}: see {}", log.display()));
    }
    tally
}

fn in_the_guest(
    dirs: &Dirs,
    machine: &Machine,
    options: &cli::Test,
    report: &mut Report,
) -> Result<()> {
    let mut runs = guest_runs(options.stock);
    runs.retain(|(_, run)| chosen(&options.only, &format!("{GUEST}{}", run.label())));
    if runs.is_empty() {
        return Ok(());
    }
    if !options.stock && !chosen(&options.only, "build") {
        vm::build_library(dirs)?;
    }
    for boot in runs.chunk_by(|(a, _), (b, _)| a == b) {
        let labels: Vec<_> = boot.iter().map(|(_, run)| *run).collect();
        one_boot(dirs, machine, options, &labels, report)?;
    }
    Ok(())
}

/// Boots once for these runs, and holds what each gave against its list.
fn one_boot(
    dirs: &Dirs,
    machine: &Machine,
    options: &cli::Test,
    runs: &[Run],
    report: &mut Report,
) -> Result<()> {
    let labels: Vec<_> = runs.iter().map(|run| run.label()).collect();
    println!(
        "-- booting {} for {}",
        machine.kernel.display(),
        labels.join(" ")
    );
    let ours = if options.stock {
        None
    } else {
        library(dirs, report, &labels)?
    };
    if ours.is_none() && !options.stock {
        return Ok(());
    }
    let first = labels.first().map_or("none", String::as_str);
    let dir = dirs.fresh(&format!("guest-{first}"))?;
    let log = dir.join("console.log");
    let start = Instant::now();
    let job = Job::Suites {
        ours,
        labels: labels.clone(),
    };
    let outcome = vm::boot(dirs, machine, &dir, &job, &log)?;
    let mut took = start.elapsed();
    for run in runs {
        let label = run.label();
        let mut tally =
            judge(dirs, &dir, *run, options.bless).with_context(|| format!("{GUEST}{label}"))?;
        if outcome.hung {
            tally.fail(format!("the virtual machine hung; see {}", log.display()));
        }
        // The time is the boot's: given to its first stage, so that the column adds up.
        report.add(&format!("{GUEST}{label}"), took, tally);
        took = Duration::ZERO;
    }
    Ok(())
}

/// The library to test; without one its stages fail, and the others still run.
fn library(
    dirs: &Dirs,
    report: &mut Report,
    labels: &[String],
) -> Result<Option<std::path::PathBuf>> {
    if !report.has_failed("build") {
        return dirs.library().map(Some);
    }
    for label in labels {
        let mut tally = Tally::default();
        tally.fail("not run: the library does not build");
        report.add(&format!("{GUEST}{label}"), Duration::ZERO, tally);
    }
    Ok(None)
}

fn judge(dirs: &Dirs, dir: &Path, run: Run, bless: bool) -> Result<Tally> {
    let (results, complete) = results(dir, &run.label())?;
    if bless {
        if !complete {
            bail!("not complete, so not written as the expected list");
        }
        expect::bless(&dirs.expected(), run.suite, &results)?;
    }
    let expected = expect::load(&dirs.expected(), run.suite)?;
    let mut tally = expect::compare(&expected, &results);
    if !complete {
        tally.fail("the run ended before the suite did");
    }
    Ok(tally)
}

fn results(dir: &Path, label: &str) -> Result<(Vec<Record>, bool)> {
    let path = dir.join(format!("{label}.tsv"));
    // A machine that crashed early has written none.
    let text = fs::read_to_string(&path).unwrap_or_default();
    let complete = text.lines().next_back() == Some(COMPLETE);
    Ok((
        parse_list(&text).with_context(|| path.display().to_string())?,
        complete,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_chosen_by_name_or_group() {
        let only = ["guest:pyverbs".to_owned()];
        assert!(chosen(&only, "guest:pyverbs"));
        assert!(chosen(&only, "guest:pyverbs.write"));
        assert!(!chosen(&only, "guest:pyverbs-cm"));
        assert!(!chosen(&only, "unit"));
        assert!(chosen(&["guest".to_owned()], "guest:ucx"));
        assert!(chosen(&[], "fmt"));
    }

    #[test]
    fn the_write_path_is_ours_alone() {
        let labels = |stock| names(stock).join(" ");
        assert!(labels(false).contains("guest:pyverbs.write"));
        assert!(!labels(true).contains(".write"));
    }

    #[test]
    fn each_boot_is_one_stretch() {
        let boots: Vec<_> = guest_runs(false).iter().map(|(boot, _)| *boot).collect();
        assert!(boots.is_sorted());
    }
}
