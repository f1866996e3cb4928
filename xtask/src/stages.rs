//! `cargo xtask test`: the stages, their selection, and their order.
#![forbid(unsafe_code)]

use std::{
    process::ExitCode,
    sync::mpsc::{self, Receiver, Sender},
    thread::{self, ScopedJoinHandle},
    time::Instant,
};

use anyhow::{Result, anyhow, bail};

use crate::{
    arm64,
    boots::{self, Booted, Boots},
    cargo::{self, CARGO, asked},
    circles, deadline, debian_deps,
    dirs::Dirs,
    dist,
    kernels::releases as release_guest,
    library::{self, Made},
    links,
    options::Test,
    package::{self, Compiled, releases::RELEASES, reproducible, rpm},
    progress::Progress,
    report::{Report, Row, Tally},
    sanitizers, sccache,
    stage::{BUILD, C_TESTS, FMT, GUEST, UNIT, chosen, named, names_stage},
    style,
    suites::{Again, Run, SUITES},
    uroce,
};

/// The stages that have their own place: before all else, and where the library is made.
const FIRST: [&str; 2] = [FMT, BUILD];

/// The runs of the suites, in the order of their boots.
fn guest_runs(stock: bool) -> Vec<(u8, Run)> {
    let mut runs = Vec::new();
    for suite in SUITES {
        let plain = Run {
            suite: suite.name,
            stock: false,
            write: false,
            built_in: false,
            cm: false,
        };
        let reference = Run {
            stock: true,
            ..plain
        };
        let ways = if stock {
            vec![reference]
        } else {
            // The C tests have no list: the results over the stock library are the reference.
            let reference = (suite.name == C_TESTS).then_some(reference);
            let write = suite.both_paths.then_some(Run {
                write: true,
                ..plain
            });
            let built_in = (suite.built_in != Again::Nothing).then_some(Run {
                built_in: true,
                ..plain
            });
            let cm = (suite.cm != Again::Nothing).then_some(Run {
                built_in: true,
                cm: true,
                ..plain
            });
            let plain = (suite.cm != Again::Alone).then_some(plain);
            let ways = [reference, plain, write, built_in, cm];
            ways.into_iter().flatten().collect()
        };
        if stock && plain.has_uroce() {
            // The system's library has no uroce.
            continue;
        }
        runs.extend(ways.into_iter().map(|run| (suite.boot, run)));
    }
    runs
}

/// The selected runs, with their references.
fn chosen_runs(options: &Test) -> Vec<(u8, Run)> {
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
    let others = others().map(str::to_owned);
    let others = others
        .chain(release_guest::names())
        .chain(arm64::guest::names());
    let here = if stock { Vec::new() } else { uroce::names() };
    cargo.chain(others).chain(here).chain(guest).collect()
}

/// The stages that a run has.
fn expected(options: &Test) -> Vec<String> {
    let runs = chosen_runs(options).into_iter();
    let runs = runs.map(|(_, run)| format!("{GUEST}{}", run.label()));
    if options.stock {
        return runs.collect();
    }
    let is_left_out =
        |name: &str| name == reproducible::STAGE || other_kernels().any(|stage| stage == name);
    let is_chosen = |name: &String| match is_left_out(name) {
        true => named(&options.only, name),
        false => chosen(&options.only, name),
    };
    let here = names(false)
        .into_iter()
        .filter(|name| !name.starts_with(GUEST) && is_chosen(name));
    here.chain(runs).collect()
}

/// The stages that boot other kernels.
fn other_kernels() -> impl Iterator<Item = String> {
    release_guest::names().chain(arm64::guest::names())
}

/// The stages on this machine that are not one command of cargo.
fn others() -> impl Iterator<Item = &'static str> {
    [links::STAGE, circles::STAGE, style::STAGE]
        .into_iter()
        .chain(sanitizers::STAGES)
        .chain([package::STAGE])
        .chain(RELEASES.iter().map(|release| release.stage))
        .chain([rpm::STAGE, arm64::STAGE, reproducible::STAGE])
        .chain(dist::STAGES.iter().map(|(name, _)| *name))
}

