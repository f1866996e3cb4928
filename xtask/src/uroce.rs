//! The stages of uroce: real programs on this machine, over the device `uroce_lo`.
//!
//! They run in a separate network namespace, so that port 4791 and the addresses are free. Root
//! makes it directly, others in a user namespace.
#![forbid(unsafe_code)]

use std::{
    env, fs,
    path::Path,
    process::{Command, ExitCode, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{
    bench,
    boots::{List, Outcome},
    dirs::{Dirs, RDMACM_BESIDE},
    expect,
    guest::{
        self,
        place::{HELPERS, Surroundings},
        suite,
    },
    host, huge_pages,
    network::network,
    options::Test,
    pip, provided,
    record::{Record, Verdict},
    report::{Report, Row, Tally},
    stage::chosen,
    suites::{
        uroce::{self as suites, Around, SUITES, Suite},
        uroce_ways::BY_UDP,
    },
    vm::{self, Job, Library},
    waiting::Waiting,
};

/// Begins the names of these stages.
pub use crate::guest::uroce::STAGE;

/// How many suites run at a time, each in a separate network namespace: their programs wait most of
/// the time, for each other or for packets lost on a bad network.
const LANES: usize = 2;

/// One run of a suite. Its label names its stage and its files.
#[derive(Clone, Copy)]
struct Run {
    suite: &'static Suite,
    how: How,
}

#[derive(Clone, Copy, PartialEq)]
enum How {
    /// The default: shared memory where it is available.
    Plain,
    /// By packets alone. The results have to be the same.
    Udp,
    /// On a bad network.
    Faults,
}

impl Run {
    fn all() -> impl Iterator<Item = Self> {
        SUITES.iter().flat_map(|suite| {
            let ways = [
                (How::Plain, true),
                (How::Udp, suite.by_udp),
                (How::Faults, suite.with_faults),
            ];
            let wanted = ways.into_iter().filter(|(_, wanted)| *wanted);
            wanted.map(move |(how, _)| Self { suite, how })
        })
    }

    fn label(self) -> String {
        let how = match self.how {
            How::Plain => "",
            How::Udp => ".udp",
            How::Faults => ".faults",
        };
        format!("{}{how}", self.suite.name)
    }

    /// The run whose expected list it is compared with.
    fn list(self) -> Self {
        match self.how {
            How::Plain | How::Faults => self,
            How::Udp => Self {
                how: How::Plain,
                ..self
            },
        }
    }

    fn faults(self) -> bool {
        self.how == How::Faults
    }

    fn stage(self) -> String {
        format!("{STAGE}{}", self.label())
    }
}

pub fn names() -> Vec<String> {
    Run::all().map(Run::stage).collect()
}

/// Runs the selected stages.
pub fn stages(dirs: &Dirs, options: &Test, report: &mut Report) -> Result<()> {
    let selected = |run: &Run| chosen(&options.only, &run.stage());
    let mut runs: Vec<_> = Run::all().filter(selected).collect();
    // Those take longest, and whatever begins last leaves processors idle.
    runs.sort_by_key(|run| !run.faults());
    if runs.is_empty() {
        return Ok(());
    }
    if report.has_failed("build") {
        for run in runs {
            report.add(not_run(run, "the library does not build"));
        }
        return Ok(());
    }
    if !chosen(&options.only, "build") {
        vm::build_library(dirs)?;
    }
    let runs = provided::provide_for(
        dirs,
        runs,
        |run| run.suite.name,
        |run, lack| {
            let mut tally = Tally::default();
            lack.print_output(&mut tally);
            report.add(Row::new(run.stage(), Duration::ZERO, tally));
        },
    );
    let _pages = huge_pages::Lent::ask(huge_pages::FILE);
    let lanes = LANES.min(runs.len());
    let waiting: Waiting<_> = runs.into_iter().collect();
    let (print_output, reported) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..lanes {
            let (waiting, print_output) = (&waiting, print_output.clone());
            scope.spawn(move || {
                for run in waiting.take() {
                    println!("-- {}: in a separate network namespace", run.stage());
                    print_output
                        .send(one(dirs, run, options.bless, lanes == 1))
                        .unwrap_or_default();
                }
            });
        }
        drop(print_output);
        for ran in reported {
            print!("{}", ran.printed);
            report.add(ran.row);
        }
    });
    Ok(())
}

