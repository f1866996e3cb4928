//! Parsing the output of `cargo test`.
#![forbid(unsafe_code)]

use crate::report::Tally;

/// Counts the tests of every binary; `ended_well` is cargo's exit status.
pub fn tally(text: &str, ended_well: bool) -> Tally {
    let mut tally = Tally::default();
    for line in text.lines() {
        let Some((name, result)) = test_line(line) else {
            continue;
        };
        match result.split_once(',') {
            Some(("ignored", reason)) => tally.skip(reason.trim()),
            _ if result == "ignored" => tally.skip(name),
            _ if result == "FAILED" => tally.fail(with_output(text, name)),
            // Passed, or a line that output past the harness broke in two: the summaries count.
            _ => {}
        }
    }
    let (passed, failed) = text
        .lines()
        .filter_map(summary)
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    tally.passed = passed;
    for _ in tally.failures.len()..failed {
        tally.fail("a test whose line was broken; see the log");
    }
    if !ended_well && tally.failures.is_empty() {
        tally.fail("cargo test ended with an error; see its log");
    }
    if ended_well && tally.passed == 0 {
        tally.fail("cargo test ran no test");
    }
    tally
}

/// The name of a failed test with the last lines of its output, for the end of the report, because
/// recorders of long runs often keep only the end.
fn with_output(text: &str, name: &str) -> String {
    const LINES: usize = 12;
    let head = format!("---- {name} stdout ----");
    let output = text.lines().skip_while(|line| *line != head).skip(1);
    let lines: Vec<&str> = output
        .take_while(|line| !line.starts_with("---- ") && *line != "failures:")
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    let mut described = name.to_owned();
    for line in last {
        described.push_str("\n    ");
        described.push_str(line);
    }
    described
}

fn test_line(line: &str) -> Option<(&str, &str)> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    Some((name, result.trim()))
}

/// Passed and failed tests of one binary.
fn summary(line: &str) -> Option<(usize, usize)> {
    let rest = line.strip_prefix("test result: ")?;
    let (_, rest) = rest.split_once(". ")?;
    let (passed, rest) = rest.split_once(" passed; ")?;
    let (failed, _) = rest.split_once(" failed;")?;
    Some((passed.parse().ok()?, failed.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
running 4 tests
test a::b ... ok
test slow ... ignored, needs a device
test old ... ignored
test c ... FAILED

test result: FAILED. 1 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s
running 1 test
test d - should panic ... ok
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    #[test]
    fn every_binary_counts() {
        let tally = tally(TEXT, false);
        assert_eq!(tally.passed, 2);
        assert_eq!(tally.failures, ["c"]);
        assert_eq!(
            tally.skips.keys().collect::<Vec<_>>(),
            ["needs a device", "old"]
        );
    }

    #[test]
    fn a_failed_test_is_listed_with_the_end_of_its_output() {
        let many: String = (0..20).map(|line| format!("line {line}\n")).collect();
        let text = format!(
            "test c ... FAILED\ntest d ... FAILED\n\nfailures:\n\n---- c stdout ----\n\n{many}\n\
             ---- d stdout ----\npanicked\n\nfailures:\n    c\n    d\n\n\
             test result: FAILED. 0 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; \
             finished in 0.00s\n"
        );
        let failures = tally(&text, false).failures;
        let [c, d] = &failures[..] else {
            panic!("{failures:?}");
        };
        assert!(
            c.starts_with("c\n    line 8\n") && c.ends_with("\n    line 19"),
            "{c}"
        );
        assert_eq!(d, "d\n    panicked");
    }

    #[test]
    fn a_broken_line_is_counted_by_the_summary() {
        let text = "\
test a ... libibverbs: ok
test b ... Warning: FAILED
test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";
        let tally = tally(text, false);
        assert_eq!(tally.passed, 1);
        assert_eq!(tally.failures.len(), 1);
    }

    #[test]
    fn a_build_error_is_a_failure() {
        assert_eq!(tally("error: could not compile", false).failures.len(), 1);
    }

    #[test]
    fn no_test_at_all_is_a_failure() {
        assert_eq!(tally("", true).failures.len(), 1);
    }
}
