#![forbid(unsafe_code)]
//! The outputs of `IBVERBS_EXPLAIN` and `IBVERBS_VALIDATE`. A report is one write(2), so that
//! reports of several threads and processes do not mix.
//!
//! The value is 1 for standard error, or the path of a file that is appended to. Unset, empty and 0
//! mean off. `IBVERBS_VALIDATE` may have options before or after it, separated by commas: `abort`
//! (the first report ends the program by SIGABRT), `ignore=ID` and `suppress=FILE`
//! ([`Suppressions`]). A set-user-ID program ignores both variables.

use super::config;
use super::suppressions::{CHECKS, Suppressions};
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
static SUPPRESSED: OnceLock<Suppressions> = OnceLock::new();

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
        if sink.is_some() {
            kit::explain::send_to(explain);
        }
        turn_on(sink, &EXPLANATIONS, EXPLAIN);
        let value = config::trusted(VALIDATE_VARIABLE).unwrap_or_default();
        let options = Options::read(&value);
        let mode = if options.abort {
            VALIDATE | ABORT
        } else {
            VALIDATE
        };
        let output = place(VALIDATE_VARIABLE, options.place);
        if output.is_some() {
            let _ = SUPPRESSED.set(options.suppressions());
        }
        turn_on(output, &MISTAKES, mode);
    });
}

fn turn_on(output: Option<Output>, to: &OnceLock<Output>, mode: u8) {
    if let Some(output) = output
        && to.set(output).is_ok()
    {
        ON.fetch_or(mode, Ordering::Release);
    }
}

/// The value of `IBVERBS_VALIDATE`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options<'a> {
    abort: bool,
    ignored: Vec<&'a str>,
    files: Vec<&'a OsStr>,
    place: &'a OsStr,
}

impl<'a> Options<'a> {
    /// Options are taken from both ends. The rest is the destination, in which a comma may be.
    fn read(value: &'a OsStr) -> Self {
        let mut options = Self::default();
        let mut rest = value.as_bytes();
        while !rest.is_empty() {
            let first = rest.iter().position(|byte| *byte == b',');
            let (word, after) = first.map_or((rest, &[][..]), |at| {
                (&rest[..at], rest.get(at + 1..).unwrap_or_default())
            });
            if !options.add(word) {
                break;
            }
            rest = after;
        }
        while let Some(at) = rest.iter().rposition(|byte| *byte == b',') {
            if !options.add(rest.get(at + 1..).unwrap_or_default()) {
                break;
            }
            rest = rest.get(..at).unwrap_or_default();
        }
        let has_options = options.abort || !options.ignored.is_empty() || !options.files.is_empty();
        options.place = match rest.is_empty() && has_options {
            true => OsStr::new("1"),
            false => OsStr::from_bytes(rest),
        };
        options
    }

    /// False for a word that is no option.
    fn add(&mut self, word: &'a [u8]) -> bool {
        if word == b"abort" {
            self.abort = true;
        } else if let Some(id) = word.strip_prefix(b"ignore=")
            && let Ok(id) = std::str::from_utf8(id)
        {
            self.ignored.push(id);
        } else if let Some(file) = word.strip_prefix(b"suppress=") {
            self.files.push(OsStr::from_bytes(file));
        } else {
            return false;
        }
        true
    }

    /// The rules. A file that cannot be read and an identifier that does not exist are reported.
    fn suppressions(&self) -> Suppressions {
        let mut rules = Suppressions::default();
        for id in &self.ignored {
            rules.ignore(id);
        }
        for file in &self.files {
            match std::fs::read_to_string(file) {
                Ok(content) => rules.add_file(&content),
                Err(error) => {
                    let file = file.to_string_lossy();
                    crate::warn::warn(&format!("{VALIDATE_VARIABLE}: suppress={file}: {error}"));
                }
            }
        }
        for id in rules.ids().filter(|id| !CHECKS.contains(id)) {
            let known = CHECKS.join(", ");
            crate::warn::warn(&format!(
                "{VALIDATE_VARIABLE}: no report has the identifier {id}; there are {known}"
            ));
        }
        rules
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
pub fn invalid(id: &str, text: &str) {
    let suppressed = SUPPRESSED.get();
    if suppressed.is_some_and(|rules| rules.apply_to(id, text)) {
        return;
    }
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
    fn options_stand_before_or_after_a_path() {
        let read = |value: &'static str| {
            let options = Options::read(OsStr::new(value));
            let files = options.files.iter().map(|file| file.to_str().unwrap());
            let files: Vec<_> = files.collect();
            let place = options.place.to_str().unwrap();
            (options.abort, options.ignored, files, place)
        };
        let none = || (false, vec![], vec![], "");
        assert_eq!(read(""), none());
        assert_eq!(read("1"), (false, vec![], vec![], "1"));
        assert_eq!(read("abort"), (true, vec![], vec![], "1"));
        assert_eq!(read("abort,/tmp/x"), (true, vec![], vec![], "/tmp/x"));
        assert_eq!(read("/tmp/x,abort"), (true, vec![], vec![], "/tmp/x"));
        assert_eq!(read("abort.log"), (false, vec![], vec![], "abort.log"));
        assert_eq!(read("/tmp/a,b"), (false, vec![], vec![], "/tmp/a,b"));
        assert_eq!(
            read("1,ignore=leak,ignore=key,suppress=/etc/rules"),
            (false, vec!["key", "leak"], vec!["/etc/rules"], "1")
        );
        assert_eq!(read("ignore=leak"), (false, vec!["leak"], vec![], "1"));
    }

    #[test]
    fn files_of_rules_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules");
        std::fs::write(&path, "leak main\n").unwrap();
        let missing = folder.path().join("missing");
        let options = Options {
            files: vec![path.as_os_str(), missing.as_os_str()],
            ..Options::default()
        };
        let rules = options.suppressions();
        assert!(rules.apply_to("leak", "called by: main"));
        assert!(!rules.apply_to("leak", "called by: other"));
    }
}
