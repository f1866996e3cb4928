//! The suites in the virtual machine, a boot after the other.
//!
//! The machine reads the file system of this one, where cargo continues to build meanwhile.
//! Therefore it gets copies of everything that it runs, in a separate target directory
//! ([`Dirs::aside`]).
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{
    ctests,
    debian_deps::{self, Machine},
    dirs::Dirs,
    expect,
    guest::{COMPLETE, copy_to_ram},
    options::Test,
    pip, provided,
    record::{Record, parse_list},
    report::{Report, Row, Tally},
    siw,
    stage::{C_TESTS, GUEST},
    suites::{On, Run, programs},
    vm::{self, Job},
    waiting::Waiting,
};

/// The runs for the virtual machine, ready to start.
pub struct Boots {
    /// Here.
    dirs: Dirs,
    /// The copies.
    aside: Dirs,
    machine: Machine,
    /// Of soft-iWARP, if a run needs it.
    module: Option<PathBuf>,
    /// The runs of each boot that is still to come.
    waiting: Waiting<Vec<Run>>,
    stock: bool,
    bless: bool,
}

/// The results of a boot.
pub struct Booted {
    /// The output of the machine, if it was not shown meanwhile.
    printed: String,
    rows: Vec<Row>,
    /// To boot and to power off, if there was a boot.
    around: Option<Duration>,
}

impl Booted {
    /// No boot: `say` makes the result of each run.
    fn without(runs: &[Run], say: impl Fn(&mut Tally)) -> Self {
        let row = |run: &Run| {
            let mut tally = Tally::default();
            say(&mut tally);
            Row::new(stage(*run), Duration::ZERO, tally)
        };
        Self {
            printed: String::new(),
            rows: runs.iter().map(row).collect(),
            around: None,
        }
    }

    /// Shows it, and adds it to the report.
    pub fn print_output(self, report: &mut Report) {
        print!("{}", self.printed);
        for row in self.rows {
            report.add(row);
        }
        if let Some(around) = self.around {
            println!("-- {} s to boot and power off", around.as_secs());
        }
    }
}

/// Compiles the programs that the runs need beside the library.
///
/// # Errors
/// Of compilations.
pub fn compile(dirs: &Dirs, runs: &[(u8, Run)]) -> Result<()> {
    if runs.iter().any(|(_, run)| run.suite == C_TESTS) {
        ctests::build(dirs)?;
    }
    if runs.iter().any(|(_, run)| run.suite == programs::NAME) {
        programs::build(dirs)?;
    }
    Ok(())
}

impl Boots {
    /// Copies the programs that the runs need ([`compile`]), and reports those that are unavailable
    /// here.
    ///
    /// # Errors
    /// Of the machine, of the file system.
    pub fn prepare(
        dirs: &Dirs,
        options: &Test,
        runs: Vec<(u8, Run)>,
        mut left_out: impl FnMut(Booted),
    ) -> Result<Self> {
        let machine = debian_deps::machine(dirs)?;
        let runs = provided::provide_for(
            dirs,
            runs,
            |(_, run)| run.suite,
            |(_, run), lack| left_out(Booted::without(&[run], |tally| lack.print_output(tally))),
        );
        let (runs, module) = with_module(dirs, &machine, runs, left_out);
        let boots = runs
            .chunk_by(|(a, _), (b, _)| a == b)
            .map(|boot| boot.iter().map(|(_, run)| *run).collect());
        Ok(Self {
            aside: dirs.aside()?,
            dirs: dirs.clone(),
            machine,
            module,
            waiting: boots.collect(),
            stock: options.stock,
            bless: options.bless,
        })
    }

    /// Boots for all runs that no thread boots for yet, and reports the result of each boot; `show`
    /// makes the machine's output visible. Several threads may share the work.
    pub fn run(&self, show: bool, mut ended: impl FnMut(Booted)) {
        for runs in self.waiting.take() {
            let booted = self.boot(&runs, show);
            ended(booted.unwrap_or_else(|error| not_run(&runs, &format!("{error:#}"))));
        }
    }

