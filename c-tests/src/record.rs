//! The result of a run, as a text file for people.
//!
//! ```text
//! == stock-gcc no_device/rates
//! library /usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.44.0
//! status exit 0
//! | a line of stdout
//! ! a line of stderr
//! ```

use std::{fmt, fs, path::Path};

use crate::Result;

/// One program's run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// How it was compiled, as [`crate::build::Combo::name`] has it.
    pub combo: String,
    /// `set/name` of the program.
    pub program: String,
    /// The libibverbs that the program found itself running on; empty if it did not print one.
    pub library: String,
    /// `exit N`, `signal N` or `hung`.
    pub status: String,
    /// Lines of stdout.
    pub stdout: Vec<String>,
    /// Lines of stderr, without the line that names the library.
    pub stderr: Vec<String>,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "== {} {}", self.combo, self.program)?;
        writeln!(f, "library {}", self.library)?;
        writeln!(f, "status {}", self.status)?;
        for line in &self.stdout {
            writeln!(f, "| {line}")?;
        }
        for line in &self.stderr {
            writeln!(f, "! {line}")?;
        }
        Ok(())
    }
}

/// Reads a file of records.
///
/// # Errors
/// When the file cannot be read or a line belongs to no record.
pub fn read(path: &Path) -> Result<Vec<Record>> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    parse(&text)
}

fn parse(text: &str) -> Result<Vec<Record>> {
    let mut records: Vec<Record> = Vec::new();
    for line in text.lines() {
        let (mark, rest) = line.split_once(' ').unwrap_or((line, ""));
        if mark == "==" {
            let (combo, program) = rest.split_once(' ').ok_or("a heading without a program")?;
            records.push(Record {
                combo: combo.to_owned(),
                program: program.to_owned(),
                ..Record::default()
            });
            continue;
        }
        let record = records.last_mut().ok_or("a line before any heading")?;
        match mark {
            "library" => record.library = rest.to_owned(),
            "status" => record.status = rest.to_owned(),
            "|" => record.stdout.push(rest.to_owned()),
            "!" => record.stderr.push(rest.to_owned()),
            _ => return Err(format!("not a line of a record: {line}").into()),
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_record_reads_back() {
        let record = Record {
            combo: "ours-clang".into(),
            program: "no_device/rates".into(),
            library: "/lib/libibverbs.so.1".into(),
            status: "exit 0".into(),
            stdout: vec!["a b".into(), String::new(), "== c".into()],
            stderr: vec!["d".into()],
        };
        let text = format!("{record}{record}");
        assert_eq!(parse(&text).ok(), Some(vec![record.clone(), record]));
    }

    #[test]
    fn stray_lines_are_refused() {
        assert!(parse("| x").is_err());
        assert!(parse("== stock-gcc no_device/x\nfoo").is_err());
        assert!(parse("== stock-gcc").is_err());
    }
}
