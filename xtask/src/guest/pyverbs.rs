//! rdma-core's tests, and parsing the output of Python's unittest about them.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::{
    case::Stage,
    place::{Surroundings, sources_are_seen},
    process::Process,
};
use crate::{
    chroot::Chroot,
    debian_deps::RDMA_CORE_TESTS,
    record::{Record, Verdict},
    suites::{Pyverbs, uroce_ways::IN_SYSFS},
};

const PYTHON: &str = "/usr/bin/python3";
/// The script for the suite of a later release.
const LATER: &str = "pyverbs_later.py";

/// The name of the result that the suite has if it did not come to its end.
pub const CUT_SHORT: &str = "summary";

/// All tests together take half a minute in emulation.
const BOUND: Duration = Duration::from_secs(900);

/// Runs the suite on the device of a place.
pub fn run(stage: &Stage, place: &Surroundings, which: Pyverbs) -> Result<Vec<Record>> {
    let mut command = match which {
        Pyverbs::AnyDevice | Pyverbs::ConnectionManager => here(place, which)?,
        Pyverbs::Of(chroot) => inside(place, &chroot)?,
    };
    command.args(["-v", "--dev", place.target.device]);
    command.envs(stage.env.iter().copied());
    command.envs(stage.paths.iter().cloned());
    stage.witness.attend(&mut command);
    let log = stage.logs.join("output");
    let mut process = Process::start(&mut command, &log)?;
    process.wait(BOUND)?;
    process.stop()?;
    let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    let mut records = parse(&text);
    if let Some(wrong) = stage.witness.verdict(1)? {
        records.push(Record::new("library", Verdict::WrongLibrary, wrong));
    }
    if ran(&text) != Some(records.len()) {
        let reason = "the suite did not come to its end, or its output was not understood";
        records.push(Record::new(CUT_SHORT, Verdict::Fail, reason));
    }
    Ok(records)
}

/// The suite of the machine's release.
fn here(place: &Surroundings, which: Pyverbs) -> Result<Command> {
    let home = unpack(Path::new(RDMA_CORE_TESTS), &place.room.join("rdma-core"))?;
    let helpers = &place.target.helpers;
    let runner = match which {
        Pyverbs::ConnectionManager => helpers.join("pyverbs_cm.py"),
        _ if sources_are_seen() => helpers.join(LATER),
        _ => home.join("tests/run_tests.py"),
    };
    let mut command = Command::new(PYTHON);
    command.arg("-B").arg(runner).current_dir(home);
    Ok(command)
}

/// The suite of another release, in its chroot. Where the kernel does not know the device, it is
/// shown as if the kernel did: the suite finds a device's network interface by rdma(8).
fn inside(place: &Surroundings, chroot: &Chroot) -> Result<Command> {
    let tests = Chroot::root(&chroot.shown_in(place.dir)).join("usr/share/doc/rdma-core/tests");
    let home = unpack(&tests, &place.room.join(chroot.directory()))?;
    let helpers = &place.target.helpers;
    // The checkout is not seen from there.
    fs::copy(helpers.join(LATER), home.join(LATER)).context(LATER)?;
    let mut command = Command::new(helpers.join("in-chroot"));
    command.arg(chroot.directory());
    if !place.target.connection_manager {
        let script = home.join("uroce-sysfs");
        fs::copy(IN_SYSFS, &script).context(IN_SYSFS)?;
        command.arg(script);
    }
    command.args([PYTHON, "-B", LATER]).current_dir(home);
    Ok(command)
}

/// The tests in this directory, unpacked below `home`, where one can write; returns that.
fn unpack(from: &Path, home: &Path) -> Result<PathBuf> {
    let home = home.to_owned();
    let tests = home.join("tests");
    if tests.exists() {
        return Ok(home);
    }
    fs::create_dir_all(&tests)?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
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
/// A test's output may be between the dots and the result, including line ends.
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
            records.push(Record::new(
                unfinished,
                Verdict::Fail,
                "no result was printed",
            ));
        }
        let Some((verdict, reason)) = result(line) else {
            continue;
        };
        if let Some(name) = open.take() {
            records.push(Record::new(name, verdict, reason));
        }
    }
    let unfinished = open.map(|name| Record::new(name, Verdict::Fail, "no result was printed"));
    records.extend(unfinished);
    explain(&mut records, text);
    records
}

/// Adds the exceptions of failed tests to their results, and everything that such a test printed.
/// Tests that start processes print the errors of those, and raise an exception that names none.
fn explain(records: &mut [Record], text: &str) {
    for record in records.iter_mut().filter(|r| r.verdict == Verdict::Fail) {
        let reason = [
            Some(record.reason.clone()),
            exception(text, &record.name),
            printed(text, &record.name),
        ];
        let reason: Vec<_> = reason.into_iter().flatten().collect();
        *record = Record::new(&record.name, record.verdict, reason.join("; "));
    }
}

