//! Runs compiled programs on one library and writes down what they did.

use std::{
    env,
    fs::{self, File},
    io::{Read, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::{
    Result,
    build::{COMBOS, Combo, binary, compiled},
    record::Record,
    tree::{Program, Set},
};

/// The library under the programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Library {
    /// Whatever the dynamic linker finds by itself.
    Stock,
    /// A folder that holds a `libibverbs.so.1`.
    Dir(PathBuf),
}

/// What to run, and on what.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where [`crate::build::build`] put the programs.
    pub programs: PathBuf,
    /// The library.
    pub library: Library,
    /// Which sets to run.
    pub sets: Vec<Set>,
    /// Which compilations to run.
    pub combos: Vec<Combo>,
    /// Run only programs whose key contains this.
    pub only: Option<String>,
    /// Kill a program after this time and write down that it hung. None waits
    /// for ever.
    pub patience: Option<Duration>,
}

impl Plan {
    /// Everything that the library can be asked for, with no bound on time.
    /// Programs compiled by clang are not run: what differs between compilers
    /// shows when compiling.
    #[must_use]
    pub fn all(programs: PathBuf, library: Library) -> Plan {
        let mut sets = Set::ALL.to_vec();
        if library == Library::Stock {
            sets.retain(|&set| !set.is_ours());
        }
        if env::var_os("IBVERBS_FORCE_WRITE").is_some() {
            println!("left out: the set ioctl, because IBVERBS_FORCE_WRITE is set");
            sets.retain(|&set| set != Set::Ioctl);
        }
        Plan {
            programs,
            library,
            sets,
            combos: COMBOS.into_iter().filter(|c| c.compiler == "gcc").collect(),
            only: None,
            patience: None,
        }
    }

    fn wants(&self, program: &Program) -> bool {
        let named = self
            .only
            .as_ref()
            .is_none_or(|only| program.key().contains(only.as_str()));
        named && self.sets.contains(&program.set)
    }
}

/// Runs the plan; each record is appended to `out` at once, so that a hang or
/// a crash of the machine leaves what was done before. Returns the records.
///
/// # Errors
/// When a program cannot be started, or one ran on another library than asked.
pub fn run(plan: &Plan, out: &Path) -> Result<Vec<Record>> {
    let mut file = File::create(out).map_err(|e| format!("{}: {e}", out.display()))?;
    let mut records = Vec::new();
    for &combo in &plan.combos {
        for program in compiled(&plan.programs)? {
            if !plan.wants(&program) {
                continue;
            }
            // A criterion takes long, and does not ask how it was compiled.
            let again = Some(&combo) != plan.combos.first();
            if program.set == Set::Criterion && again || !combo.fits(&program) {
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
            write!(file, "{record}")?;
            file.flush()?;
            check_library(plan, &record)?;
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
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    match &plan.library {
        Library::Stock => command.env_remove("LD_LIBRARY_PATH"),
        Library::Dir(dir) => command.env("LD_LIBRARY_PATH", fs::canonicalize(dir)?),
    };
    let mut child = start(&mut command).map_err(|e| format!("{}: {e}", path.display()))?;
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let status = wait(&mut child, plan.patience)?;
    let stdout = stdout.join().unwrap_or_default();
    let mut stderr = stderr.join().unwrap_or_default();
    let library = take_library(&mut stderr);
    Ok(Record {
        combo: combo.name(),
        program: program.key(),
        library,
        status,
        stdout,
        stderr,
    })
}

/// Starts a program in a group of its own, which its children belong to.
fn start(command: &mut Command) -> std::io::Result<Child> {
    command.process_group(0).spawn()
}

/// Kills a program that was started so, with its children: they have its pipes too.
fn kill(child: &mut Child) -> Result<()> {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    kill_process_group(group.ok_or("a process has a number")?, Signal::KILL)?;
    child.wait()?;
    Ok(())
}

/// Reads a pipe to its end beside the waiting, so that a full pipe cannot
/// stop the program.
fn collect<R: Read + Send + 'static>(pipe: Option<R>) -> thread::JoinHandle<Vec<String>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // A read error ends the output early, and the comparison shows it.
            let _ = pipe.read_to_end(&mut bytes);
        }
        let text = String::from_utf8_lossy(&bytes);
        text.lines().map(str::to_owned).collect()
    })
}

fn wait(child: &mut Child, patience: Option<Duration>) -> Result<String> {
    let Some(patience) = patience else {
        return Ok(describe(child.wait()?));
    };
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(describe(status));
        }
        if start.elapsed() >= patience {
            kill(child)?;
            return Ok("hung".to_owned());
        }
        thread::sleep(Duration::from_millis(5));
    }
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
    if right {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_hangs_is_killed_with_its_children() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo begun; sleep 1000 & wait"]);
        let mut child = start(command.stdout(Stdio::piped())).expect("a shell");
        let said = collect(child.stdout.take());
        let status = wait(&mut child, Some(Duration::from_millis(300))).expect("killed");
        assert_eq!(status, "hung");
        // Not before the last of them has closed its end.
        assert_eq!(said.join().expect("read"), ["begun"]);
    }
}