pub fn run(options: &Test) -> Result<ExitCode> {
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
    if let Some(within) = options.within {
        deadline::set(within);
    }
    let dirs = Dirs::find()?;
    if options.only.is_empty() {
        debian_deps::space(&dirs)?;
    }
    debian_deps::provide_here(&dirs)?;
    if let Some(code) = sccache::run_again(&dirs)? {
        return Ok(code);
    }
    let progress = Progress::new(&dirs.cache, expected(options));
    let mut report = Report::of(progress);
    // The stock library's results are unrelated to this build.
    if !options.stock {
        for stage in asked(options).filter(|stage| stage.name == FMT) {
            report.add(cargo::run(&dirs, stage)?);
        }
    }
    let runs = chosen_runs(options);
    if options.stock || !any_meanwhile(options) {
        let dirs = in_the_machine(&dirs, options, runs, &mut report)?;
        if !options.stock {
            uroce::stages(&dirs, options, &mut report)?;
        }
    } else {
        side_by_side(&dirs, options, runs, &mut report)?;
    }
    println!("\n{}", report.text());
    Ok(if report.failed() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Runs the stages of the virtual machine alone; returns the place of the library.
fn in_the_machine(
    dirs: &Dirs,
    options: &Test,
    runs: Vec<(u8, Run)>,
    report: &mut Report,
) -> Result<Dirs> {
    let needed = !runs.is_empty();
    let (made, programs) = thread::scope(|scope| {
        let programs = scope.spawn(|| {
            give_way();
            boots::compile(dirs, &runs)
        });
        (library::make(dirs, options, needed), joined(programs))
    });
    let (dirs, made) = made?;
    programs?;
    let failed = made.failed();
    made.stage.into_iter().for_each(|row| report.add(row));
    if let Some(boots) = ready(&dirs, options, runs, failed, |boot| {
        boot.print_output(report)
    })? {
        boots.run(true, |boot| boot.print_output(report));
    }
    Ok(dirs)
}

/// Runs the stages of the virtual machine beside those of this machine.
///
/// Programs in the virtual machine poll: if it has to wait for a processor, it also needs more
/// processor time. So the stages of this machine have a lower priority, and still have one
/// processor most of the time. When they have ended, there is room for a second machine, and for
/// the suites of uroce.
fn side_by_side(
    dirs: &Dirs,
    options: &Test,
    runs: Vec<(u8, Run)>,
    report: &mut Report,
) -> Result<()> {
    let (print_output, reported) = mpsc::channel();
    let (compiled, programs) = mpsc::channel();
    let (hand_over, library) = mpsc::channel();
    thread::scope(|scope| {
        let (report, to_compile) = (&mut *report, runs.clone());
        let here = scope.spawn(move || {
            give_way();
            boots::compile(dirs, &to_compile)?;
            let _ = compiled.send(());
            meanwhile(dirs, options, &library, report)?;
            Ok(report)
        });
        let there = begin(dirs, options, runs, hand_over, &programs, &print_output);
        let (dirs, boots) = match there {
            Ok(begun) => begun,
            Err(error) => return joined(here).and(Err(error)),
        };
        boot_beside(boots.as_ref(), &print_output, || {
            let report = joined(here)?;
            release_guest::stages(&dirs, &options.only, report);
            boots
                .iter()
                .for_each(|boots| boot_all(boots, &print_output));
            uroce::stages(&dirs, options, report)
        })
    })?;
    drop(print_output);
    for boot in reported {
        boot.print_output(report);
    }
    Ok(())
}

/// Makes the library and sends it, and prepares the runs once their programs are compiled. The end
/// of a channel without a value means that it could not be made.
fn begin(
    dirs: &Dirs,
    options: &Test,
    runs: Vec<(u8, Run)>,
    hand_over: Sender<(Dirs, Made)>,
    programs: &Receiver<()>,
    print_output: &Sender<Booted>,
) -> Result<(Dirs, Option<Boots>)> {
    let (dirs, made) = library::make(dirs, options, !runs.is_empty())?;
    let failed = made.failed();
    let _ = hand_over.send((dirs.clone(), made));
    if programs.recv().is_err() {
        return Ok((dirs, None));
    }
    let skipped = |boot| print_output.send(boot).unwrap_or_default();
    let boots = ready(&dirs, options, runs, failed, skipped)?;
    Ok((dirs, boots))
}

/// Boots, one machine after the other, while `here` runs.
fn boot_beside(
    boots: Option<&Boots>,
    print_output: &Sender<Booted>,
    here: impl FnOnce() -> Result<()>,
) -> Result<()> {
    thread::scope(|scope| {
        let beside = boots.map(|boots| {
            scope.spawn(|| {
                boot_all(boots, print_output);
                Ok(())
            })
        });
        let here = here();
        here.and(beside.map_or(Ok(()), joined))
    })
}

/// Boots for all that no thread boots for yet, without output.
fn boot_all(boots: &Boots, print_output: &Sender<Booted>) {
    boots.run(false, |boot| print_output.send(boot).unwrap_or_default());
}

/// Makes this thread, and the processes that it starts, yield to all others.
fn give_way() {
    // Linux keeps it by thread. Where it is denied, all this takes longer.
    let _ = rustix::process::nice(10);
}

fn joined<T>(thread: ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    let panicked = |_| Err(anyhow!("a panic in a thread of the stages"));
    thread.join().unwrap_or_else(panicked)
}

/// Prepares the requested runs in the virtual machine. `print_output` gets a result for those that
/// cannot run.
fn ready(
    dirs: &Dirs,
    options: &Test,
    runs: Vec<(u8, Run)>,
    failed: bool,
    mut print_output: impl FnMut(Booted),
) -> Result<Option<Boots>> {
    if runs.is_empty() {
        return Ok(None);
    }
    if failed {
        let runs: Vec<_> = runs.iter().map(|(_, run)| *run).collect();
        print_output(boots::not_run(&runs, "the library does not build"));
        return Ok(None);
    }
    Boots::prepare(dirs, options, runs, print_output).map(Some)
}

fn any_meanwhile(options: &Test) -> bool {
    asked(options).any(|stage| !FIRST.contains(&stage.name))
        || others().any(|stage| chosen(&options.only, stage))
        || other_kernels().any(|stage| named(&options.only, &stage))
}

/// The stages that run beside the virtual machine: none of them measures anything. The first need
/// no library.
fn meanwhile(
    dirs: &Dirs,
    options: &Test,
    library: &Receiver<(Dirs, Made)>,
    report: &mut Report,
) -> Result<()> {
    let here = || asked(options).filter(|stage| !FIRST.contains(&stage.name));
    for stage in here().filter(|stage| stage.name != UNIT) {
        report.add(cargo::run(dirs, stage)?);
    }
    // The code that makes it reports the reason.
    let Ok((dirs, made)) = library.recv() else {
        return Ok(());
    };
    made.stage.into_iter().for_each(|row| report.add(row));
    for stage in here().filter(|stage| stage.name == UNIT) {
        report.add(cargo::run(&dirs, stage)?);
    }
    if chosen(&options.only, circles::STAGE) {
        println!("-- {}: which modules import each other", circles::STAGE);
        let start = Instant::now();
        let tally = circles::run(&dirs.root);
        report.add(Row::new(circles::STAGE, start.elapsed(), tally));
    }
    if chosen(&options.only, style::STAGE) {
        println!("-- {}: lines of comments, and names", style::STAGE);
        let start = Instant::now();
        let tally = style::run(&dirs.root);
        report.add(Row::new(style::STAGE, start.elapsed(), tally));
    }
    if chosen(&options.only, links::STAGE) {
        println!("-- {}: what the documents point to", links::STAGE);
        let start = Instant::now();
        let tally = links::run(&dirs.root);
        report.add(Row::new(links::STAGE, start.elapsed(), tally));
    }
    sanitizers::stages(&dirs, &options.only, report)?;
    packages(&dirs, options, made.packages, report);
    for (name, run) in dist::STAGES {
        if chosen(&options.only, name) {
            let start = Instant::now();
            let tally = run(&dirs);
            report.add(Row::new(*name, start.elapsed(), tally));
        }
    }
    if chosen(&options.only, arm64::STAGE) {
        println!("-- {}: for arm64, by qemu-user", arm64::STAGE);
        let start = Instant::now();
        let tally = arm64::run(&dirs);
        report.add(Row::new(arm64::STAGE, start.elapsed(), tally));
    }
    arm64::guest::stages(&dirs, &options.only, report);
    if named(&options.only, reproducible::STAGE) {
        println!("-- {}: two builds", reproducible::STAGE);
        let start = Instant::now();
        let tally = reproducible::run(&dirs);
        report.add(Row::new(reproducible::STAGE, start.elapsed(), tally));
    }
    Ok(())
}

/// The stages that package the library, which is compiled for the first of them.
fn packages(dirs: &Dirs, options: &Test, compiled: Option<Result<Compiled>>, report: &mut Report) {
    type Run = Box<dyn Fn(&Dirs, &Compiled) -> Tally>;
    let mut stages: Vec<(&str, Run)> = vec![(package::STAGE, Box::new(package::run))];
    for release in &RELEASES {
        let run = |dirs: &Dirs, compiled: &_| release.run(dirs, compiled);
        stages.push((release.stage, Box::new(run)));
    }
    stages.push((rpm::STAGE, Box::new(rpm::run)));
    stages.retain(|(name, _)| chosen(&options.only, name));
    let Some((first, _)) = stages.first() else {
        return;
    };
    let first = *first;
    let mut start = Instant::now();
    let compiled = compiled.unwrap_or_else(|| Compiled::new(dirs));
    for (name, run) in stages {
        let tally = match &compiled {
            Ok(compiled) => run(dirs, compiled),
            Err(error) => not_compiled(name, first, error),
        };
        report.add(Row::new(name, start.elapsed(), tally));
        start = Instant::now();
    }
}

/// The result of a stage without contents for its packages. The first such stage has the cause.
fn not_compiled(name: &str, first: &str, error: &anyhow::Error) -> Tally {
    let mut tally = Tally::default();
    if name == first {
        tally.end(name, error);
    } else {
        tally.skip(&format!("nothing to package: see the stage {first}"));
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn stages_are_chosen_by_name_or_group() {
        let only = ["guest:pyverbs".to_owned()];
        assert!(chosen(&only, "guest:pyverbs"));
        assert!(chosen(&only, "guest:pyverbs.write"));
        assert!(!chosen(&only, "guest:pyverbs-cm"));
        assert!(!chosen(&only, "unit"));
        assert!(chosen(&["guest".to_owned()], "guest:ucx"));
        assert!(chosen(&[], "fmt"));
        assert!(names(false).iter().any(|name| name == reproducible::STAGE));
        assert!(named(
            &[reproducible::STAGE.to_owned()],
            reproducible::STAGE
        ));
        assert!(!named(&[], reproducible::STAGE));
    }

    /// docs/compatibility.md names the stage for each of its cells.
    #[test]
    fn the_matrix_names_stages_that_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let matrix = std::fs::read_to_string(root.join("docs/compatibility.md")).unwrap();
        let stages = names(false);
        let is_there = |asked: &str| match asked.split_once('*') {
            Some((begin, end)) => stages
                .iter()
                .any(|stage| stage.starts_with(begin) && stage.ends_with(end)),
            None => stages.iter().any(|stage| stage == asked),
        };
        let quoted = matrix.split('`').skip(1).step_by(2);
        let begins = [GUEST, "uroce:", "package:"];
        let is_stage =
            |name: &&str| *name == UNIT || begins.iter().any(|group| name.starts_with(group));
        let named: Vec<&str> = quoted.filter(is_stage).collect();
        assert!(named.len() > 20, "{named:?}");
        for stage in named {
            assert!(is_there(stage), "docs/compatibility.md names {stage}");
        }
    }

    #[test]
    fn the_write_path_is_ours_alone() {
        let labels = |stock| names(stock).join(" ");
        assert!(labels(false).contains("guest:pyverbs.write"));
        assert!(!labels(true).contains(".write"));
    }

    #[test]
    fn one_cause_is_one_failure() {
        let wrong = anyhow!("it does not compile");
        let tallies = ["package", "rpm"].map(|name| not_compiled(name, "package", &wrong));
        assert_eq!(tallies[0].failures, ["package: it does not compile"]);
        assert_eq!(tallies[1].skipped(), 1);
        assert!(tallies[1].failures.is_empty());
        let excused = crate::excused::Excused::of(&wrong);
        let tally = not_compiled("package", "package", &excused);
        assert_eq!((tally.skipped(), tally.failures.len()), (1, 0));
    }

    #[test]
    fn c_tests_bring_their_reference() {
        let options = Test {
            only: vec!["guest:c-tests.write".into()],
            ..Test::default()
        };
        let runs = chosen_runs(&options);
        let labels: Vec<_> = runs.iter().map(|(_, run)| run.label()).collect();
        assert_eq!(labels, ["c-tests.stock", "c-tests.write"]);
    }

    #[test]
    fn a_run_expects_the_stages_that_it_has() {
        let only = |names: &[&str]| Test {
            only: names.iter().map(|name| (*name).to_owned()).collect(),
            ..Test::default()
        };
        let all = expected(&only(&[]));
        assert!(all.iter().any(|name| name == FMT));
        assert!(!all.iter().any(|name| name == reproducible::STAGE));
        assert_eq!(expected(&only(&["fmt", "links"])), ["fmt", "links"]);
        let runs = expected(&only(&["guest:c-tests.write"]));
        assert_eq!(runs, ["guest:c-tests.stock", "guest:c-tests.write"]);
        let stock = Test {
            stock: true,
            ..only(&["guest:pyverbs"])
        };
        assert!(
            expected(&stock)
                .iter()
                .all(|name| name.starts_with("guest:pyverbs"))
        );
    }

    #[test]
    fn each_boot_is_one_stretch() {
        let boots: Vec<_> = guest_runs(false).iter().map(|(boot, _)| *boot).collect();
        assert!(boots.is_sorted());
    }
}
