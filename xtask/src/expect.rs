//! Holding results against the expected list of a suite.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::{
    record::{Record, Verdict, parse_list},
    report::Tally,
};

fn path(dir: &Path, suite: &str) -> PathBuf {
    dir.join(format!("{suite}.tsv"))
}

/// Whether there is a list of this name.
pub fn exists(dir: &Path, suite: &str) -> bool {
    path(dir, suite).exists()
}

pub fn load(dir: &Path, suite: &str) -> Result<Vec<Record>> {
    let path = path(dir, suite);
    let text =
        fs::read_to_string(&path).with_context(|| format!("expected list {}", path.display()))?;
    parse_list(&text).with_context(|| path.display().to_string())
}

/// Writes the results of the stock library as the expected list of a suite in the virtual machine.
pub fn bless(dir: &Path, suite: &str, list: &str, device: &str, results: &[Record]) -> Result<()> {
    let head = format!(
        "# What the suite {suite} gives over Debian's own libibverbs on {device}, Linux 6.1.\n\
         # Made by: cargo xtask test --only guest:{suite} --stock --bless\n"
    );
    write(dir, list, &head, results)
}

/// Writes the results of uroce on `peer` as the expected list of the suite of a stage. Failures are
/// not expected: there is no other library here whose failures it could share.
pub fn bless_uroce(
    dir: &Path,
    suite: &str,
    stage: &str,
    peer: &str,
    results: &[Record],
) -> Result<()> {
    if let Some(bad) = results.iter().find(|r| r.verdict == Verdict::Fail) {
        bail!("not a result to expect: {bad}");
    }
    let head = format!(
        "# What the suite {suite} gives over uroce {peer}.\n\
         # Made by: cargo xtask test --only {stage} --bless\n"
    );
    write(dir, suite, &head, results)
}

fn write(dir: &Path, suite: &str, head: &str, results: &[Record]) -> Result<()> {
    let bad = results
        .iter()
        .find(|r| matches!(r.verdict, Verdict::Hung | Verdict::WrongLibrary));
    if let Some(bad) = bad {
        bail!("not a result to expect: {bad}");
    }
    fs::create_dir_all(dir)?;
    let mut sorted: Vec<_> = results.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let mut text = head.to_owned();
    for record in sorted {
        // The reason of a failure changes from run to run and is not compared.
        let reason = if record.verdict == Verdict::Fail {
            ""
        } else {
            &record.reason
        };
        let line = Record::new(&record.name, record.verdict, reason);
        text.push_str(&format!("{line}\n"));
    }
    let path = path(dir, suite);
    fs::write(&path, text).with_context(|| path.display().to_string())
}

/// Replaces the results of tests by those of another list, whose other tests are added.
pub fn replace(expected: &mut Vec<Record>, others: Vec<Record>) {
    for other in others {
        match expected.iter_mut().find(|record| record.name == other.name) {
            Some(same) => *same = other,
            None => expected.push(other),
        }
    }
}

/// As [`compare`], for a library that may do more than the reference: a test that succeeds
/// unexpectedly is as good.
pub fn compare_at_least(expected: &[Record], results: &[Record]) -> Tally {
    let succeeds = |name: &str| {
        let given = results.iter().find(|result| result.name == name);
        given.filter(|result| result.verdict == Verdict::Ok)
    };
    let expected: Vec<_> = expected
        .iter()
        .map(|wanted| succeeds(&wanted.name).unwrap_or(wanted).clone())
        .collect();
    compare(&expected, results)
}

/// Compares results of a later release of a suite with the list of an older one: a test that
/// succeeded there may not fail, and failures of tests that the list does not contain are reported.
pub fn compare_to_older(expected: &[Record], results: &[Record]) -> Tally {
    let mut tally = Tally::default();
    let succeeded = |name: &str| {
        let mut wanted = expected.iter().filter(|wanted| wanted.name == name);
        wanted.any(|wanted| wanted.verdict == Verdict::Ok)
    };
    for result in results {
        match result.verdict {
            Verdict::Ok | Verdict::Refused => tally.passed += 1,
            Verdict::Skip => tally.skip(&result.reason),
            Verdict::Fail | Verdict::Hung if !succeeded(&result.name) => {
                tally.skip(&format!("{}: fails, and is in no list", result.name));
            }
            Verdict::Fail | Verdict::Hung | Verdict::WrongLibrary => tally.fail(result.to_string()),
        }
    }
    for wanted in expected
        .iter()
        .filter(|wanted| wanted.verdict == Verdict::Ok)
    {
        if !results.iter().any(|result| result.name == wanted.name) {
            tally.skip(&format!("{}: is no more", wanted.name));
        }
    }
    tally
}

/// Compares with a run of the same suite over another library on the same machine: what succeeds
/// there has to succeed. What fails there may fail; so may what that run did not come to, if it
/// ended early.
pub fn compare_with_run(reference: &[Record], results: &[Record], ended_early: bool) -> Tally {
    let mut tally = Tally::default();
    let in_reference = |name: &str| reference.iter().find(|record| record.name == name);
    for result in results {
        let wanted = in_reference(&result.name);
        let succeeds_there = wanted.is_some_and(|wanted| wanted.verdict == Verdict::Ok);
        match result.verdict {
            Verdict::WrongLibrary => tally.fail(result.to_string()),
            Verdict::Ok | Verdict::Refused => tally.passed += 1,
            _ if succeeds_there => tally.fail(format!("{result}: succeeds over the other library")),
            Verdict::Skip => tally.skip(&result.reason),
            _ if wanted.is_some_and(|wanted| wanted.verdict == Verdict::Skip) => {
                tally.skip(&format!(
                    "{}: fails, and is skipped over the stock library",
                    result.name
                ))
            }
            _ if wanted.is_some() => tally.skip(&format!(
                "{}: fails over the stock library too",
                result.name
            )),
            _ if ended_early => tally.skip(&format!(
                "{}: fails, and the run over the stock library ended before it",
                result.name
            )),
            _ => tally.fail(result.to_string()),
        }
    }
    for wanted in reference
        .iter()
        .filter(|wanted| wanted.verdict == Verdict::Ok)
    {
        if !results.iter().any(|result| result.name == wanted.name) {
            tally.fail(format!(
                "{}: expected {}, missing",
                wanted.name, wanted.verdict
            ));
        }
    }
    tally
}

