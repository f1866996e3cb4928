//! Counting, and the table at the end.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use crate::{excused::Excused, progress::Progress};

/// The results of one stage.
#[derive(Debug, Default)]
pub struct Tally {
    pub passed: usize,
    pub failures: Vec<String>,
    /// Reason to number of tests.
    pub skips: BTreeMap<String, usize>,
}

impl Tally {
    /// One test, which has passed.
    pub fn one() -> Self {
        Self {
            passed: 1,
            ..Self::default()
        }
    }

    /// The counts of `stage`; an error that ends it is a failure, or a skip if it is excused.
    pub fn of(stage: &str, run: impl FnOnce(&mut Self) -> anyhow::Result<()>) -> Self {
        let mut tally = Self::default();
        if let Err(error) = run(&mut tally) {
            tally.end(stage, &error);
        }
        tally
    }

    /// Counts the error that ends `stage`.
    pub fn end(&mut self, stage: &str, error: &anyhow::Error) {
        if error.is::<Excused>() {
            self.skip(&format!("{error:#}"));
        } else {
            self.fail(format!("{stage}: {error:#}"));
        }
    }

    /// One failure.
    pub fn failure(what: impl Into<String>) -> Self {
        Self {
            failures: vec![what.into()],
            ..Self::default()
        }
    }

    pub fn fail(&mut self, what: impl Into<String>) {
        self.failures.push(what.into());
    }

    pub fn skip(&mut self, reason: &str) {
        let reason = if reason.is_empty() {
            "no reason given"
        } else {
            reason
        };
        *self.skips.entry(reason.to_owned()).or_default() += 1;
    }

    /// Adds another part of the same stage.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failures.extend(other.failures);
        for (reason, number) in other.skips {
            *self.skips.entry(reason).or_default() += number;
        }
    }

    pub fn skipped(&self) -> usize {
        self.skips.values().sum()
    }
}

/// A stage that has ended.
pub struct Row {
    pub stage: String,
    pub took: Duration,
    pub tally: Tally,
}

impl Row {
    pub fn new(stage: impl Into<String>, took: Duration, tally: Tally) -> Self {
        Self {
            stage: stage.into(),
            took,
            tally,
        }
    }

    pub fn failed(&self) -> bool {
        !self.tally.failures.is_empty()
    }
}

#[derive(Default)]
pub struct Report {
    rows: Vec<Row>,
    progress: Progress,
}

impl Report {
    /// Of the stages that will run.
    pub fn of(progress: Progress) -> Self {
        if let Some(line) = progress.begin() {
            println!("{line}");
        }
        Self {
            progress,
            ..Self::default()
        }
    }

    /// Adds a stage, and prints its result and the remaining ones.
    pub fn add(&mut self, row: Row) {
        println!(
            "== {}: {} in {} s",
            row.stage,
            counts(&row.tally),
            row.took.as_secs_f32().round()
        );
        for failure in &row.tally.failures {
            println!("   FAILED {failure}");
        }
        if let Some(line) = self.progress.end(&row.stage, row.took) {
            println!("{line}");
        }
        self.rows.push(row);
    }

    pub fn failed(&self) -> bool {
        self.rows.iter().any(Row::failed)
    }

    pub fn has_failed(&self, stage: &str) -> bool {
        let mut rows = self.rows.iter().filter(|row| row.stage == stage);
        rows.any(Row::failed)
    }

    /// Reasons of skips, a table by stage, failures, and the line of totals.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.skips(&mut text);
        self.table(&mut text);
        // Last, because recorders of long runs often keep only the end.
        self.failures(&mut text);
        let sum = |of: fn(&Tally) -> usize| self.rows.iter().map(|row| of(&row.tally)).sum();
        let skipped: usize = sum(Tally::skipped);
        let passed: usize = sum(|tally| tally.passed);
        let failed: usize = sum(|tally| tally.failures.len());
        let _ = write!(text, "{passed} passed, {failed} failed");
        if skipped > 0 {
            let _ = write!(text, ", {skipped} skipped");
        }
        text
    }

    fn skips(&self, text: &mut String) {
        for row in self.rows.iter().filter(|row| !row.tally.skips.is_empty()) {
            let _ = writeln!(text, "skipped in {}:", row.stage);
            for (reason, number) in &row.tally.skips {
                let _ = writeln!(text, "  {number:4} x {reason}");
            }
        }
    }

    fn failures(&self, text: &mut String) {
        let failed = |row: &&Row| !row.tally.failures.is_empty();
        for row in self.rows.iter().filter(failed) {
            let _ = writeln!(text, "failed in {}:", row.stage);
            for failure in &row.tally.failures {
                let _ = writeln!(text, "  {failure}");
            }
        }
    }

    fn table(&self, text: &mut String) {
        let wide = self.rows.iter().map(|row| row.stage.len()).max();
        let wide = wide.unwrap_or_default().max(5);
        let _ = writeln!(
            text,
            "{:wide$} {:>7} {:>7} {:>7} {:>7}",
            "stage", "passed", "failed", "skipped", "seconds"
        );
        for row in &self.rows {
            let _ = writeln!(
                text,
                "{:wide$} {:7} {:7} {:7} {:7.0}",
                row.stage,
                row.tally.passed,
                row.tally.failures.len(),
                row.tally.skipped(),
                row.took.as_secs_f32()
            );
        }
    }
}

fn counts(tally: &Tally) -> String {
    format!(
        "{} passed, {} failed, {} skipped",
        tally.passed,
        tally.failures.len(),
        tally.skipped()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_stage_add_up() {
        let mut part = Tally {
            passed: 2,
            ..Tally::default()
        };
        part.fail("x");
        part.skip("no device");
        let mut whole = Tally::default();
        whole.skip("no device");
        whole.add(part);
        assert_eq!((whole.passed, whole.failures.len()), (2, 1));
        assert_eq!(whole.skipped(), 2);
        assert_eq!(whole.skips.len(), 1);
    }

    #[test]
    fn the_last_line_is_the_totals() {
        let mut report = Report::default();
        let mut tally = Tally {
            passed: 2,
            ..Tally::default()
        };
        report.add(Row::new("a", Duration::ZERO, tally));
        assert!(report.text().ends_with("\n2 passed, 0 failed"));
        tally = Tally::default();
        tally.fail("x");
        tally.skip("no device");
        tally.skip("no device");
        report.add(Row::new("b", Duration::ZERO, tally));
        let text = report.text();
        assert!(text.contains("2 x no device"));
        assert!(text.ends_with("failed in b:\n  x\n2 passed, 1 failed, 2 skipped"));
        assert!(report.failed() && report.has_failed("b") && !report.has_failed("a"));
    }
}
