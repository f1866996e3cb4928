//! Running a command on this machine: its output goes to the terminal and to a log.
#![forbid(unsafe_code)]

use std::{
    fs::{self, File},
    io::{self, PipeReader, Read, Write},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use rustix::process::{Pid, Signal, kill_process};
use watchdog::places::{self, Process};

use crate::deadline;

/// The result of a command.
pub struct Outcome {
    pub status: ExitStatus,
    /// Standard output and error as they came, in one.
    pub text: String,
    /// The command was killed because it was stuck.
    pub hung: bool,
}

/// How many lines of a failed command's output are reported. Both ends of a pair print into one
/// output, and the end that failed first has printed earlier.
const LINES: usize = 24;

impl Outcome {
    /// The end of the output, for an error of one line.
    pub fn last_lines(&self) -> String {
        let lines: Vec<_> = self.text.lines().collect();
        let (_, last) = lines.split_at(lines.len().saturating_sub(LINES));
        last.join(" / ")
    }
}

/// Whether a command that has run for so long is stuck.
pub type Stuck = Box<dyn Fn(Duration) -> bool + Send>;

/// How often that is asked.
const PERIOD: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};
/// How long a stage of tests may be silent. The longest silence is that of one test that runs all C
/// programs, each with a separate bound.
const SILENCE: Duration = Duration::from_secs(2400);
/// How long output is read on after the command has ended or was killed, if a process that it left
/// behind holds it open.
const GRACE: Duration = Duration::from_secs(10);

/// Runs a command to its end, with standard input empty.
///
/// `stuck` is for commands that can wait for ever. When it answers true, or the deadline of the
/// whole run is past, the command and all its descendants are reported and killed.
pub fn run(command: &mut Command, log: &Path, stuck: Option<Stuck>) -> Result<Outcome> {
    watched(command, log, stuck, true)
}

/// Runs tests in the same way. Tests that print nothing for [`SILENCE`] hang.
pub fn run_tests(command: &mut Command, log: &Path) -> Result<Outcome> {
    let printed = log.to_owned();
    let silent = move |_| {
        let written = fs::metadata(&printed).and_then(|log| log.modified());
        let silence = written.ok().and_then(|written| written.elapsed().ok());
        silence.is_some_and(|silence| silence >= SILENCE)
    };
    watched(command, log, Some(Box::new(silent)), true)
}

/// The same, but the output goes only to the log and the outcome.
pub fn run_silently(command: &mut Command, log: &Path, stuck: Option<Stuck>) -> Result<Outcome> {
    watched(command, log, stuck, false)
}

fn watched(command: &mut Command, log: &Path, stuck: Option<Stuck>, show: bool) -> Result<Outcome> {
    let name = command.get_program().to_string_lossy().into_owned();
    let (reader, writer) = io::pipe().context("a pipe")?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let mut output = Output::new(log, show)?;
    let child = command.spawn().with_context(|| format!("start {name}"))?;
    // The command value still holds the writing ends; with them open the reading never ends.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = Running {
        child,
        begun: Instant::now(),
        stuck,
        hung: false,
        ended: None,
    };
    running.read_all(reader, &mut output)?;
    let status = running.child.wait();
    Ok(Outcome {
        status: status.with_context(|| format!("wait for {name}"))?,
        text: String::from_utf8_lossy(&output.whole).into_owned(),
        hung: running.hung,
    })
}

/// A command whose output is being read.
struct Running {
    child: Child,
    begun: Instant,
    stuck: Option<Stuck>,
    hung: bool,
    /// When it was first seen that the command had ended.
    ended: Option<Instant>,
}

