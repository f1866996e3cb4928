//! Runs compiled programs on one library and records their results.

use std::{
    env,
    fs::{self, File},
    io::Write,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    time::{Duration, Instant},
};

use watchdog::{Outcome, Watched};

use crate::{
    Result,
    build::{COMBOS, Combo, binary, compiled},
    record::Record,
    tree::{Program, Set},
};

/// The status of a program that did not end.
const HUNG: &str = "hung";

/// The library under the programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Library {
    /// The library that the dynamic linker finds.
    Stock,
    /// A folder that holds a `libibverbs.so.1`.
    Dir(PathBuf),
}

impl Library {
    /// The librdmacm beside it; none of the stock library, where the linker finds one.
    fn rdmacm(&self) -> Option<PathBuf> {
        match self {
            Library::Stock => None,
            Library::Dir(dir) => Some(dir.join("librdmacm.so.1")),
        }
    }
}

/// The programs to run, and the library.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where [`crate::build::build`] put the programs.
    pub programs: PathBuf,
    /// The library.
    pub library: Library,
    /// Which sets to run.
    pub sets: Vec<Set>,
    /// Whether the library uses the kernel's ioctl interface. Without it the set [`Set::Ioctl`] is
    /// not run, even if it was requested.
    pub ioctl: bool,
    /// Which compilations to run.
    pub combos: Vec<Combo>,
    /// Run only programs whose key contains this.
    pub only: Option<String>,
    /// Kill a program that has not ended after this time, and record that it hung. The time is far
    /// above that of any program.
    pub patience: Duration,
}

impl Plan {
    /// All programs for the library; a program hangs past [`watchdog::bound`]. Programs compiled by
    /// clang are not run: differences between compilers show when compiling.
    #[must_use]
    pub fn all(programs: PathBuf, library: Library) -> Plan {
        let mut sets = Set::ALL.to_vec();
        if library == Library::Stock {
            sets.retain(|&set| !set.is_ours());
        }
        if library.rdmacm().is_some_and(|file| !file.exists()) {
            sets.retain(|&set| set != Set::Rdmacm);
        }
        Plan {
            programs,
            library,
            sets,
            ioctl: env::var_os("IBVERBS_FORCE_WRITE").is_none(),
            combos: COMBOS.into_iter().filter(|c| c.compiler == "gcc").collect(),
            only: None,
            patience: watchdog::bound(),
        }
    }

    fn wants(&self, program: &Program) -> bool {
        let named = self
            .only
            .as_ref()
            .is_none_or(|only| program.key().contains(only.as_str()));
        let possible = self.ioctl || program.set != Set::Ioctl;
        named && possible && self.sets.contains(&program.set)
    }
}

/// Runs the plan; each record is appended to `out` at once, so that earlier records survive a hang
/// or a crash of the machine. Returns the records.
///
/// # Errors
/// When a program cannot be started, or one ran on another library than requested.
pub fn run(plan: &Plan, out: &Path) -> Result<Vec<Record>> {
    if !plan.ioctl && plan.sets.contains(&Set::Ioctl) {
        println!("left out: the set ioctl, because IBVERBS_FORCE_WRITE is set");
    }
    let mut file = File::create(out).map_err(|e| format!("{}: {e}", out.display()))?;
    let mut records = Vec::new();
    for &combo in &plan.combos {
        for program in compiled(&plan.programs)? {
            if !plan.wants(&program) {
                continue;
            }
            // A self-checking program takes long, and its compilation makes no difference.
            let again = Some(&combo) != plan.combos.first();
            if program.set == Set::SelfChecking && again || !combo.fits(&program) {
                continue;
            }
            let begun = Instant::now();
            let record = run_one(plan, combo, &program)?;
            println!(
                "{} {}: {} in {:.1} s",
                record.combo,
                record.program,
                record.status,
                begun.elapsed().as_secs_f32()
            );
            if record.status == HUNG {
                println!("{record}");
            }
            write!(file, "{record}")?;
            file.flush()?;
            if record.status != HUNG {
                check_library(plan, &record)?;
            }
            records.push(record);
        }
    }
    if records.is_empty() {
        return Err("no program matches".into());
    }
    Ok(records)
}

