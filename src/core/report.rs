#![forbid(unsafe_code)]
//! The outputs of `IBVERBS_EXPLAIN` and `IBVERBS_VALIDATE`. A report is one write(2), so that
//! reports of several threads and processes do not mix.
//!
//! The value is 1 for standard error, or the path of a file that is appended to. Unset, empty and 0
//! mean off. `IBVERBS_VALIDATE` may also be `abort`, alone or followed by a comma and a path: the
//! first report then ends the program (SIGABRT). A set-user-ID program ignores both variables.

use super::config;
use kit::sys::{forks, output::Output};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

const EXPLAIN: u8 = 1;
const VALIDATE: u8 = 2;
const ABORT: u8 = 4;

static ON: AtomicU8 = AtomicU8::new(0);
static EXPLANATIONS: OnceLock<Output> = OnceLock::new();
static MISTAKES: OnceLock<Output> = OnceLock::new();

/// The destination that the value of a variable names; `None` for off. A file that cannot be opened
/// is replaced by the standard error, with a line that reports it.
fn place(variable: &str, value: &OsStr) -> Option<Output> {
    if value.is_empty() || value == "0" {
        return None;
    }
    if value == "1" {
        return Some(Output::standard_error());
    }
    let opened = Output::open(variable, value).map_err(std::io::Error::from);
    Some(opened.unwrap_or_else(|error| {
        crate::warn::warn(&format!("{variable}={}: {error}", value.to_string_lossy()));
        Output::standard_error()
    }))
}

/// Asks for explanations.
pub const EXPLAIN_VARIABLE: &str = "IBVERBS_EXPLAIN";
/// Asks for checks.
pub const VALIDATE_VARIABLE: &str = "IBVERBS_VALIDATE";

/// Reads the environment, once in the life of the process.
pub fn init() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    if ONCE.is_completed() {
        return;
    }
    let _entered = forks::enter();
    ONCE.call_once(|| {
        let value = config::trusted(EXPLAIN_VARIABLE);
        let sink = value
            .as_deref()
            .and_then(|value| place(EXPLAIN_VARIABLE, value));
        turn_on(sink, &EXPLANATIONS, EXPLAIN);
        let value = config::trusted(VALIDATE_VARIABLE).unwrap_or_default();
        let (abort, named) = aborting(&value);
        let mode = if abort { VALIDATE | ABORT } else { VALIDATE };
        turn_on(place(VALIDATE_VARIABLE, named), &MISTAKES, mode);
    });
}

fn turn_on(output: Option<Output>, to: &OnceLock<Output>, mode: u8) {
    if let Some(output) = output
        && to.set(output).is_ok()
    {
        ON.fetch_or(mode, Ordering::Release);
    }
}

/// Whether a value requests to abort, and the destination.
fn aborting(value: &OsStr) -> (bool, &OsStr) {
    let Some(rest) = value.as_bytes().strip_prefix(b"abort") else {
        return (false, value);
    };
    match rest.strip_prefix(b",") {
        Some(place) => (true, OsStr::from_bytes(place)),
        None if rest.is_empty() => (true, OsStr::new("1")),
        // A file whose name begins with this word.
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
    if let Some(output) = MISTAKES.get() {
        output.write(text.as_bytes());
    }
    if ON.load(Ordering::Relaxed) & ABORT != 0 {
        std::process::abort();
    }
}

/// Writes an explanation.
pub fn explain(text: &str) {
    if let Some(output) = EXPLANATIONS.get() {
        output.write(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_variable() {
        let named = |value: &str| {
            let output = place("VARIABLE", OsStr::new(value));
            output.map(|output| output.file().is_some())
        };
        assert_eq!((named(""), named("0")), (None, None));
        assert_eq!(named("1"), Some(false));
        assert_eq!(named("/nowhere/at/all"), Some(false));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report");
        assert_eq!(named(path.to_str().unwrap()), Some(true));
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
}
