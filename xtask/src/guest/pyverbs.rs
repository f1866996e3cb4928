//! rdma-core's own tests, and reading what Python's unittest prints about them.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::{case::Stage, process::Process};
use crate::{
    needs::RDMA_CORE_TESTS,
    record::{Record, Word},
};

/// All tests together take half a minute in emulation.
const BOUND: Duration = Duration::from_secs(900);

/// Runs the suite on a device, unpacked below `room`; `runner` replaces its own main program.
pub fn run(stage: &Stage, device: &str, room: &Path, runner: Option<&Path>) -> Result<Vec<Record>> {
    let home = unpack(room)?;
    let own = home.join("tests/run_tests.py");
    let mut command = Command::new("/usr/bin/python3");
    command
        .arg("-B")
        .arg(runner.unwrap_or(&own))
        .args(["-v", "--dev", device])
        .current_dir(&home);
    command.envs(stage.env.iter().copied());
    stage.witness.attend(&mut command);
    let log = stage.logs.join("output");
    let mut process = Process::start(&mut command, &log)?;
    process.wait(BOUND)?;
    process.stop()?;
    let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    let mut records = parse(&text);
    if let Some(wrong) = stage.witness.verdict(1)? {
        records.push(Record::new("library", Word::WrongLibrary, wrong));
    }
    if ran(&text) != Some(records.len()) {
        let reason = "the suite did not come to its end, or its output was not understood";
        records.push(Record::new("summary", Word::Fail, reason));
    }
    Ok(records)
}

/// The tests, unpacked where one can write; answers the directory above them.
fn unpack(room: &Path) -> Result<PathBuf> {
    let home = room.join("rdma-core");
    let tests = home.join("tests");
    if tests.exists() {
        return Ok(home);
    }
    fs::create_dir_all(&tests)?;
    for entry in fs::read_dir(RDMA_CORE_TESTS).context(RDMA_CORE_TESTS)? {
        let from = entry?.path();
        let name = from.file_name().unwrap_or_default().to_string_lossy();
        match name.strip_suffix(".gz") {
            None => {
                fs::copy(&from, tests.join(&*name))?;
            }
            Some(plain) => gunzip(&from, &tests.join(plain))?,
        }
    }
    Ok(home)
}

fn gunzip(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("gzip")
        .arg("-dc")
        .stdin(fs::File::open(from)?)
        .stdout(Stdio::from(fs::File::create(to)?))
        .status()?;
    if !status.success() {
        bail!("gzip cannot read {}", from.display());
    }
    Ok(())
}

/// Reads `name (module.Class.name)`, perhaps a line of description, and ` ... result`.
///
/// What a test itself prints may stand between the dots and the result, line ends included.
pub fn parse(text: &str) -> Vec<Record> {
    let mut records = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines() {
        if line.starts_with("======") {
            break;
        }
        if let Some(name) = heading(line)
            && let Some(unfinished) = open.replace(name)
        {
            records.push(Record::new(unfinished, Word::Fail, "no result was printed"));
        }
        let Some((word, reason)) = result(line) else {
            continue;
        };
        if let Some(name) = open.take() {
            records.push(Record::new(name, word, reason));
        }
    }
    let unfinished = open.map(|name| Record::new(name, Word::Fail, "no result was printed"));
    records.extend(unfinished);
    records
}

/// The full name in a line that begins a test.
fn heading(line: &str) -> Option<String> {
    let (name, rest) = line.split_once(" (")?;
    let (path, after) = rest.split_once(')')?;
    let own = name == "setUpClass" || path.ends_with(&format!(".{name}"));
    (own && (after.is_empty() || after.starts_with(" ... "))).then(|| path.to_owned())
}

/// The result that a line ends with: after the dots, or alone when a test printed in between.
fn result(line: &str) -> Option<(Word, String)> {
    let said = match line.rsplit_once(" ... ") {
        Some((_, said)) => said,
        None => line,
    };
    if let Some(at) = said.find("skipped ") {
        let reason = said.get(at..)?.strip_prefix("skipped ")?;
        return quoted(reason).map(|reason| (Word::Skip, reason.to_owned()));
    }
    match said.trim() {
        "ok" => Some((Word::Ok, String::new())),
        "FAIL" => Some((Word::Fail, "FAIL".into())),
        "ERROR" => Some((Word::Fail, "ERROR".into())),
        "expected failure" => Some((Word::Ok, String::new())),
        "unexpected success" => Some((Word::Fail, "unexpected success".into())),
        _ => None,
    }
}

/// What stands in Python's quotes of either kind.
fn quoted(text: &str) -> Option<&str> {
    let text = text.trim();
    let within = |mark: char| text.strip_prefix(mark)?.strip_suffix(mark);
    within('\'').or_else(|| within('"'))
}

/// The number in `Ran 273 tests in 14.8s`.
fn ran(text: &str) -> Option<usize> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Ran "));
    lines.next_back()?.split_once(" test")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
test_create_ah (tests.test_addr.AHTest.test_create_ah)
Test ibv_create_ah. ... ok
test_xrc (tests.test_qp.QPTest.test_xrc) ... skipped 'Create XRC QP is not supported'
test_quote (tests.test_qp.QPTest.test_quote) ... skipped \"Can't run\"
test_loud (tests.test_qp.QPTest.test_loud) ... a warning (of some kind)
ok
test_bad (tests.test_qp.QPTest.test_bad)
Says more ... FAIL
test_worse (tests.test_qp.QPTest.test_worse) ... ERROR
test_crash (tests.test_qp.QPTest.test_crash) ... 
======================================================================
FAIL: test_bad (tests.test_qp.QPTest.test_bad)
Says more ... ok
----------------------------------------------------------------------
Ran 7 tests in 14.801s

FAILED (failures=1, errors=1, skipped=2)
";

    #[test]
    fn each_test_has_its_result() {
        let words: Vec<_> = parse(TEXT).into_iter().map(|record| record.word).collect();
        use Word::{Fail, Ok, Skip};
        assert_eq!(words, [Ok, Skip, Skip, Ok, Fail, Fail, Fail]);
        assert_eq!(ran(TEXT), Some(7));
    }

    #[test]
    fn names_are_whole_and_reasons_kept() {
        let records = parse(TEXT);
        let find = |name: &str| records.iter().find(|record| record.name.ends_with(name));
        assert_eq!(
            find("test_xrc"),
            Some(&Record::new(
                "tests.test_qp.QPTest.test_xrc",
                Word::Skip,
                "Create XRC QP is not supported"
            ))
        );
        assert_eq!(
            find("test_quote").map(|r| r.reason.as_str()),
            Some("Can't run")
        );
    }

    #[test]
    fn a_suite_cut_short_has_no_count() {
        assert_eq!(ran("test_a (m.C.test_a) ... ok\n"), None);
    }
}