    /// Boots once for these runs, and compares the results of each with its list.
    fn boot(&self, runs: &[Run], show: bool) -> Result<Booted> {
        let labels: Vec<_> = runs.iter().map(|run| run.label()).collect();
        println!(
            "-- booting {} for {}",
            self.machine.kernel.display(),
            labels.join(" ")
        );
        let first = labels.first().map_or("none", String::as_str);
        let dir = self.dirs.fresh(&format!("guest-{first}"))?;
        let ours = match self.stock {
            true => None,
            false => Some(self.aside.snapshot(&dir)?),
        };
        if let Some(module) = &self.module {
            fs::copy(module, dir.join(siw::MODULE)).context("the module")?;
        }
        pip::show_in(&dir, &self.dirs)?;
        copy_to_ram::list(runs, &dir)?;
        let log = dir.join("console.log");
        let start = Instant::now();
        let job = Job::Suites { ours, labels };
        let outcome = vm::boot(&self.aside, &self.machine, &dir, &job, &log, show)?;
        let all = start.elapsed();
        let mut suites = Duration::ZERO;
        let mut rows = Vec::new();
        for run in runs {
            let judged = judge(&self.dirs, &dir, *run, self.bless);
            let Outcome { mut tally, took } = judged.unwrap_or_else(Outcome::unjudged);
            if outcome.hung {
                tally.fail(format!("the virtual machine hung; see {}", log.display()));
            }
            suites += took;
            rows.push(Row::new(stage(*run), took, tally));
        }
        Ok(Booted {
            printed: if show { String::new() } else { outcome.text },
            rows,
            around: Some(all.saturating_sub(suites)),
        })
    }
}

/// The module that runs on soft-iWARP need. Where it cannot be built they are skipped, and the rest
/// is answered.
fn with_module(
    dirs: &Dirs,
    machine: &Machine,
    runs: Vec<(u8, Run)>,
    skipped: impl FnOnce(Booted),
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
    let without: Vec<_> = without.into_iter().map(|(_, run)| run).collect();
    skipped(Booted::without(&without, |tally| tally.skip(&reason)));
    (others, None)
}

fn stage(run: Run) -> String {
    format!("{GUEST}{}", run.label())
}

/// The results of runs that could not start; the other stages still run.
pub fn not_run(runs: &[Run], reason: &str) -> Booted {
    Booted::without(runs, |tally| tally.fail(format!("not run: {reason}")))
}

/// Ends the name of the list of a suite's tests whose results over the built-in provider differ
/// from those over the plugin.
const BUILT_IN: &str = ".rust";
/// The same of those whose results over this project's librdmacm differ from those over
/// rdma-core's.
const CM: &str = ".cm";

/// Compares the results in the directory of a job with the expected list, or writes them as that.
///
/// # Errors
/// There is no list, or something else was written.
pub fn judge(dirs: &Dirs, dir: &Path, run: Run, bless: bool) -> Result<Outcome> {
    let list = List::read(dir, &run.label())?;
    let refused = if bless && run.suite != C_TESTS {
        list.bless(dirs, run).err()
    } else {
        None
    };
    let mut tally = if run.suite == C_TESTS {
        ctests::judge(dirs, dir, run)?
    } else {
        let of = provided::Expected::of(dirs, run.suite, run.suite)?;
        let mut expected = expect::load(&dirs.expected(), &of.name)?;
        for (applies, ending) in [(run.built_in, BUILT_IN), (run.cm, CM)] {
            let own = format!("{}{ending}", of.name);
            if applies && expect::exists(&dirs.expected(), &own) {
                expect::replace(&mut expected, expect::load(&dirs.expected(), &own)?);
            }
        }
        let wanted: Vec<_> = expected.into_iter().filter(|r| run.has(&r.name)).collect();
        if let Some(older) = of.older {
            println!("-- {}: {older}", stage(run));
            expect::compare_to_older(&wanted, &list.records)
        } else if run.built_in && !run.cm {
            expect::compare_at_least(&wanted, &list.records)
        } else {
            expect::compare(&wanted, &list.records)
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
    /// The result of a run that cannot be compared; the others continue.
    pub fn unjudged(error: anyhow::Error) -> Self {
        Self {
            tally: Tally::failure(format!("{error:#}")),
            took: Duration::ZERO,
        }
    }
}

/// The file with the results of a suite.
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
        if run.has_uroce() {
            let peer = "and the kernel's soft-RoCE, Linux 6.1";
            return expect::bless_uroce(&lists, suite, &stage(run), peer, &self.records);
        }
        let device = match run.on() {
            On::Rxe => "rxe",
            On::Siw => "siw",
        };
        let list = provided::written_as(dirs, suite, suite)?;
        expect::bless(&lists, suite, &list, device, &self.records)
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
