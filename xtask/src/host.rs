//! Running a command on this machine: everything it says goes to the terminal and to a log.
#![forbid(unsafe_code)]

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read, Write},
    path::Path,
    process::{Command, ExitStatus, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

/// What a command left behind.
pub struct Outcome {
    pub status: ExitStatus,
    /// Standard output and error as they came, in one.
    pub text: String,
    /// The command was killed because it was stuck.
    pub hung: bool,
}

/// Whether a command that has run for so long is stuck.
pub type Stuck = Box<dyn Fn(Duration) -> bool + Send>;

/// How often that is asked.
const PERIOD: Duration = Duration::from_secs(1);

/// Runs a command to its end, with standard input empty.
///
/// `stuck` is for commands that can wait for ever; the command and all its descendants are
/// killed when it says so.
pub fn run(command: &mut Command, log: &Path, stuck: Option<Stuck>) -> Result<Outcome> {
    watched(command, log, stuck, true)
}

/// The same, with what the command says in the log and the outcome alone.
pub fn run_silently(command: &mut Command, log: &Path, stuck: Option<Stuck>) -> Result<Outcome> {
    watched(command, log, stuck, false)
}

fn watched(command: &mut Command, log: &Path, stuck: Option<Stuck>, show: bool) -> Result<Outcome> {
    let name = command.get_program().to_string_lossy().into_owned();
    let (mut reader, writer) = io::pipe().context("a pipe")?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let mut child = command.spawn().with_context(|| format!("start {name}"))?;
    // The command value still holds the writing ends; with them open the reading never ends.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (done, finished) = mpsc::channel::<()>();
    let watched = child.id();
    let watchdog = stuck.map(|stuck| {
        thread::spawn(move || {
            let start = Instant::now();
            while finished.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                if stuck(start.elapsed()) {
                    kill_tree(watched);
                    return true;
                }
            }
            false
        })
    });
    let text = tee(&mut reader, log, show)?;
    let status = child.wait().with_context(|| format!("wait for {name}"))?;
    drop(done);
    let hung = watchdog.is_some_and(|thread| thread.join().unwrap_or(false));
    Ok(Outcome { status, text, hung })
}

/// Copies to the log and, if it is to be shown, to the terminal; answers the whole as text.
fn tee(from: &mut impl Read, log: &Path, show: bool) -> Result<String> {
    let mut log = File::create(log).with_context(|| format!("create {}", log.display()))?;
    let mut whole = Vec::new();
    let mut buffer = [0; 8192];
    loop {
        let got = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(got) => buffer.get(..got).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        log.write_all(got)?;
        whole.extend_from_slice(got);
        if !show {
            continue;
        }
        let mut terminal = io::stdout().lock();
        terminal.write_all(got)?;
        terminal.flush()?;
    }
    Ok(String::from_utf8_lossy(&whole).into_owned())
}

/// Kills a process and all that descend from it, parents first so that none is started anew.
fn kill_tree(root: u32) {
    let mut doomed = vec![root];
    let children = children_by_parent();
    let mut next = 0;
    while let Some(&pid) = doomed.get(next) {
        doomed.extend(children.get(&pid).into_iter().flatten());
        next += 1;
    }
    for pid in doomed {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // A process that ended by itself meanwhile is no error.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn children_by_parent() -> HashMap<u32, Vec<u32>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for entry in entries {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some(parent) = parent_in_stat(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    children
}

/// The fourth field of `/proc/PID/stat`; the second, the name, may hold blanks and brackets.
fn parent_in_stat(stat: &str) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stuck_is_killed() {
        let log = std::env::temp_dir().join(format!("stuck-{}", std::process::id()));
        let mut endless = Command::new("sh");
        endless.args(["-c", "echo begun; sleep infinity"]);
        let said = log.clone();
        let stuck = move |_| fs::metadata(&said).is_ok_and(|log| log.len() > 0);
        let outcome = run_silently(&mut endless, &log, Some(Box::new(stuck))).expect("a shell");
        assert!(outcome.hung && outcome.text == "begun\n");
        let mut short = Command::new("true");
        let outcome = run_silently(&mut short, &log, Some(Box::new(|_| false))).expect("true");
        assert!(!outcome.hung && outcome.status.success());
        fs::remove_file(&log).expect("the log");
    }

    #[test]
    fn a_name_with_brackets_does_not_hide_the_parent() {
        assert_eq!(parent_in_stat("7 (a) (b c) S 3 7 7 0"), Some(3));
        assert_eq!(parent_in_stat("nonsense"), None);
    }
}