/// The last line of the traceback of a test.
fn exception<'a>(text: &'a str, name: &str) -> Option<String> {
    let ended = |line: &&str| line.starts_with("======") || line.starts_with("Ran ");
    let is_of = |line: &&str| {
        let rest = ["FAIL: ", "ERROR: "].map(|kind| line.strip_prefix(kind));
        rest.into_iter()
            .flatten()
            .filter_map(heading)
            .any(|own| own == name)
    };
    let report = text.lines().skip_while(|line| !line.starts_with("======"));
    let traceback = report
        .skip_while(|line| !is_of(line))
        .take_while(|line| !ended(line));
    let has_text = |line: &&'a str| !line.trim().is_empty() && !line.starts_with("-----");
    let last = traceback.skip(1).filter(has_text).last()?;
    Some(last.to_owned())
}

/// What a test printed between its name and its result, in whole lines.
fn printed(text: &str, name: &str) -> Option<String> {
    let results = text.lines().take_while(|line| !line.starts_with("======"));
    let from = results.skip_while(|line| heading(line).as_deref() != Some(name));
    let own = from.skip(1).take_while(|line| heading(line).is_none());
    let lines: Vec<_> = own.filter(|line| result(line).is_none()).collect();
    (!lines.is_empty()).then(|| lines.join(" "))
}

/// The full name in a line that begins a test.
fn heading(line: &str) -> Option<String> {
    let (name, rest) = line.split_once(" (")?;
    let (path, after) = rest.split_once(')')?;
    let own = name == "setUpClass" || path.ends_with(&format!(".{name}"));
    (own && (after.is_empty() || after.starts_with(" ... "))).then(|| path.to_owned())
}

/// The result that a line ends with: after the dots, or alone when a test printed in between.
fn result(line: &str) -> Option<(Verdict, String)> {
    let printed = match line.rsplit_once(" ... ") {
        Some((_, printed)) => printed,
        None => line,
    };
    if let Some(at) = printed.find("skipped ") {
        let reason = printed.get(at..)?.strip_prefix("skipped ")?;
        return quoted(reason).map(|reason| (Verdict::Skip, reason.to_owned()));
    }
    match printed.trim() {
        "ok" => Some((Verdict::Ok, String::new())),
        "FAIL" => Some((Verdict::Fail, "FAIL".into())),
        "ERROR" => Some((Verdict::Fail, "ERROR".into())),
        "expected failure" => Some((Verdict::Ok, String::new())),
        "unexpected success" => Some((Verdict::Fail, "unexpected success".into())),
        _ => None,
    }
}

/// The text in Python's quotes of either kind.
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
Says more ... Player active got: Bad file descriptor
FAIL
test_worse (tests.test_qp.QPTest.test_worse) ... ERROR
test_crash (tests.test_qp.QPTest.test_crash) ... 
======================================================================
FAIL: test_bad (tests.test_qp.QPTest.test_bad)
Says more ... ok
----------------------------------------------------------------------
Traceback (most recent call last):
  File \"test_qp.py\", line 7, in test_bad
Exception: Exception in active side occurred

======================================================================
ERROR: test_worse (tests.test_qp.QPTest.test_worse)
----------------------------------------------------------------------
Traceback (most recent call last):
OSError: [Errno 9] Bad file descriptor

----------------------------------------------------------------------
Ran 7 tests in 14.801s

FAILED (failures=1, errors=1, skipped=2)
";

    #[test]
    fn each_test_has_its_result() {
        let words: Vec<_> = parse(TEXT)
            .into_iter()
            .map(|record| record.verdict)
            .collect();
        use Verdict::{Fail, Ok, Skip};
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
                Verdict::Skip,
                "Create XRC QP is not supported"
            ))
        );
        assert_eq!(
            find("test_quote").map(|r| r.reason.as_str()),
            Some("Can't run")
        );
    }

    #[test]
    fn a_failure_has_its_exception_and_the_output_of_its_processes() {
        let records = parse(TEXT);
        let reason = |name: &str| {
            let record = records.iter().find(|record| record.name.ends_with(name));
            record.map(|record| record.reason.as_str())
        };
        assert_eq!(
            reason("test_bad"),
            Some(
                "FAIL; Exception: Exception in active side occurred; \
                 Says more ... Player active got: Bad file descriptor"
            )
        );
        assert_eq!(
            reason("test_worse"),
            Some("ERROR; OSError: [Errno 9] Bad file descriptor")
        );
        assert_eq!(reason("test_crash"), Some("no result was printed"));
    }

    #[test]
    fn a_suite_cut_short_has_no_count() {
        assert_eq!(ran("test_a (m.C.test_a) ... ok\n"), None);
    }
}