impl Running {
    /// Reads until the last process closes the output, and looks at the command meanwhile.
    #[expect(clippy::disallowed_methods, reason = "xtask does not use the library")]
    fn read_all(&mut self, mut from: PipeReader, output: &mut Output) -> Result<()> {
        let mut buffer = [0; 8192];
        let mut looked = Instant::now();
        loop {
            let mut waiting = [PollFd::new(&from, PollFlags::IN)];
            let readable = match poll(&mut waiting, Some(&PERIOD)) {
                Ok(number) => number > 0,
                Err(rustix::io::Errno::INTR) => false,
                Err(error) => return Err(error.into()),
            };
            if readable {
                match from.read(&mut buffer) {
                    Ok(0) => return Ok(()),
                    Ok(got) => output.add(buffer.get(..got).unwrap_or_default())?,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error.into()),
                }
            }
            // A command that prints without end is looked at, too.
            if readable && looked.elapsed() < Duration::from_secs(1) {
                continue;
            }
            looked = Instant::now();
            if self.is_over(output)? {
                return Ok(());
            }
        }
    }

    /// Whether to read no further. Kills a command that hangs.
    fn is_over(&mut self, output: &mut Output) -> Result<bool> {
        if let Some(ended) = self.ended {
            let over = ended.elapsed() >= GRACE;
            if over {
                output
                    .add(b"-- a process that the command left behind still holds its output\n")?;
            }
            return Ok(over);
        }
        if self.child.try_wait()?.is_some() {
            self.ended = Some(Instant::now());
            return Ok(false);
        }
        let stuck = self.stuck.as_ref();
        if deadline::is_past() {
            output.add(b"-- killed: the time for the whole run is over\n")?;
        } else if stuck.is_some_and(|stuck| stuck(self.begun.elapsed())) {
            output.add(b"-- killed: it hangs\n")?;
        } else {
            return Ok(false);
        }
        let processes = places::members(self.child.id(), &[]);
        output.add(places::describe(&processes).as_bytes())?;
        kill(&processes);
        self.hung = true;
        self.ended = Some(Instant::now());
        Ok(false)
    }
}

/// Kills processes. The parents come first, so that none of their children is started anew.
fn kill(processes: &[Process]) {
    for process in processes {
        let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // A process that ended by itself meanwhile is no error.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Where output goes: into the log, onto the terminal if it is to be shown, and into one text.
struct Output {
    log: File,
    show: bool,
    whole: Vec<u8>,
}

impl Output {
    fn new(log: &Path, show: bool) -> Result<Self> {
        let log = File::create(log).with_context(|| format!("create {}", log.display()))?;
        Ok(Self {
            log,
            show,
            whole: Vec::new(),
        })
    }

    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        self.log.write_all(bytes)?;
        self.whole.extend_from_slice(bytes);
        if self.show {
            let mut terminal = io::stdout().lock();
            terminal.write_all(bytes)?;
            terminal.flush()?;
        }
        Ok(())
    }
}

/// Runs a command that has to end well; returns its output.
pub fn must(command: &mut Command) -> Result<String> {
    let name = format!("{command:?}");
    let output = command.output().with_context(|| format!("start {name}"))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("{name}: {}\n{printed}{errors}", output.status);
    }
    Ok(printed)
}

/// The same with its output in a log.
pub fn must_run(command: &mut Command, log: &Path) -> Result<()> {
    let outcome = run(command, log, None)?;
    if !outcome.status.success() {
        bail!(
            "{} failed ({}); see {}",
            command.get_program().to_string_lossy(),
            outcome.status,
            log.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stuck_processes_are_killed() {
        let log = std::env::temp_dir().join(format!("stuck-{}", std::process::id()));
        let mut endless = Command::new("sh");
        endless.args(["-c", "echo begun; sleep infinity"]);
        let printed = log.clone();
        let stuck = move |_| fs::metadata(&printed).is_ok_and(|log| log.len() > 0);
        let outcome = run_silently(&mut endless, &log, Some(Box::new(stuck))).expect("a shell");
        assert!(outcome.hung && outcome.text.starts_with("begun\n-- killed: it hangs\n"));
        assert!(outcome.text.contains("sleep infinity"));
        let mut short = Command::new("true");
        let outcome = run_silently(&mut short, &log, Some(Box::new(|_| false))).expect("true");
        assert!(!outcome.hung && outcome.status.success());
        fs::remove_file(&log).expect("the log");
    }

    #[test]
    fn output_that_stays_open_behind_the_command_is_not_waited_for() {
        let log = std::env::temp_dir().join(format!("open-{}", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", "echo begun; sleep 1000 & echo $!"]);
        let outcome = run_silently(&mut command, &log, None).expect("a shell");
        let mut lines = outcome.text.lines();
        assert_eq!(lines.next(), Some("begun"));
        let left = lines.next().and_then(|pid| pid.parse().ok());
        let left = left.expect("the number of the process that stays");
        kill(&places::members(left, &[]));
        assert!(outcome.status.success() && !outcome.hung);
        let end = lines.next().expect("a reason");
        assert!(end.contains("still holds its output"), "{end}");
        fs::remove_file(&log).expect("the log");
    }
}
