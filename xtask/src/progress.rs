//! Progress of long work: which steps are left, and how long they took last time.
//!
//! The times are in a file of the cache directory, a line for each step: seconds, then its name.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process,
    time::{Duration, Instant},
};

use anyhow::Result;

/// Steps that a line names at most.
const NAMED: usize = 3;

/// How long steps took when they last ran.
#[derive(Debug, Default)]
struct Times {
    file: PathBuf,
    seconds: BTreeMap<String, u64>,
}

impl Times {
    fn read(cache: &Path) -> Self {
        let file = cache.join("times");
        // Without the file, or with a damaged one, no time is known.
        let text = fs::read_to_string(&file).unwrap_or_default();
        let seconds = text.lines().filter_map(|line| {
            let (seconds, name) = line.split_once(' ')?;
            Some((name.to_owned(), seconds.parse().ok()?))
        });
        Self {
            seconds: seconds.collect(),
            file,
        }
    }

    fn of(&self, name: &str) -> Option<Duration> {
        self.seconds.get(name).copied().map(Duration::from_secs)
    }

    /// Remembers a time, beside those that other runs have written meanwhile.
    fn keep(&mut self, name: &str, took: Duration) {
        let Some(cache) = self.file.parent() else {
            return;
        };
        self.seconds = Self::read(cache).seconds;
        let seconds = took.as_millis().div_ceil(1000);
        let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
        self.seconds.insert(name.to_owned(), seconds);
        let lines = self.seconds.iter();
        let text: String = lines
            .map(|(name, seconds)| format!("{seconds} {name}\n"))
            .collect();
        // Progress is no reason to fail. A reader never sees half a file.
        let new = cache.join(format!("times.{}", process::id()));
        let _ = fs::create_dir_all(cache)
            .and_then(|()| fs::write(&new, text))
            .and_then(|()| fs::rename(&new, &self.file));
    }
}

/// The steps of a command.
#[derive(Debug, Default)]
pub struct Progress {
    times: Times,
    left: Vec<String>,
    all: usize,
}

impl Progress {
    /// Of steps that will run, with the times in the cache directory.
    pub fn new(cache: &Path, steps: Vec<String>) -> Self {
        Self {
            times: Times::read(cache),
            all: steps.len(),
            left: steps,
        }
    }

    /// How many steps there are, and their times.
    pub fn begin(&self) -> Option<String> {
        (self.all > 1).then(|| format!("-- {} stages; {}", self.all, self.last_time()))
    }

    /// Notes that a step has ended. Returns a line about the remaining ones.
    pub fn end(&mut self, step: &str, took: Duration) -> Option<String> {
        // A step that could not run has no time.
        if took > Duration::ZERO && self.all > 0 {
            self.times.keep(step, took);
        }
        self.left.retain(|name| name != step);
        if self.left.is_empty() {
            return None;
        }
        let mut names = self.left.iter().take(NAMED).map(|name| {
            let time = self.times.of(name).map(|time| format!(" ({})", text(time)));
            format!("{name}{}", time.unwrap_or_default())
        });
        let first = names.by_ref().collect::<Vec<_>>().join(", ");
        let more = match self.left.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "   {} of {} left: {first}{more}; {}",
            self.left.len(),
            self.all,
            self.last_time()
        ))
    }

    /// The times of the steps that are left. Steps may run at the same time, so this is no
    /// prediction.
    fn last_time(&self) -> String {
        let times: Vec<Duration> = self
            .left
            .iter()
            .filter_map(|name| self.times.of(name))
            .collect();
        if times.is_empty() {
            return "their times are unknown".to_owned();
        }
        let unknown = match self.left.len() - times.len() {
            0 => String::new(),
            unknown => format!(", {unknown} without a time"),
        };
        format!("{} in sum last time{unknown}", text(times.iter().sum()))
    }
}

/// Runs a command that takes long, after a line with the time that it took last.
///
/// # Errors
/// Of the command, whose time is not kept then.
pub fn timed<T>(cache: &Path, name: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
    let mut times = Times::read(cache);
    if let Some(time) = times.of(name) {
        println!("-- {name} took {} last time", text(time));
    }
    let start = Instant::now();
    let done = run()?;
    times.keep(name, start.elapsed());
    Ok(done)
}

/// Seconds, or minutes from two on.
fn text(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn times_are_kept_for_the_next_run() {
        let cache = tempfile::tempdir().unwrap();
        let mut first = Progress::new(cache.path(), steps(&["fmt", "guest:ucx", "unit"]));
        assert_eq!(
            first.begin().unwrap(),
            "-- 3 stages; their times are unknown"
        );
        let line = first.end("fmt", Duration::from_millis(1500)).unwrap();
        assert_eq!(
            line,
            "   2 of 3 left: guest:ucx, unit; their times are unknown"
        );
        assert!(first.end("unit", Duration::from_secs(600)).is_some());
        assert_eq!(
            first.end("guest:ucx", Duration::ZERO),
            None,
            "it did not run"
        );

        let mut next = Progress::new(cache.path(), steps(&["fmt", "guest:ucx", "unit"]));
        let begin = next.begin().unwrap();
        assert_eq!(
            begin,
            "-- 3 stages; 11 min in sum last time, 1 without a time"
        );
        let line = next.end("guest:ucx", Duration::from_secs(90)).unwrap();
        let all = "   2 of 3 left: fmt (2 s), unit (10 min); 11 min in sum last time";
        assert_eq!(line, all);
    }

    #[test]
    fn long_lists_are_cut() {
        let cache = tempfile::tempdir().unwrap();
        let mut many = Progress::new(cache.path(), steps(&["a", "b", "c", "d", "e", "f"]));
        let line = many.end("a", Duration::ZERO).unwrap();
        assert!(
            line.starts_with("   5 of 6 left: b, c, d and 2 more; "),
            "{line}"
        );
        assert_eq!(Progress::new(cache.path(), steps(&["a"])).begin(), None);
    }

    #[test]
    fn runs_at_the_same_time_keep_their_times() {
        let cache = tempfile::tempdir().unwrap();
        let (mut one, mut other) = (Times::read(cache.path()), Times::read(cache.path()));
        one.keep("one", Duration::from_secs(1));
        other.keep("other", Duration::from_secs(2));
        let both = Times::read(cache.path());
        assert_eq!(both.of("one"), Some(Duration::from_secs(1)));
        assert_eq!(both.of("other"), Some(Duration::from_secs(2)));
    }

    #[test]
    fn a_failed_command_has_no_time() {
        let cache = tempfile::tempdir().unwrap();
        let failed = timed::<()>(cache.path(), "bench", || anyhow::bail!("no"));
        assert!(failed.is_err());
        assert_eq!(Times::read(cache.path()).of("bench"), None);
        assert_eq!(timed(cache.path(), "bench", || Ok(7)).unwrap(), 7);
        assert!(Times::read(cache.path()).of("bench").is_some());
    }

    #[test]
    fn a_damaged_file_has_no_times() {
        let cache = tempfile::tempdir().unwrap();
        fs::write(cache.path().join("times"), "x fmt\n5\n7 unit\n").unwrap();
        let times = Times::read(cache.path());
        assert_eq!(times.of("fmt"), None);
        assert_eq!(times.of("unit"), Some(Duration::from_secs(7)));
    }
}
