//! Child processes in separate groups, with their output in a file.
#![forbid(unsafe_code)]

use std::{
    fs::{self, File},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};

pub struct Process {
    child: Child,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    Exit(i32),
    Signal(i32),
    /// It did not, in the time given.
    Hung,
}

impl End {
    pub fn well(self) -> bool {
        self == Self::Exit(0)
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit status {code}"),
            Self::Signal(number) => write!(f, "signal {number}"),
            Self::Hung => f.write_str("hung"),
        }
    }
}

impl Process {
    /// Starts with standard input empty and all output going to `log`, in the order it comes.
    pub fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let out = create(log)?;
        let err = out.try_clone()?;
        Self::spawn(command.stdout(out).stderr(err))
    }

    /// Starts with empty standard input and with each output going to its file.
    pub fn start_apart(command: &mut Command, out: &Path, err: &Path) -> Result<Self> {
        Self::spawn(command.stdout(create(out)?).stderr(create(err)?))
    }

    fn spawn(command: &mut Command) -> Result<Self> {
        let child = command
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| command.get_program().to_string_lossy().into_owned())?;
        Ok(Self { child })
    }

    /// Waits for the end, but not longer than `bound`.
    pub fn wait(&mut self, bound: Duration) -> Result<End> {
        let start = Instant::now();
        loop {
            if let Some(end) = self.ended()? {
                return Ok(end);
            }
            if start.elapsed() >= bound {
                return Ok(End::Hung);
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn ended(&mut self) -> Result<Option<End>> {
        Ok(self.child.try_wait()?.map(end))
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Writes the facts about a process that hangs: where in the kernel each of its threads is, and
    /// the unread bytes in connections of its network namespace.
    pub fn describe(&self, file: &Path) -> Result<()> {
        let mut text = String::new();
        let tasks = format!("/proc/{}/task", self.child.id());
        for task in fs::read_dir(tasks)?.flatten() {
            for part in ["comm", "syscall", "stack"] {
                let printed = fs::read_to_string(task.path().join(part));
                text.push_str(&printed.unwrap_or_else(|error| format!("{part}: {error}\n")));
            }
        }
        let sockets = fs::read_to_string(format!("/proc/{}/net/tcp", self.child.id()));
        for line in sockets.unwrap_or_default().lines().filter_map(unread) {
            text.push_str(&line);
            text.push('\n');
        }
        fs::write(file, text).with_context(|| file.display().to_string())
    }

    /// Ends the whole group: asks, then, after a while, does not ask.
    pub fn stop(&mut self) -> Result<()> {
        self.signal(Signal::TERM);
        if self.wait(Duration::from_secs(5))? == End::Hung {
            self.signal(Signal::KILL);
        }
        self.child.wait()?;
        // Processes that it started and left behind.
        self.signal(Signal::KILL);
        Ok(())
    }

    fn signal(&self, signal: Signal) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            // The error means that the group does not exist any more.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        // An error would mean that it was waited for already.
        let _ = self.child.wait();
    }
}

fn create(log: &Path) -> Result<File> {
    File::create(log).with_context(|| log.display().to_string())
}

/// The beginning of a line of a description that reports unread bytes.
pub const UNREAD: &str = "unread in a connection of TCP: ";

/// The unread bytes of the connection of a line of /proc/net/tcp: number, local address:port in
/// hex, remote, state (01 is ESTABLISHED), bytes to send:bytes to read.
fn unread(line: &str) -> Option<String> {
    let mut fields = line.split_whitespace().skip(1);
    let [local, remote, state, queues] = [(); 4].map(|()| fields.next());
    let (_, unread) = queues?.split_once(':')?;
    let bytes = u32::from_str_radix(unread, 16).ok()?;
    let is_connected = state == Some("01");
    (is_connected && bytes > 0).then(|| {
        format!(
            "{UNREAD}{bytes} bytes, {} {}",
            local.unwrap_or_default(),
            remote.unwrap_or_default()
        )
    })
}

fn end(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Exit(code),
        (None, signal) => End::Signal(signal.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("xtask-process-{}-{name}", std::process::id()))
    }

    #[test]
    fn output_and_status_are_kept() -> Result<()> {
        let log = log("status");
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo out; echo err >&2; exit 3"]);
        let mut process = Process::start(&mut shell, &log)?;
        assert_eq!(process.wait(Duration::MAX)?, End::Exit(3));
        assert_eq!(std::fs::read_to_string(&log)?, "out\nerr\n");
        std::fs::remove_file(log)?;
        Ok(())
    }

    #[test]
    fn unread_bytes_of_connections_are_found() {
        let line = |state, queues| {
            let line =
                format!("   7: 0109090A:4853 0209090A:C350 {state} {queues} 00:00000000 0 0");
            unread(&line)
        };
        let found = line("01", "00000000:00000080").expect("unread");
        assert_eq!(
            found,
            format!("{UNREAD}128 bytes, 0109090A:4853 0209090A:C350")
        );
        assert_eq!(line("01", "00000080:00000000"), None);
        // Connections that a listening socket has not handed out.
        assert_eq!(line("0A", "00000000:00000001"), None);
        assert_eq!(
            unread("  sl  local_address rem_address   st tx_queue rx_queue tr"),
            None
        );
    }

    #[test]
    fn a_process_that_does_not_end_is_hung_and_can_be_stopped() -> Result<()> {
        let log = log("hung");
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 1000 & wait"]);
        let mut process = Process::start(&mut shell, &log)?;
        assert_eq!(process.wait(Duration::ZERO)?, End::Hung);
        process.stop()?;
        assert!(matches!(process.ended()?, Some(End::Signal(_))));
        std::fs::remove_file(log)?;
        Ok(())
    }
}
