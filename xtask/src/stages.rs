//! `cargo xtask test`: the stages, which of them run, and in what order.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{
    cli, ctests,
    dirs::Dirs,
    expect,
    guest::COMPLETE,
    host, links,
    needs::{self, Machine},
    package,
    record::{Record, parse_list},
    report::{Report, Tally},
    siw,
    suites::{Again, On, Run, SUITES, UROCE_RXE, programs},
    unit, uroce, valgrind,
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
const VALGRIND: &str = "unit:valgrind";
const GUEST: &str = "guest:";
const C_TESTS: &str = "c-tests";

/// The stage in which uroce meets the kernel's soft-RoCE.
pub fn uroce_rxe() -> String {
    format!("{GUEST}{UROCE_RXE}")
}

/// The runs of the suites, in the order of their boots.
fn guest_runs(stock: bool) -> Vec<(u8, Run)> {
    let mut runs = Vec::new();
    for suite in SUITES {
        let plain = Run {
            suite: suite.name,
            stock: false,
            write: false,
            built_in: false,
        };
        let reference = Run {
            stock: true,
            ..plain
        };
        let ways = if stock {
            vec![reference]
        } else {
            // The C tests have no list: what they give over the stock library is the reference.
            let reference = (suite.name == C_TESTS).then_some(reference);
            let write = suite.both_paths.then_some(Run {
                write: true,
                ..plain
            });
            let built_in = (suite.built_in != Again::Nothing).then_some(Run {
                built_in: true,
                ..plain
            });
            let ways = [reference, Some(plain), write, built_in];
            ways.into_iter().flatten().collect()
        };
        if stock && suite.name == UROCE_RXE {
            // The system's library has no uroce.
            continue;
        }
        runs.extend(ways.into_iter().map(|run| (suite.boot, run)));
    }
    runs
}

/// The runs that were asked for, with what they are compared with.
fn chosen_runs(options: &cli::Test) -> Vec<(u8, Run)> {
    let asked = |run: Run| chosen(&options.only, &format!("{GUEST}{}", run.label()));
    let all = guest_runs(options.stock);
    let suites: Vec<_> = all
        .iter()
        .filter(|(_, run)| asked(*run))
        .map(|(_, run)| run.suite)
        .collect();
    let wanted = |run: Run| asked(run) || (run.stock && suites.contains(&run.suite));
    all.into_iter().filter(|(_, run)| wanted(*run)).collect()
}

fn names(stock: bool) -> Vec<String> {
    let cargo = CARGO.iter().map(|stage| stage.name.to_owned());
    let guest = guest_runs(stock)
        .into_iter()
        .map(|(_, run)| format!("{GUEST}{}", run.label()));
    let others = [links::STAGE, VALGRIND, package::STAGE].map(str::to_owned);
    let here = if stock { Vec::new() } else { uroce::names() };
    cargo.chain(others).chain(here).chain(guest).collect()
}

