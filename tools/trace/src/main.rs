//! `ibv_trace FILE`: prints the calls that `IBVERBS_TRACE=FILE` recorded, as text, as a summary
//! (`--summary`), or as JSON for chrome://tracing and ui.perfetto.dev (`--chrome`).
#![forbid(unsafe_code)]

mod chrome;
mod file;
mod requests;
mod summary;
mod text;
mod words;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

const USAGE: &str = "usage: ibv_trace [--summary | --chrome] FILE\n\
    \n\
    Prints the calls that a program made under IBVERBS_TRACE=FILE, in the order\n\
    in which they began.\n\
    \n\
    --summary   calls, failures and latencies of each verb\n\
    --chrome    JSON for chrome://tracing and ui.perfetto.dev\n";

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Summary,
    Chrome,
}

/// A trace and the form to print it in; `None` asks for the usage.
fn arguments(words: impl Iterator<Item = String>) -> Result<Option<(Form, String)>, String> {
    let (mut form, mut path) = (Form::Text, None);
    for word in words {
        match word.as_str() {
            "--summary" => form = Form::Summary,
            "--chrome" => form = Form::Chrome,
            "--help" | "-h" => return Ok(None),
            option if option.starts_with('-') => return Err(format!("unknown option {option}")),
            _ if path.is_some() => return Err("one file at a time".to_owned()),
            _ => path = Some(word),
        }
    }
    path.map(|path| Some((form, path)))
        .ok_or_else(|| "no file is named".to_owned())
}

fn print(form: Form, path: &str, to: &mut impl Write) -> Result<(), String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    let trace = file::read(&bytes).map_err(|error| format!("{path}: {error}"))?;
    if let Some(lost) = &trace.cut_short {
        eprintln!("ibv_trace: {path}: {lost}; the records before it are printed");
    }
    let printed = match form {
        Form::Text => text::print(&trace, to),
        Form::Summary => summary::print(&trace, to),
        Form::Chrome => chrome::print(&trace, to),
    };
    match printed.and_then(|()| to.flush()) {
        // The reader has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| error.to_string()),
    }
}

fn main() -> ExitCode {
    let (form, path) = match arguments(std::env::args().skip(1)) {
        Ok(Some(asked)) => asked,
        Ok(None) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprint!("ibv_trace: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let mut out = BufWriter::new(io::stdout().lock());
    match print(form, &path, &mut out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ibv_trace: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Result<Option<(Form, String)>, String> {
        arguments(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn the_command_line() {
        assert_eq!(of(&["f"]), Ok(Some((Form::Text, "f".to_owned()))));
        assert_eq!(
            of(&["f", "--summary"]),
            Ok(Some((Form::Summary, "f".to_owned())))
        );
        assert_eq!(of(&["--help"]), Ok(None));
        assert!(of(&[]).is_err());
        assert!(of(&["a", "b"]).is_err());
        assert!(of(&["--json", "b"]).is_err());
    }
}
