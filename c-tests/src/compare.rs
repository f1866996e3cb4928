//! Holds every record against the reference: the program compiled by gcc
//! against the stock headers, on the stock library.

use std::fmt::Write as _;

use similar::TextDiff;

use crate::{
    record::Record,
    tree::{Program, Set},
};

/// The outcome of [`compare`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Records that are as they have to be.
    pub agree: usize,
    /// A paragraph for each that is not.
    pub differences: Vec<String>,
}

/// The compilation that the reference file is read by.
pub const REFERENCE: &str = "stock-gcc";

/// Compares all records of all files. `reference` is a run on the stock
/// library; `others` are runs on whatever library.
///
/// A record agrees when the program ended with `exit 0`, printed something, and printed the same as
/// the reference record of the same program. A program that runs only on our library has no
/// reference; its exit status decides.
/// A program of `sets` that a file of `others` lacks in some compilation is a difference.
#[must_use]
pub fn compare(reference: &[Record], others: &[Vec<Record>], sets: &[Set]) -> Report {
    let mut report = Report::default();
    let expected: Vec<&Record> = reference.iter().filter(|r| r.combo == REFERENCE).collect();
    for record in reference.iter().chain(others.iter().flatten()) {
        judge(&mut report, &expected, record);
    }
    let asked = |r: &Record| Program::from_key(&r.program).is_some_and(|p| sets.contains(&p.set));
    let asked: Vec<&Record> = expected.iter().copied().filter(|r| asked(r)).collect();
    for file in others {
        note_missing(&mut report, &asked, file);
    }
    report
}

fn judge(report: &mut Report, expected: &[&Record], record: &Record) {
    let title = format!("{} {} on {}", record.combo, record.program, record.library);
    if record.status != "exit 0" || record.stdout.is_empty() {
        let mut words = format!("{title}: {}\n", record.status);
        for line in record.stdout.iter().rev().take(5).rev() {
            let _ = writeln!(words, "  {line}");
        }
        for line in &record.stderr {
            let _ = writeln!(words, "  {line}");
        }
        report.differences.push(words);
        return;
    }
    if Program::from_key(&record.program).is_some_and(|program| program.set.is_ours()) {
        report.agree += 1;
        return;
    }
    let Some(wanted) = expected.iter().find(|r| r.program == record.program) else {
        report.differences.push(format!("{title}: no reference\n"));
        return;
    };
    if wanted.stdout == record.stdout {
        report.agree += 1;
        return;
    }
    report
        .differences
        .push(format!("{title}:\n{}", unified(wanted, record)));
}

fn unified(wanted: &Record, found: &Record) -> String {
    let join = |lines: &[String]| lines.iter().map(|l| format!("{l}\n")).collect::<String>();
    let (wanted, found) = (join(&wanted.stdout), join(&found.stdout));
    TextDiff::from_lines(&wanted, &found)
        .unified_diff()
        .context_radius(2)
        .header("reference", "found")
        .to_string()
}

fn is_of(set: Set) -> impl Fn(&Record) -> bool {
    move |record| Program::from_key(&record.program).is_some_and(|program| program.set == set)
}

fn note_missing(report: &mut Report, expected: &[&Record], file: &[Record]) {
    let mut combos: Vec<&str> = file.iter().map(|r| r.combo.as_str()).collect();
    combos.dedup();
    for combo in combos {
        for wanted in expected {
            // A run over the write interface has no record of the one set at all, a run without
            // librdmacm none of the other.
            let left_out = |set| is_of(set)(wanted) && !file.iter().any(is_of(set));
            if left_out(Set::Ioctl) || left_out(Set::Rdmacm) {
                continue;
            }
            let there = file
                .iter()
                .any(|r| r.combo == combo && r.program == wanted.program);
            if !there {
                report
                    .differences
                    .push(format!("{combo} {}: not run\n", wanted.program));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(program: &str, status: &str, line: &str) -> Record {
        Record {
            combo: REFERENCE.into(),
            program: program.into(),
            library: "/l".into(),
            status: status.into(),
            stdout: vec![line.into()],
            stderr: Vec::new(),
        }
    }

    #[test]
    fn equal_output_agrees_and_unequal_shows_both_lines() {
        let stock = [
            record("no_device/a", "exit 0", "x"),
            record("no_device/b", "exit 0", "y"),
        ];
        let ours = vec![
            record("no_device/a", "exit 0", "x"),
            record("no_device/b", "exit 0", "z"),
        ];
        let report = compare(&stock, &[ours], &Set::ALL);
        assert_eq!(report.agree, 3);
        assert_eq!(report.differences.len(), 1);
        assert!(report.differences[0].contains("-y\n+z\n"));
    }

    #[test]
    fn a_crash_on_both_is_no_agreement() {
        let stock = [record("no_device/a", "signal 11", "x")];
        let report = compare(&stock, &[stock.to_vec()], &Set::ALL);
        assert_eq!((report.agree, report.differences.len()), (0, 2));
    }

    #[test]
    fn a_program_not_run_is_a_difference() {
        let stock = [
            record("no_device/a", "exit 0", "x"),
            record("no_device/b", "exit 0", "y"),
        ];
        let report = compare(
            &stock,
            &[vec![record("no_device/a", "exit 0", "x")]],
            &Set::ALL,
        );
        assert_eq!(report.differences, ["stock-gcc no_device/b: not run\n"]);
    }

    #[test]
    fn sets_that_were_not_asked_for_are_not_missing() {
        let stock = [
            record("no_device/a", "exit 0", "x"),
            record("rxe/b", "exit 0", "y"),
            record("man/c", "exit 0", "z"),
        ];
        let ours = [vec![record("rxe/b", "exit 0", "y")]];
        assert_eq!(compare(&stock, &ours, &[Set::Rxe]).differences.len(), 0);
        let two = compare(&stock, &ours, &[Set::Rxe, Set::Man]);
        assert_eq!(two.differences, ["stock-gcc man/c: not run\n"]);
    }

    #[test]
    fn a_run_without_ioctl_lacks_that_set_and_no_part_of_it() {
        let stock = [
            record("no_device/a", "exit 0", "x"),
            record("ioctl/b", "exit 0", "y"),
            record("ioctl/c", "exit 0", "z"),
        ];
        let none = vec![record("no_device/a", "exit 0", "x")];
        assert_eq!(compare(&stock, &[none], &Set::ALL).differences.len(), 0);
        let part = vec![
            record("no_device/a", "exit 0", "x"),
            record("ioctl/b", "exit 0", "y"),
        ];
        assert_eq!(compare(&stock, &[part], &Set::ALL).differences.len(), 1);
    }

    #[test]
    fn criteria_need_no_reference() {
        let stock = [record("no_device/a", "exit 0", "x")];
        let ours = vec![
            record("no_device/a", "exit 0", "x"),
            record("self_checking/c", "exit 0", "c"),
        ];
        assert_eq!(compare(&stock, &[ours], &Set::ALL).differences.len(), 0);
        let failed = vec![
            record("no_device/a", "exit 0", "x"),
            record("self_checking/c", "exit 1", "c"),
        ];
        assert_eq!(compare(&stock, &[failed], &Set::ALL).differences.len(), 1);
    }
}
