//! Counting instructions with valgrind's callgrind: those of the program and its libraries, in
//! user space.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

const OUT: &str = "callgrind.out";
const TRIGGER: &str = "desc: Trigger: ";
const REQUEST: &str = "Client Request: ";
/// Unlike the "totals" further down, without the code between two parts.
const SUMMARY: &str = "summary: ";

/// The counts of one run under callgrind.
pub struct Counts {
    /// Instructions of each part that the program dumped, by name.
    pub parts: BTreeMap<String, f64>,
    /// Instructions of the whole run, parts included.
    pub whole: f64,
    /// The output of the program.
    pub text: String,
}

/// Runs a program under callgrind; `dir` is emptied, and holds the dumps afterwards.
pub fn count(
    program: &Path,
    words: &[String],
    env: &[(&str, &OsStr)],
    dir: &Path,
) -> Result<Counts> {
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let mut out = OsString::from("--callgrind-out-file=");
    out.push(dir.join(OUT));
    let mut command = Command::new("valgrind");
    command
        .args(["--quiet", "--tool=callgrind"])
        // Valgrind executes driver requests that it does not know without checks.
        .arg("--sim-hints=lax-ioctls")
        .arg(out)
        .arg(program)
        .args(words)
        .envs(env.iter().copied());
    let output = command.output().context("start valgrind")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!(
            "{} under valgrind: {}\n{text}{}",
            program.display(),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let mut counts = Counts {
        parts: BTreeMap::new(),
        whole: 0.0,
        text,
    };
    for path in dumps(dir)? {
        let dump = fs::read(&path).with_context(|| path.display().to_string())?;
        let dump = String::from_utf8_lossy(&dump);
        let (part, total) =
            parse(&dump).with_context(|| format!("{} is no dump", path.display()))?;
        counts.whole += total;
        if let Some(name) = part {
            counts.parts.insert(name.to_owned(), total);
        }
    }
    Ok(counts)
}

/// One file for each dump, the last one for the code after the last part.
fn dumps(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(OUT) {
            paths.push(entry.path());
        }
    }
    if paths.is_empty() {
        bail!("valgrind left nothing in {}", dir.display());
    }
    Ok(paths)
}

/// The part that a dump is of (none for the end of the program), and its instructions.
fn parse(dump: &str) -> Option<(Option<&str>, f64)> {
    let mut lines = dump.lines();
    let trigger = lines.find_map(|line| line.strip_prefix(TRIGGER))?;
    let total = lines.find_map(|line| line.strip_prefix(SUMMARY))?;
    let part = trigger.strip_prefix(REQUEST).map(str::trim);
    Some((part, total.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_named_and_counted() {
        let dump = "# callgrind format\n\ndesc: Trigger: Client Request: pd 1\n\n\
                    events: Ir\nsummary: 7451\n\nfn=(0) x\n0 7451\n\ntotals: 7506\n";
        assert_eq!(parse(dump), Some((Some("pd 1"), 7451.0)));
    }

    #[test]
    fn the_end_of_the_program_is_no_part() {
        let dump = "desc: Trigger: Program termination\nsummary: 34964\n";
        assert_eq!(parse(dump), Some((None, 34964.0)));
        assert_eq!(parse("desc: Trigger: Program termination\n"), None);
    }
}
