//! How a program starts and ends.

use std::{
    env,
    ffi::OsString,
    io::{self, Write},
    process::ExitCode,
};

use verbs::tools::{
    Devices,
    getopt::{Opt, Options},
    process,
};

/// A status that is no success; its reason is printed already.
pub(crate) struct Failed(pub u8);

/// The result of a program's steps.
pub(crate) type Step<T = ()> = Result<T, Failed>;

impl From<io::Error> for Failed {
    /// Writing to stdout failed, so that a message would not be read.
    fn from(_: io::Error) -> Self {
        Self(1)
    }
}

/// `--json`, of every program.
pub(crate) const JSON: Opt = Opt::long('J', "json", false);

/// The word for `usage`.
pub(crate) const JSON_USAGE: &str = "      --json             print JSON instead\n";

/// Runs a program with its options.
pub fn main(known: &[Opt], run: impl FnOnce(Options) -> Result<(), u8>) -> ExitCode {
    process::end_on_closed_pipe();
    let mut known = known.to_vec();
    known.push(JSON);
    let ended = run(Options::new(env::args_os(), &known));
    let reported = io::stdout().flush();
    match ended {
        Ok(()) if reported.is_ok() => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(status) => ExitCode::from(status),
    }
}

/// The text of an error as perror(3) prints it, without the number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(end) => text.get(..end).unwrap_or(&text).to_owned(),
        None => text,
    }
}

/// The devices, or a message that there are none.
pub(crate) fn devices(status: u8) -> Step<Devices> {
    Devices::list().map_err(|error| {
        eprintln!("Failed to get IB devices list: {}", reason(&error));
        Failed(status)
    })
}

/// A word as text; bytes that are not UTF-8 are shown as such.
pub(crate) fn text(word: &OsString) -> String {
    word.to_string_lossy().into_owned()
}

/// Says why, and ends with status 1.
pub(crate) fn fail<T>(words: impl AsRef<str>) -> Step<T> {
    eprintln!("{}", words.as_ref());
    Err(Failed(1))
}

/// Prints a JSON document on a separate line.
pub(crate) fn print_json(value: &serde_json::Value) -> Step {
    let mut out = io::stdout();
    writeln!(out, "{value}")?;
    Ok(out.flush()?)
}