/// Whether a stage was asked for: by its name, or by a part of it up to a `:` or `.`.
pub fn chosen(only: &[String], stage: &str) -> bool {
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
    needs::provide_here(&dirs)?;
    let mut report = Report::default();
    // The stock library's results say nothing about what is built here.
    if !options.stock {
        on_this_machine(&dirs, options, &mut report)?;
    }
    in_the_guest(&dirs, options, &mut report)?;
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
    if chosen(&options.only, links::STAGE) {
        println!("-- {}: what the documents point to", links::STAGE);
        let start = Instant::now();
        report.add(links::STAGE, start.elapsed(), links::run(&dirs.root));
    }
    if chosen(&options.only, VALGRIND) {
        println!("-- {VALGRIND}: the unit tests of the packages with unsafe code");
        let start = Instant::now();
        let tally = valgrind::run(dirs, &dirs.work.join("valgrind.log"))?;
        report.add(VALGRIND, start.elapsed(), tally);
    }
    if chosen(&options.only, package::STAGE) {
        let start = Instant::now();
        let tally = package::run(dirs);
        report.add(package::STAGE, start.elapsed(), tally);
    }
    uroce::stages(dirs, options, report)
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

fn in_the_guest(dirs: &Dirs, options: &cli::Test, report: &mut Report) -> Result<()> {
    let runs = chosen_runs(options);
    if runs.is_empty() {
        return Ok(());
    }
    let machine = needs::machine(dirs)?;
    if !options.stock && !chosen(&options.only, "build") {
        vm::build_library(dirs)?;
    }
    if runs.iter().any(|(_, run)| run.suite == C_TESTS) {
        ctests::build(dirs)?;
    }
    if runs.iter().any(|(_, run)| run.suite == programs::NAME) {
        programs::build(dirs)?;
    }
    let (runs, module) = with_module(dirs, &machine, runs, report);
    for boot in runs.chunk_by(|(a, _), (b, _)| a == b) {
        let labels: Vec<_> = boot.iter().map(|(_, run)| *run).collect();
        let boot = Boot {
            machine: &machine,
            runs: &labels,
            module: module.as_deref(),
        };
        one_boot(dirs, options, &boot, report)?;
    }
    Ok(())
}

/// The module that runs on soft-iWARP need. Where it cannot be had they are skipped, and the rest is
/// answered.
fn with_module(
    dirs: &Dirs,
    machine: &Machine,
    runs: Vec<(u8, Run)>,
    report: &mut Report,
) -> (Vec<(u8, Run)>, Option<PathBuf>) {
    if runs.iter().all(|(_, run)| run.on() != On::Siw) {
        return (runs, None);
    }
    let reason = match siw::module(dirs, machine) {
        Ok(module) => return (runs, Some(module)),
        Err(error) => format!("no module for soft-iWARP: {error:#}"),
    };
    let (without, others) = runs.into_iter().partition(|(_, run)| run.on() == On::Siw);
    let without: Vec<(u8, Run)> = without;
    for (_, run) in without {
        let mut tally = Tally::default();
        tally.skip(&reason);
        report.add(&format!("{GUEST}{}", run.label()), Duration::ZERO, tally);
    }
    (others, None)
}

/// One boot of the virtual machine.
struct Boot<'a> {
    machine: &'a Machine,
    runs: &'a [Run],
    /// Of soft-iWARP, if one of them needs it.
    module: Option<&'a Path>,
}

/// Boots once for these runs, and holds what each gave against its list.
fn one_boot(dirs: &Dirs, options: &cli::Test, boot: &Boot<'_>, report: &mut Report) -> Result<()> {
    let Boot {
        machine,
        runs,
        module,
    } = *boot;
    let labels: Vec<_> = runs.iter().map(|run| run.label()).collect();
    println!(
        "-- booting {} for {}",
        machine.kernel.display(),
        labels.join(" ")
    );
    if report.has_failed("build") {
        not_run(runs, report);
        return Ok(());
    }
    let first = labels.first().map_or("none", String::as_str);
    let dir = dirs.fresh(&format!("guest-{first}"))?;
    let ours = if options.stock {
        None
    } else {
        Some(dirs.snapshot(&dir)?)
    };
    if let Some(module) = module {
        fs::copy(module, dir.join(siw::MODULE)).context("the module")?;
    }
    let log = dir.join("console.log");
    let start = Instant::now();
    let job = Job::Suites {
        ours,
        labels: labels.clone(),
    };
    let outcome = vm::boot(dirs, machine, &dir, &job, &log)?;
    let all = start.elapsed();
    let mut suites = Duration::ZERO;
    for run in runs {
        let label = run.label();
        let judged = judge(dirs, &dir, *run, options.bless);
        let Outcome { mut tally, took } = judged.unwrap_or_else(Outcome::unjudged);
        if outcome.hung {
            tally.fail(format!("the virtual machine hung; see {}", log.display()));
        }
        suites += took;
        report.add(&format!("{GUEST}{label}"), took, tally);
    }
    println!(
        "-- {} s to boot and power off",
        all.saturating_sub(suites).as_secs()
    );
    Ok(())
}