/// The result of a run that cannot start.
fn not_run(run: Run, reason: &str) -> Row {
    let tally = Tally::failure(format!("not run: {reason}"));
    Row::new(run.stage(), Duration::ZERO, tally)
}

/// The result of a run.
struct Ran {
    /// Its output, if that was not shown meanwhile.
    printed: String,
    row: Row,
}

/// Runs a suite; `show` decides whether its output is shown meanwhile.
fn one(dirs: &Dirs, run: Run, bless: bool, show: bool) -> Ran {
    let start = Instant::now();
    let (printed, tally) = run_and_judge(dirs, run, bless, show)
        .unwrap_or_else(|error| (String::new(), Outcome::unjudged(error).tally));
    let row = Row::new(run.stage(), start.elapsed(), tally);
    Ran { printed, row }
}

fn run_and_judge(dirs: &Dirs, run: Run, bless: bool, show: bool) -> Result<(String, Tally)> {
    let label = run.label();
    let dir = dirs.fresh(&format!("uroce-{label}"))?;
    let job = Job::Suites {
        ours: Some(dirs.snapshot(&dir)?),
        labels: vec![label.clone()],
    };
    job.save(&dir)?;
    pip::show_in(&dir, dirs)?;
    let mut command = network(&dirs.program);
    command.arg("in-network").arg(&dir).current_dir(&dirs.root);
    let log = dir.join("console.log");
    let ended = match show {
        true => host::run(&mut command, &log, None)?,
        false => host::run_silently(&mut command, &log, None)?,
    };
    let list = List::read(&dir, &label)?;
    let mut tally = judge(dirs, run, &list, bless);
    if list.took.is_none() || !ended.status.success() {
        tally.fail(format!(
            "the run broke off ({}); see {}",
            ended.status,
            log.display()
        ));
    }
    let printed = if show { String::new() } else { ended.text };
    Ok((printed, tally))
}

fn judge(dirs: &Dirs, run: Run, list: &List, bless: bool) -> Tally {
    let refused = bless.then(|| self::bless(dirs, run, list));
    let mut tally =
        compare(dirs, run, list).unwrap_or_else(|error| Tally::failure(format!("{error:#}")));
    if let Some(Err(refused)) = refused {
        tally.fail(format!("not written as the expected list: {refused:#}"));
    }
    tally
}

fn bless(dirs: &Dirs, run: Run, list: &List) -> Result<()> {
    if list.took.is_none() {
        bail!("not complete");
    }
    let label = run.list().label();
    let name = provided::written_as(dirs, run.suite.name, &format!("uroce-{label}"))?;
    let (stage, place) = (format!("{STAGE}{label}"), run.suite.around.place());
    expect::bless_uroce(&dirs.expected(), &name, &stage, place, &list.records)
}

fn compare(dirs: &Dirs, run: Run, list: &List) -> Result<Tally> {
    let name = format!("uroce-{}", run.list().label());
    let of = provided::Expected::of(dirs, run.suite.name, &name)?;
    let expected = expect::load(&dirs.expected(), &of.name)?;
    let expected = without_huge_pages(expected, &list.records);
    let Some(older) = of.older else {
        return Ok(expect::compare(&expected, &list.records));
    };
    println!("-- {}: {older}", run.stage());
    Ok(expect::compare_to_older(&expected, &list.records))
}

/// The user may not have the right to reserve huge pages, memory may have no room for them, and
/// some kernels lack them: a test that requests them then has a result that differs from the list.
fn without_huge_pages(mut expected: Vec<Record>, results: &[Record]) -> Vec<Record> {
    for wanted in &mut expected {
        if !lacks_huge_pages(wanted) {
            continue;
        }
        let given = results.iter().find(|result| result.name == wanted.name);
        let right = |result: &&Record| result.verdict == Verdict::Ok || lacks_huge_pages(result);
        if let Some(given) = given.filter(right) {
            wanted.clone_from(given);
        }
    }
    expected
}

fn lacks_huge_pages(record: &Record) -> bool {
    let reasons = [
        "There are no huge pages of size 2M allocated",
        "Huge pages of size 2M is not supported in this platform",
    ];
    record.verdict == Verdict::Skip && reasons.contains(&record.reason.as_str())
}