/// Compares; a test missing, a test not listed and a differing result each count as failed.
pub fn compare(expected: &[Record], results: &[Record]) -> Tally {
    let mut tally = Tally::default();
    let mut given: BTreeMap<&str, &Record> = BTreeMap::new();
    for result in results {
        if given.insert(&result.name, result).is_some() {
            tally.fail(format!("{}: reported twice", result.name));
        }
    }
    for wanted in expected {
        match given.remove(wanted.name.as_str()) {
            None => tally.fail(format!(
                "{}: expected {}, missing",
                wanted.name, wanted.verdict
            )),
            Some(result) if !result.agrees_with(wanted) => {
                tally.fail(difference(wanted, result));
            }
            Some(result) => count(&mut tally, result),
        }
    }
    for unknown in given.values() {
        tally.fail(format!("{unknown}: not in the expected list"));
    }
    tally
}

fn count(tally: &mut Tally, result: &Record) {
    match result.verdict {
        Verdict::Ok | Verdict::Refused => tally.passed += 1,
        Verdict::Skip => tally.skip(&result.reason),
        // Expected, so not a regression; but not a success either.
        _ => tally.skip(&format!(
            "{}: fails over the stock library too",
            result.name
        )),
    }
}

fn difference(wanted: &Record, result: &Record) -> String {
    let say = |record: &Record| match record.reason.as_str() {
        "" => record.verdict.to_string(),
        reason => format!("{} ({reason})", record.verdict),
    };
    format!(
        "{}: expected {}, got {}",
        wanted.name,
        say(wanted),
        say(result)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<Record> {
        parse_list(text).unwrap_or_default()
    }

    #[test]
    fn equal_lists_agree() {
        let both = list("a\tok\nb\tskip\tno XRC\nc\tfail\nd\trefused\tEINVAL");
        let tally = compare(&both, &both);
        assert_eq!(
            (tally.passed, tally.failures.len(), tally.skipped()),
            (2, 0, 2)
        );
    }

    #[test]
    fn a_test_has_to_succeed_where_it_did_in_the_other_run() {
        let reference = list("a\tok\nb\tok\nc\tok\nd\tfail\ne\tskip\tno XRC");
        let results = list("a\tok\nb\tfail\nd\tfail\ne\tok\nf\tfail\ng\tskip\tno DM");
        let count = |ended_early| {
            let tally = compare_with_run(&reference, &results, ended_early);
            (tally.passed, tally.failures.len(), tally.skipped())
        };
        // b fails, and c is missing; f is new.
        assert_eq!(count(false), (2, 3, 2));
        assert_eq!(count(true), (2, 2, 3));
        let itself = compare_with_run(&reference, &reference, false);
        assert_eq!((itself.passed, itself.failures.len()), (3, 0));
        let skips = compare_with_run(&list("a\tok"), &list("a\tskip\tno XRC"), true);
        assert_eq!(skips.failures.len(), 1);
    }

    #[test]
    fn missing_new_and_different_tests_fail() {
        let tally = compare(
            &list("a\tok\nb\tok\nc\tskip\tENOSYS"),
            &list("b\tfail\nc\tskip\tEINVAL\nd\tok"),
        );
        assert_eq!(
            (tally.passed, tally.failures.len(), tally.skipped()),
            (0, 4, 0)
        );
    }

    #[test]
    fn a_test_that_became_right_is_a_difference_too() {
        let tally = compare(&list("a\tfail"), &list("a\tok"));
        assert_eq!(tally.failures.len(), 1);
    }

    #[test]
    fn a_library_that_does_more_may_not_do_less_later() {
        let mut expected = list("a\tok\nb\tskip\tno domain\nc\tskip\tno XRC");
        replace(&mut expected, list("b\tok\nd\tok"));
        let more = list("a\tok\nb\tok\nc\tok\nd\tok");
        assert_eq!(compare_at_least(&expected, &more).passed, 4);
        let less = list("a\tok\nb\tskip\tno domain\nc\tskip\tno XRC");
        assert_eq!(compare_at_least(&expected, &less).failures.len(), 2);
    }

    #[test]
    fn a_later_release_may_not_fail_where_an_older_one_succeeded() {
        let older = list("a\tok\nb\tok\nc\tskip\tno XRC\nd\tok");
        let later = list("a\tok\nb\tskip\tENOSYS\nc\tfail\ne\tfail\nf\tok");
        let tally = compare_to_older(&older, &later);
        assert_eq!(
            (tally.passed, tally.failures.len(), tally.skipped()),
            (2, 0, 4)
        );
        let wrong = list("a\tfail\nb\tok\nx\twrong-library");
        assert_eq!(compare_to_older(&older, &wrong).failures.len(), 2);
    }

    #[test]
    fn a_test_reported_twice_fails() {
        let tally = compare(&list("a\tok"), &list("a\tok\na\tok"));
        assert_eq!(tally.failures.len(), 1);
    }

    #[test]
    fn a_hung_test_cannot_be_blessed() {
        let results = list("a\thung");
        assert!(bless(Path::new("/nonexistent"), "s", "s", "rxe", &results).is_err());
    }
}
