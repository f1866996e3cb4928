//! A server and its client, each on a separate processor.
#![forbid(unsafe_code)]

use std::{
    ffi::OsString,
    fs,
    path::Path,
    process::Command,
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};

use anyhow::{Context, Result, bail};

use crate::{
    guest::case::wait_until_ready,
    guest::process::{End, Process},
    suites::Ready,
};

/// Nothing here takes longer than seconds, in emulation too.
const BOUND: Duration = Duration::from_secs(300);

/// A program and how it is called.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// Precedes the command: enters another network namespace.
    pub entering: Vec<OsString>,
    pub words: Vec<OsString>,
    pub env: Vec<(&'static str, OsString)>,
}

impl Call {
    pub fn new(words: &str) -> Self {
        Self {
            words: words.split_whitespace().map(Into::into).collect(),
            ..Self::default()
        }
    }

    pub fn env(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    pub fn entering(mut self, words: &str) -> Self {
        self.entering = words.split_whitespace().map(Into::into).collect();
        self
    }

    pub fn in_namespace(self, namespace: &str) -> Self {
        self.entering(&format!("ip netns exec {namespace}"))
    }

    fn command(&self, processor: &str) -> Command {
        let mut words = self.entering.iter();
        let tail = [OsString::from("taskset"), "-c".into(), processor.into()];
        let mut all = words.by_ref().cloned().collect::<Vec<_>>();
        all.extend(tail);
        all.extend(self.words.iter().cloned());
        let mut all = all.into_iter();
        let mut command = Command::new(all.next().unwrap_or_default());
        command.args(all).envs(self.env.iter().cloned());
        command
    }
}

/// A TCP port that no earlier run has used.
pub fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(24000);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The first two processors that may be used; the same one twice if there is one.
pub fn processors() -> Result<[String; 2]> {
    let status = fs::read_to_string("/proc/self/status").context("/proc/self/status")?;
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let all = numbers(list.unwrap_or_default());
    let first = all.first().context("no processor may be used")?;
    let second = all.get(1).unwrap_or(first);
    Ok([first.to_string(), second.to_string()])
}

/// `0-3,7` as numbers.
fn numbers(list: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse::<u32>().ok()?)
    };
    let parts = list.trim().split(',');
    parts.filter_map(range).flatten().collect()
}

/// Runs a client once its server listens, and returns the client's output.
pub fn run(dir: &Path, server: &Call, client: &Call, port: u16) -> Result<String> {
    let [first, second] = processors()?;
    let file = |name: &str| dir.join(format!("{port}.{name}"));
    let mut serving = Process::start_apart(
        &mut server.command(&first),
        &file("server.out"),
        &file("server.err"),
    )?;
    wait_until_ready(&Ready::Tcp(port), &mut serving)?;
    let mut asking = Process::start_apart(
        &mut client.command(&second),
        &file("client.out"),
        &file("client.err"),
    )?;
    let end = asking.wait(BOUND)?;
    if end == End::Hung {
        asking.stop()?;
    }
    serving.wait(Duration::from_secs(2))?;
    serving.stop()?;
    if !end.well() {
        bail!(
            "{:?}: {end}; see {}",
            client.words,
            file("client.err").display()
        );
    }
    let out = fs::read(file("client.out"))?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_read_from_a_list() {
        assert_eq!(numbers("\t0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(numbers("7"), [7]);
        assert!(numbers("").is_empty());
        assert!(processors().is_ok());
    }
}
