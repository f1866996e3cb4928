#![forbid(unsafe_code)]
//! Where reports of `IBVERBS_EXPLAIN` and `IBVERBS_VALIDATE` go: one write(2) each, so that those of several threads and
//! processes do not mix.
//!
//! The variable is 1 for the program's standard error, or the path of a file that is appended to.
//! Not set, empty or 0 is off. `IBVERBS_VALIDATE` may also be `abort`, alone or with a path behind
//! a comma: then the first report ends the program (SIGABRT). A set-user-ID program does not look at it.

use super::config;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

const EXPLAIN: u8 = 1;
const VALIDATE: u8 = 2;
const ABORT: u8 = 4;

static ON: AtomicU8 = AtomicU8::new(0);
static EXPLANATIONS: OnceLock<Sink> = OnceLock::new();
static MISTAKES: OnceLock<Sink> = OnceLock::new();

/// A place for reports.
#[derive(Debug)]
enum Sink {
    StandardError,
    File(File),
}

impl Sink {
    /// What the value of a variable names; `None` for off. A file that cannot be opened is
    /// replaced by the standard error, with a line that says so.
    fn new(value: &OsStr) -> Option<Self> {
        if value.is_empty() || value == "0" {
            return None;
        }
        if value == "1" {
            return Some(Self::StandardError);
        }
        let opened = OpenOptions::new().append(true).create(true).open(value);
        Some(opened.map_or_else(
            |error| {
                crate::warn::warn(&format!("{}: {error}", value.to_string_lossy()));
                Self::StandardError
            },
            Self::File,
        ))
    }

    fn write(&self, text: &str) {
        // A closed standard error or a full disk must not disturb the program.
        let _ = match self {
            Self::StandardError => std::io::stderr().write_all(text.as_bytes()),
            Self::File(file) => (&*file).write_all(text.as_bytes()),
        };
    }
}

/// Asks for explanations.
pub const EXPLAIN_VARIABLE: &str = "IBVERBS_EXPLAIN";
/// Asks for checks.
pub const VALIDATE_VARIABLE: &str = "IBVERBS_VALIDATE";

/// Reads the environment, once in the life of the process.
pub fn init() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let value = config::trusted(EXPLAIN_VARIABLE);
        let sink = value.as_deref().and_then(Sink::new);
        turn_on(sink, &EXPLANATIONS, EXPLAIN);
        let value = config::trusted(VALIDATE_VARIABLE).unwrap_or_default();
        let (abort, place) = aborting(&value);
        let mode = if abort { VALIDATE | ABORT } else { VALIDATE };
        turn_on(Sink::new(place), &MISTAKES, mode);
    });
}

fn turn_on(sink: Option<Sink>, place: &OnceLock<Sink>, mode: u8) {
    if let Some(sink) = sink
        && place.set(sink).is_ok()
    {
        ON.fetch_or(mode, Ordering::Release);
    }
}

/// Whether a value says to abort, and where to report.
fn aborting(value: &OsStr) -> (bool, &OsStr) {
    let Some(rest) = value.as_bytes().strip_prefix(b"abort") else {
        return (false, value);
    };
    match rest.strip_prefix(b",") {
        Some(place) => (true, OsStr::from_bytes(place)),
        None if rest.is_empty() => (true, OsStr::new("1")),
        // A file whose name begins so.
        None => (false, value),
    }
}

/// Whether calls are looked at at all.
pub fn on() -> bool {
    ON.load(Ordering::Relaxed) != 0
}

/// Whether failures are explained.
pub fn explains() -> bool {
    ON.load(Ordering::Relaxed) & EXPLAIN != 0
}

/// Whether the program's calls are checked.
pub fn validates() -> bool {
    ON.load(Ordering::Relaxed) & VALIDATE != 0
}

/// Writes a report of a mistake, and ends the program if that was asked for.
pub fn invalid(text: &str) {
    if let Some(sink) = MISTAKES.get() {
        sink.write(text);
    }
    if ON.load(Ordering::Relaxed) & ABORT != 0 {
        std::process::abort();
    }
}

/// Writes an explanation.
pub fn explain(text: &str) {
    if let Some(sink) = EXPLANATIONS.get() {
        sink.write(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_variable() {
        assert!(Sink::new(OsStr::new("")).is_none());
        assert!(Sink::new(OsStr::new("0")).is_none());
        let standard = Sink::new(OsStr::new("1"));
        assert!(matches!(standard, Some(Sink::StandardError)));
        let nowhere = Sink::new(OsStr::new("/nowhere/at/all"));
        assert!(matches!(nowhere, Some(Sink::StandardError)));
    }

    #[test]
    fn abort_may_stand_before_a_path() {
        let read = |value: &'static str| {
            let (abort, place) = aborting(OsStr::new(value));
            (abort, place.to_str().unwrap())
        };
        assert_eq!(read("1"), (false, "1"));
        assert_eq!(read("abort"), (true, "1"));
        assert_eq!(read("abort,/tmp/x"), (true, "/tmp/x"));
        assert_eq!(read("abort.log"), (false, "abort.log"));
    }

    #[test]
    fn reports_are_appended_to_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report");
        for text in ["one\n", "two\n"] {
            let sink = Sink::new(path.as_os_str()).unwrap();
            sink.write(text);
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    }
}