fn run_one(plan: &Plan, combo: Combo, program: &Program) -> Result<Record> {
    let path = binary(&plan.programs, combo, program);
    let mut command = Command::new(&path);
    match &plan.library {
        Library::Stock => command.env_remove("LD_LIBRARY_PATH"),
        Library::Dir(dir) => command.env("LD_LIBRARY_PATH", fs::canonicalize(dir)?),
    };
    let outcome = command
        .watch(plan.patience)
        .map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(record(combo, program, &outcome))
}

/// For a program that hung, the positions of its processes follow its lines of stderr.
fn record(combo: Combo, program: &Program, outcome: &Outcome) -> Record {
    let output = &outcome.output;
    let mut stderr = lines(&output.stderr);
    let library = take_library(&mut stderr);
    let places = outcome.hang.iter().flat_map(|places| places.lines());
    stderr.extend(places.map(str::to_owned));
    Record {
        combo: combo.name(),
        program: program.key(),
        library,
        status: match outcome.hang {
            Some(_) => HUNG.to_owned(),
            None => describe(output.status),
        },
        stdout: lines(&output.stdout),
        stderr,
    }
}

fn lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    text.lines().map(str::to_owned).collect()
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown".to_owned(),
    }
}

fn take_library(stderr: &mut Vec<String>) -> String {
    let mark = "library: ";
    let found = stderr.iter().position(|line| line.starts_with(mark));
    match found {
        Some(at) => stderr.remove(at).split_off(mark.len()),
        None => String::new(),
    }
}

fn check_library(plan: &Plan, record: &Record) -> Result<()> {
    let real = fs::canonicalize(&record.library).unwrap_or_default();
    let right = match &plan.library {
        Library::Stock => real.starts_with("/usr/lib"),
        Library::Dir(dir) => real == fs::canonicalize(dir.join("libibverbs.so.1"))?,
    };
    if right && connects_by_the_right_one(plan, record) {
        return Ok(());
    }
    let Record {
        combo,
        program,
        library,
        ..
    } = record;
    Err(format!("{combo} {program}: ran on the wrong library: '{library}'").into())
}

/// Programs of librdmacm print the library that they got on stderr.
fn connects_by_the_right_one(plan: &Plan, record: &Record) -> bool {
    if Program::from_key(&record.program).is_none_or(|program| program.set != Set::Rdmacm) {
        return true;
    }
    let path = record
        .stderr
        .iter()
        .find_map(|line| line.strip_prefix("rdmacm: "));
    let Some(real) = path.and_then(|path| fs::canonicalize(path).ok()) else {
        return false;
    };
    let Plan { library, .. } = plan;
    match library.rdmacm() {
        None => real.starts_with("/usr/lib"),
        Some(wanted) => fs::canonicalize(wanted).is_ok_and(|wanted| wanted == real),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_ioctl_is_left_out_without_that_interface_even_if_it_is_asked_for() {
        let program = Program::from_key("ioctl/gid_errors").expect("a program");
        let plan = |ioctl| Plan {
            sets: vec![Set::Ioctl],
            ioctl,
            ..Plan::all("/programs".into(), Library::Stock)
        };
        assert!(plan(true).wants(&program));
        assert!(!plan(false).wants(&program));
    }

    #[test]
    fn a_program_that_hangs_is_recorded_with_its_output_and_its_place() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "echo 'library: /l' >&2; echo begun; sleep 1000 & wait",
        ]);
        let outcome = command.watch(Duration::from_millis(300)).expect("a shell");
        let program = Program::from_key("no_device/fork").expect("a program");
        let record = record(COMBOS[0], &program, &outcome);
        assert_eq!(record.status, HUNG);
        assert_eq!(record.library, "/l");
        assert_eq!(record.stdout, ["begun"]);
        let places = record.stderr.join("\n");
        assert!(places.contains("sleep 1000"), "{places}");
    }
}
