//! Commands of tests, with a bound that detects a hang.
//!
//! A test that waits for a program without a bound hangs with the program, and the run of all tests
//! with the test. [`Watched`] runs a command in a separate process group and waits until the
//! command has ended and its output is closed. Past the bound the watchdog
//!
//! 1. finds the processes that belong to the command: its group, their descendants (a daemon leaves
//!    the group), and all that hold the writing end of one of its pipes;
//! 2. prints the output so far, and where each thread of these processes is ([`places`]);
//! 3. kills them, and returns that the command hung.
//!
//! The bound is no limit on how long a test may take: it lies far above the time of any command on
//! a loaded machine. `WATCHDOG_SECONDS` sets another one, for runs that the variables of tests make
//! longer.
#![forbid(unsafe_code)]

mod pipe;
pub mod places;

use std::{
    env,
    fmt::Write as _,
    io,
    os::unix::process::CommandExt,
    process::{Child, Command, ExitStatus, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use pipe::{Collector, PERIOD};
use places::Process;
use rustix::process::{Pid, Signal, kill_process};

/// Seconds of the bound, in the environment.
const SECONDS: &str = "WATCHDOG_SECONDS";
/// The bound of a command.
const BOUND: Duration = Duration::from_secs(600);
/// How long output is waited for after all processes were killed.
const LAST_OUTPUT: Duration = Duration::from_secs(10);

/// The time limit of a command: ten minutes, or the value of the environment.
#[must_use]
pub fn bound() -> Duration {
    let seconds = env::var(SECONDS).ok().and_then(|text| text.parse().ok());
    seconds.map_or(BOUND, Duration::from_secs)
}

/// The result of a command.
#[derive(Debug)]
pub struct Outcome {
    /// Status and output; the output up to the bound for a command that hung.
    pub output: Output,
    /// Where the processes of the command were when it was killed, if it hung.
    pub hang: Option<String>,
}

/// Runs commands with a bound.
pub trait Watched {
    /// Runs the command as `Command::output` does: standard input is empty, the output is
    /// collected.
    ///
    /// # Errors
    /// Those of starting the command, and [`io::ErrorKind::TimedOut`] past [`bound`]: then the
    /// output so far and the places of the processes were printed.
    fn watched_output(&mut self) -> io::Result<Output>;

    /// The same with another bound, and a hang as part of the outcome. Nothing is printed.
    ///
    /// # Errors
    /// Those of starting the command.
    fn watch(&mut self, bound: Duration) -> io::Result<Outcome>;
}

impl Watched for Command {
    fn watched_output(&mut self) -> io::Result<Output> {
        let bound = bound();
        let Outcome { output, hang } = self.watch(bound)?;
        let Some(places) = hang else {
            return Ok(output);
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let words = format!(
            "{self:?} hung: it had not ended after {} s",
            bound.as_secs()
        );
        eprintln!(
            "{words}\n-- stdout so far:\n{}-- stderr so far:\n{}-- where it was:\n{places}",
            text(&output.stdout),
            text(&output.stderr),
        );
        Err(io::Error::new(io::ErrorKind::TimedOut, words))
    }

    fn watch(&mut self, bound: Duration) -> io::Result<Outcome> {
        let mut child = self
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let stdout = Collector::start(child.stdout.take());
        let stderr = Collector::start(child.stderr.take());
        let started = Instant::now();
        while started.elapsed() < bound {
            // The status is kept by the child: asking again answers it again.
            let ended = child.try_wait()?.is_some();
            if ended && stdout.is_finished() && stderr.is_finished() {
                break;
            }
            thread::sleep(PERIOD);
        }
        let ended = child.try_wait()?;
        let closed = stdout.is_finished() && stderr.is_finished();
        let (status, hang) = match ended {
            Some(status) if closed => (status, None),
            _ => {
                let pipes = [stdout.pipe(), stderr.pipe()];
                let (status, places) = end(&mut child, pipes.into_iter().flatten())?;
                (status, Some(places))
            }
        };
        let [stdout, stderr] = [stdout, stderr].map(|pipe| pipe.bytes(LAST_OUTPUT));
        let output = Output {
            status,
            stdout,
            stderr,
        };
        Ok(Outcome { output, hang })
    }
}

/// Waits for a child that a test started by itself. Past the [`bound`] it is killed with its
/// descendants.
///
/// # Errors
/// Those of waiting, and [`io::ErrorKind::TimedOut`]: then the places of the processes were
/// printed.
pub fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let bound = bound();
    let started = Instant::now();
    while started.elapsed() < bound {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        thread::sleep(PERIOD);
    }
    let pid = child.id();
    let (_, places) = end(child, std::iter::empty())?;
    let words = format!(
        "process {pid} hung: it had not ended after {} s",
        bound.as_secs()
    );
    eprintln!("{words}\n{places}");
    Err(io::Error::new(io::ErrorKind::TimedOut, words))
}

/// Says where the processes of a child are, and kills them.
fn end(child: &mut Child, pipes: impl Iterator<Item = u64>) -> io::Result<(ExitStatus, String)> {
    let pipes: Vec<u64> = pipes.collect();
    let members = places::members(child.id(), &pipes);
    let mut text = places::describe(&members);
    kill(&members);
    // Processes that were started meanwhile.
    let late = places::members(child.id(), &pipes);
    let late: Vec<Process> = late.into_iter().filter(|late| !late.has_ended()).collect();
    if !late.is_empty() {
        let _ = writeln!(text, "started while the others were killed: {}", late.len());
        kill(&late);
    }
    child.kill()?;
    Ok((child.wait()?, text))
}

fn kill(processes: &[Process]) {
    for process in processes {
        let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // A process that ended by itself meanwhile is no error.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, bound: Duration) -> Outcome {
        let mut command = Command::new("sh");
        command.args(["-c", script]).watch(bound).expect("a shell")
    }

    #[test]
    fn a_command_that_ends_has_all_its_output() {
        let outcome = shell("head -c 300000 /dev/zero; echo x >&2; exit 3", BOUND);
        assert!(outcome.hang.is_none());
        assert_eq!(outcome.output.stdout.len(), 300_000);
        assert_eq!(outcome.output.stderr, b"x\n");
        assert_eq!(outcome.output.status.code(), Some(3));
    }

    /// The children of the command and a process that left its group end with it, and each is named
    /// with the place where it waits.
    #[test]
    fn a_command_that_hangs_is_described_and_killed_with_all_that_it_started() {
        let script =
            "echo begun; sleep 1001 & setsid sleep 1002 & setsid sh -c 'sleep 1003 & exit' & wait";
        let outcome = shell(script, Duration::from_millis(500));
        let places = outcome.hang.expect("it hung");
        assert_eq!(outcome.output.stdout, b"begun\n");
        for name in ["sleep 1001", "sleep 1002", "sleep 1003"] {
            assert!(places.contains(name), "{places}");
            assert!(!is_running(name), "{name}");
        }
        assert!(places.contains("wchan"), "{places}");
    }

    /// The command itself ended, and a process that it left behind holds the output open.
    #[test]
    fn output_that_stays_open_is_a_hang() {
        let outcome = shell("setsid sleep 1004 & exit 0", Duration::from_millis(500));
        assert!(outcome.output.status.success());
        let places = outcome.hang.expect("it hung");
        assert!(places.contains("sleep 1004"), "{places}");
        assert!(!is_running("sleep 1004"));
    }

    fn is_running(line: &str) -> bool {
        let all = places::all();
        all.iter()
            .any(|process| process.line == line && !process.has_ended())
    }
}
