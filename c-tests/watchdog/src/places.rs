//! Which processes there are, and where their threads wait.
//!
//! The kernel shows each thread's state, the function of the kernel in which it sleeps (`wchan`),
//! its system call with arguments, and to root its kernel stack. Frames of the program come from
//! gdb, where it is installed.

use std::{
    collections::HashSet,
    fmt::Write as _,
    fs,
    path::Path,
    process::{self, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::pipe::{Collector, PERIOD};

/// Processes described at most: a program may have started thousands.
const MOST: usize = 24;
/// How long gdb may take for one process.
const DEBUGGER: Duration = Duration::from_secs(60);

/// A process, as /proc has it.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its parent's.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// As in proc_pid_stat(5).
    pub state: char,
    /// Its command line, or its name.
    pub line: String,
}

impl Process {
    fn read(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name may hold blanks and brackets.
        let (head, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let name = head.split_once(" (").map_or("", |(_, name)| name);
        let line = match line.trim_end() {
            "" => name.to_owned(),
            line => line.to_owned(),
        };
        Some(Self {
            pid,
            parent,
            group,
            state,
            line,
        })
    }

    /// Whether it is dead or waits for its parent to look.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    /// Whether it can write into one of these pipes.
    fn holds(&self, pipes: &[u64]) -> bool {
        let folder = format!("/proc/{}/fd", self.pid);
        let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.any(|entry| {
            let to = fs::read_link(entry.path()).unwrap_or_default();
            pipes
                .iter()
                .any(|pipe| to == Path::new(&format!("pipe:[{pipe}]")))
        })
    }
}

/// All processes that can be seen.
#[must_use]
pub fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    entries
        .filter_map(number)
        .filter_map(Process::read)
        .collect()
}

/// The processes that belong to a command that leads a group: the group, those that hold one of its
/// pipes, and the descendants of both. This process is excluded, although it may be the leader.
#[must_use]
pub fn members(leader: u32, pipes: &[u64]) -> Vec<Process> {
    let own = process::id();
    let all: Vec<Process> = all().into_iter().filter(|p| p.pid != own).collect();
    // Children of this process have the pipes for the moment before they start a program.
    let belongs = |p: &&Process| {
        let held = p.parent != own && p.holds(pipes);
        [p.pid, p.parent, p.group].contains(&leader) || held
    };
    let mut found: Vec<Process> = all.iter().filter(belongs).cloned().collect();
    let mut known: HashSet<u32> = found.iter().map(|p| p.pid).collect();
    let mut next = 0;
    while let Some(parent) = found.get(next).map(|p| p.pid) {
        let children = all.iter().filter(|p| p.parent == parent);
        found.extend(children.filter(|p| known.insert(p.pid)).cloned());
        next += 1;
    }
    found
}

/// Where each thread of these processes is.
#[must_use]
pub fn describe(processes: &[Process]) -> String {
    let mut text = String::new();
    for process in processes.iter().take(MOST) {
        describe_one(&mut text, process);
    }
    if processes.len() > MOST {
        let _ = writeln!(text, "and {} more processes", processes.len() - MOST);
    }
    text
}

fn describe_one(text: &mut String, process: &Process) {
    let Process {
        pid,
        parent,
        state,
        line,
        ..
    } = process;
    let _ = writeln!(
        text,
        "process {pid} (parent {parent}, state {state}): {line}"
    );
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    for task in tasks.into_iter().flatten().flatten() {
        describe_thread(text, &task.path());
    }
    if !process.has_ended() {
        text.push_str(&frames(*pid));
    }
}

fn describe_thread(text: &mut String, task: &Path) {
    let read = |name: &str| {
        let text = fs::read_to_string(task.join(name)).unwrap_or_default();
        text.trim_end().to_owned()
    };
    let status = read("status");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map_or("", str::trim)
    };
    let number = task.file_name().unwrap_or_default().to_string_lossy();
    let _ = writeln!(
        text,
        "  thread {number} {}: state {}, wchan {}, syscall {}",
        read("comm"),
        field("State:"),
        read("wchan"),
        read("syscall"),
    );
    for line in read("stack").lines() {
        let _ = writeln!(text, "    kernel {line}");
    }
}

/// The frames of all threads, by gdb. Nothing where there is no gdb, or it may not look.
fn frames(pid: u32) -> String {
    let started = Command::new("gdb")
        .args(["-nx", "-batch", "-iex", "set debuginfod enabled off"])
        .args(["-ex", "thread apply all backtrace 64", "-p"])
        .arg(pid.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut gdb) = started else {
        return String::new();
    };
    let printed = Collector::start(gdb.stdout.take());
    let begun = Instant::now();
    while matches!(gdb.try_wait(), Ok(None)) && begun.elapsed() < DEBUGGER {
        thread::sleep(PERIOD);
    }
    // Errors: it has ended.
    let _ = gdb.kill();
    let _ = gdb.wait();
    let printed = printed.bytes(Duration::from_secs(1));
    let printed = String::from_utf8_lossy(&printed);
    let wanted = |line: &&str| line.starts_with("Thread ") || line.starts_with('#');
    let lines = printed.lines().filter(wanted);
    lines.fold(String::new(), |text, line| text + "    " + line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_brackets_in_its_name_is_read() {
        let own = Process::read(process::id()).expect("this process");
        assert_eq!(own.parent, std::os::unix::process::parent_id());
        assert!(!own.has_ended() && own.line.contains("watchdog"));
    }
}
