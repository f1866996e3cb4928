//! Tests in a separate network namespace, processes that play a role in them, and the resources of
//! a process.
#![allow(dead_code, reason = "each test uses some of these")]

mod namespace;

pub use namespace::there;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Debug;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::str::FromStr;

/// The role of a process that a test started.
const ROLE: &str = "UROCE_TEST_ROLE";
/// Every reply of a process in a role begins with this: the test harness prints too.
const MARK: &str = "uroce: ";

/// Runs the tests of the module `inside` in a network namespace, where there is only `lo`, one
/// after the other.
pub fn in_a_namespace() {
    namespace::run("inside::", &[], &["--test-threads=1"]);
}

/// The same over shared memory from the first message on, unless `UROCE_CARRIER` asks for UDP.
pub fn in_a_namespace_by_shm() {
    let own = std::env::var("UROCE_CARRIER").unwrap_or_default();
    let carrier = if own == "udp" { "udp" } else { "shm" };
    let environment = [("UROCE_CARRIER", carrier)];
    namespace::run_with("inside::", &[], &["--test-threads=1"], &environment);
}

/// The carriers that tests try in which this process takes part: both, or the one that
/// `UROCE_CARRIER` leaves it. A process of another carrier would not reach it.
pub fn carriers() -> Vec<&'static str> {
    let own = std::env::var("UROCE_CARRIER").unwrap_or_default();
    let both = ["udp", "shm"].into_iter();
    both.filter(|carrier| !["udp", "shm"].contains(&&*own) || own == *carrier)
        .collect()
}

/// Number of rounds: the value of the variable, or `few`.
pub fn rounds(variable: &str, few: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => few,
    }
}

/// The role of this process, if it was started for one.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Sends a line to the test that started this process.
pub fn reply(text: &str) {
    println!("{MARK}{text}");
}

/// The next line of the test; `None` once it has ended the conversation.
pub fn receive_line() -> Option<String> {
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line).expect("a line");
    (read > 0).then(|| line.trim_end().to_owned())
}

/// The lines of the test, until it ends the conversation: each a word, and numbers behind it.
pub fn commands<N: FromStr<Err: Debug>>() -> impl Iterator<Item = (String, Vec<N>)> {
    std::iter::from_fn(receive_line).map(|line| {
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let numbers = rest.split_whitespace();
        let numbers = numbers.map(|number| number.parse().expect("a number"));
        (word.to_owned(), numbers.collect())
    })
}

/// The test `role` of this program in a role.
fn in_role(role: &str) -> Command {
    let program = std::env::current_exe().expect("a test program");
    let mut command = Command::new(program);
    command
        .args(["--ignored", "--exact", "--nocapture", "role"])
        .env(ROLE, role);
    command
}

/// This process executes this program anew, in another role; it replies why not.
pub fn change_role(role: &str) {
    reply(&in_role(role).exec().to_string());
}

/// A process in a role. It is killed when this is dropped.
pub struct Player {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Player {
    /// Starts the test `role` of this program in that role.
    pub fn start(role: &str) -> Self {
        Self::start_with(role, &[])
    }

    /// Starts it with more in its environment.
    pub fn start_with(role: &str, environment: &[(&str, &str)]) -> Self {
        let mut child = in_role(role)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let to = child.stdin.take().expect("a pipe");
        let from = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, to, from }
    }

    /// Sends a line to the process.
    pub fn send_line(&mut self, text: &str) {
        writeln!(self.to, "{text}").expect("it listens");
    }

    /// The next reply of the process.
    pub fn receive_line(&mut self) -> String {
        loop {
            let mut line = String::new();
            let read = self.from.read_line(&mut line).expect("a line");
            assert!(read > 0, "it is gone: {:?}", self.child.wait());
            // The harness's own line may be in front.
            if let Some((_, text)) = line.split_once(MARK) {
                return text.trim_end().to_owned();
            }
        }
    }

    /// Sends a line to the process, and returns its reply.
    pub fn ask(&mut self, text: &str) -> String {
        self.send_line(text);
        self.receive_line()
    }

    /// Stops it, until the answer is dropped.
    pub fn stop(&self) -> Stopped {
        let pid = i32::try_from(self.id()).ok().and_then(Pid::from_raw);
        let pid = pid.expect("a number");
        kill_process(pid, Signal::STOP).expect("there");
        // Threads that run on other processors stop a moment later.
        while !self.states().iter().all(|state| *state == 'T') {
            std::thread::yield_now();
        }
        Stopped(pid)
    }

    /// The states of its threads, as /proc has them.
    pub fn states(&self) -> Vec<char> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.id())).expect("a folder");
        let state = |task: std::fs::DirEntry| {
            let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
            // Behind the name, in which anything may stand.
            let (_, behind) = stat.rsplit_once(") ")?;
            behind.chars().next()
        };
        tasks.flatten().filter_map(state).collect()
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// kill -9.
    pub fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
    }

    /// Ends the conversation, and waits for an orderly end.
    pub fn end(self) {
        let Self {
            mut child,
            to,
            from,
        } = self;
        drop(to);
        let status = watchdog::wait(&mut child).expect("ended");
        drop(from);
        assert!(status.success(), "{status}");
    }
}

/// A stopped process, which continues when this is dropped.
pub struct Stopped(Pid);

impl Drop for Stopped {
    fn drop(&mut self) {
        kill_process(self.0, Signal::CONT).expect("there");
    }
}

fn count(folder: &str) -> usize {
    std::fs::read_dir(folder).expect("a folder").count()
}

/// Descriptors of this process.
pub fn descriptors() -> usize {
    // One is that of the folder.
    count("/proc/self/fd") - 1
}

/// The threads of this process.
pub fn tasks() -> BTreeSet<OsString> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("threads");
    tasks.flatten().map(|task| task.file_name()).collect()
}

/// How many there are.
pub fn threads() -> usize {
    tasks().len()
}

/// How often the other threads of this process have slept since they began.
pub fn wake_ups_of_others() -> u64 {
    let own = rustix::thread::gettid().as_raw_nonzero().to_string();
    let tasks = std::fs::read_dir("/proc/self/task").expect("threads");
    let others = tasks.flatten().filter(|task| *task.file_name() != *own);
    let slept = others.filter_map(|task| {
        // A thread that has just ended has no file.
        let text = std::fs::read_to_string(task.path().join("status")).ok()?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse::<u64>().ok()
    });
    slept.sum()
}

/// Bytes of memory in use by a process, "self" for this one.
pub fn resident(process: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).expect("a status");
    let line = text.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.expect("a size").parse::<u64>().expect("a number") * 1024
}

/// Numbers that look random, the same for the same seed.
pub struct Dice(pub u64);

impl Dice {
    /// The next.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// One below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