/// Runs the suite whose job lies in this directory; called in its network namespace.
pub fn in_network(dir: &Path, surrounded: bool) -> Result<ExitCode> {
    let (ours, labels) = match Job::load(dir)? {
        Job::Suites {
            ours: Some(ours),
            labels,
        } => (ours, labels),
        Job::BenchUroce { ours, rounds } => {
            bench::uroce::in_network(dir, &ours, rounds)?;
            return Ok(ExitCode::SUCCESS);
        }
        _ => bail!("{}: not a job for a network", dir.display()),
    };
    // In a network that is not our own that is so or not, and we may be forbidden to change it.
    for line in suites::LOOPBACK {
        let _ = Command::new("ip")
            .args(line.split(' '))
            .stderr(Stdio::null())
            .status();
    }
    for label in &labels {
        let run = Run::all().find(|run| run.label() == *label);
        let run = run.with_context(|| format!("no suite is called {label}"))?;
        let library = match run.suite.connects() {
            true => Library::WithRdmacm(ours.join(RDMACM_BESIDE)),
            false => Library::Ours(ours.clone()),
        };
        if let Some(script) = run.suite.around.script().filter(|_| !surrounded) {
            return again_by(script, dir, &library, run.suite.around);
        }
        let room = dir.join("room");
        fs::create_dir_all(&room)?;
        let mut env = vec![run.suite.around.devices()];
        env.extend(run.faults().then_some(suites::FAULTS));
        env.extend((run.how == How::Udp).then_some(BY_UDP));
        let place = Surroundings {
            dir,
            room: &room,
            library: &library,
            target: &run.suite.around.target(Path::new(HELPERS), run.faults()),
            env,
            paths: provided::variables(run.suite.name, dir, &room)?,
            run: None,
        };
        suite::programs(&place, label, &run.suite.kind)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Compares the results of a suite in the virtual machine with its list; `name` is that of the
/// stage that runs the suite on this machine.
///
/// # Errors
/// There is no such suite; something else was written.
pub fn judge_guest(dirs: &Dirs, dir: &Path, name: &str) -> Result<Outcome> {
    let run = Run::all().find(|run| run.stage() == name);
    let run = run.with_context(|| format!("no suite is called {name}"))?;
    let label = run.label();
    let list = List::read(&guest::uroce::directory(dir, &label), &label)?;
    let mut tally = compare(dirs, run, &list)?;
    if list.took.is_none() {
        tally.fail("the run ended before the suite did");
    }
    let took = list.took.unwrap_or_default();
    Ok(Outcome { tally, took })
}

/// Starts this program again by a script that sets up the suite's surroundings.
fn again_by(script: &str, dir: &Path, library: &Library, around: Around) -> Result<ExitCode> {
    let mut command = Command::new(script);
    command
        .arg(env::current_exe()?)
        .arg("in-network")
        .arg(dir)
        .arg("--surrounded")
        .envs([around.devices()]);
    vm::put_library(&mut command, library);
    let status = command.status().with_context(|| script.to_owned())?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_unique() {
        let names = names();
        let unique: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
        assert!(names.contains(&"uroce:pingpong.faults".to_owned()));
        assert!(!names.contains(&"uroce:pyverbs.faults".to_owned()));
        assert!(names.contains(&"uroce:pyverbs.udp".to_owned()));
    }

    #[test]
    fn a_machine_with_huge_pages_may_run_skipped_tests() {
        let skip = |reason| Record::new("t", Verdict::Skip, reason);
        let none = skip("There are no huge pages of size 2M allocated");
        let ran = Record::new("t", Verdict::Ok, "");
        let agree = |wanted: &Record, given: &Record| {
            let wanted = without_huge_pages(vec![wanted.clone()], std::slice::from_ref(given));
            expect::compare(&wanted, std::slice::from_ref(given))
                .failures
                .is_empty()
        };
        assert!(agree(&none, &ran));
        assert!(agree(&none, &none));
        assert!(!agree(&none, &Record::new("t", Verdict::Fail, "")));
        assert!(!agree(&none, &skip("no device")));
        assert!(!agree(&skip("no device"), &ran));
        assert!(!agree(&ran, &none));
    }
}