/// Says of each run that there is no library for it; the other stages still run.
fn not_run(runs: &[Run], report: &mut Report) {
    for run in runs {
        let mut tally = Tally::default();
        tally.fail("not run: the library does not build");
        report.add(&format!("{GUEST}{}", run.label()), Duration::ZERO, tally);
    }
}

fn judge(dirs: &Dirs, dir: &Path, run: Run, bless: bool) -> Result<Outcome> {
    let list = List::read(dir, &run.label())?;
    let refused = if bless && run.suite != C_TESTS {
        list.bless(dirs, run).err()
    } else {
        None
    };
    let mut tally = if run.suite == C_TESTS {
        ctests::judge(dirs, dir, run)?
    } else {
        let expected = expect::load(&dirs.expected(), run.suite)?;
        match run.built_in {
            true => {
                let wanted: Vec<_> = expected.into_iter().filter(|r| run.has(&r.name)).collect();
                expect::compare_at_least(&wanted, &list.records)
            }
            false => expect::compare(&expected, &list.records),
        }
    };
    if let Some(refused) = refused {
        tally.fail(format!("not written as the expected list: {refused:#}"));
    }
    if list.took.is_none() {
        tally.fail("the run ended before the suite did");
    }
    let took = list.took.unwrap_or_default();
    Ok(Outcome { tally, took })
}

pub struct Outcome {
    pub tally: Tally,
    pub took: Duration,
}

impl Outcome {
    /// What a run is that cannot be held against anything; the others go on.
    pub fn unjudged(error: anyhow::Error) -> Self {
        let mut tally = Tally::default();
        tally.fail(format!("{error:#}"));
        Self {
            tally,
            took: Duration::ZERO,
        }
    }
}

/// What a suite wrote where it ran.
pub struct List {
    pub records: Vec<Record>,
    /// How long it took, if it came to its end.
    pub took: Option<Duration>,
}

impl List {
    /// Writes the results as the expected list, if they can be one.
    fn bless(&self, dirs: &Dirs, run: Run) -> Result<()> {
        let suite = run.suite;
        if self.took.is_none() {
            bail!("not complete");
        }
        let lists = dirs.expected();
        if suite == UROCE_RXE {
            let peer = "and the kernel's soft-RoCE, Linux 6.1";
            return expect::bless_uroce(&lists, suite, &uroce_rxe(), peer, &self.records);
        }
        let device = match run.on() {
            On::Rxe => "rxe",
            On::Siw => "siw",
        };
        expect::bless(&lists, suite, device, &self.records)
    }

    pub fn read(dir: &Path, label: &str) -> Result<Self> {
        let path = dir.join(format!("{label}.tsv"));
        // A machine that crashed early has written none.
        let text = fs::read_to_string(&path).unwrap_or_default();
        let records = parse_list(&text).with_context(|| path.display().to_string())?;
        let last = text.lines().next_back().unwrap_or_default();
        let seconds = last
            .strip_prefix(COMPLETE)
            .and_then(|rest| rest.trim().parse().ok());
        Ok(Self {
            records,
            took: seconds.map(Duration::from_secs),
        })
    }
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
    fn c_tests_bring_their_reference() {
        let options = cli::Test {
            only: vec!["guest:c-tests.write".into()],
            ..cli::Test::default()
        };
        let runs = chosen_runs(&options);
        let labels: Vec<_> = runs.iter().map(|(_, run)| run.label()).collect();
        assert_eq!(labels, ["c-tests.stock", "c-tests.write"]);
    }

    #[test]
    fn each_boot_is_one_stretch() {
        let boots: Vec<_> = guest_runs(false).iter().map(|(boot, _)| *boot).collect();
        assert!(boots.is_sorted());
    }
}
