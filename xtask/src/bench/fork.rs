//! Fork protection, on this machine: its kernel has no RDMA and so does not report that it copies
//! registered pages at fork, and pages are marked.
#![forbid(unsafe_code)]

use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{
    callgrind,
    programs::Bench,
    row::{Figure, Side, Unit},
};

/// Short runs, so that most are not interrupted by other work of the machine.
const OPERATIONS: u32 = 20_000;
const ROUNDS: usize = 11;
/// Under callgrind; twice as many are counted too, and the difference taken.
const COUNTED: u32 = 2_000;

const RANGES: [u32; 4] = [100, 1_000, 10_000, 30_000];

/// A way in which the ranges lie, as the program calls it, and as the tables do.
pub struct Pattern {
    word: &'static str,
    pub table: &'static str,
    /// The bound of the ratio of ours to the stock library's.
    pub bound: f64,
}

pub const PATTERNS: [Pattern; 2] = [
    Pattern {
        word: "overlap",
        table: "Fork protection, overlapping ranges",
        bound: 0.5,
    },
    Pattern {
        word: "apart",
        table: "Fork protection, disjoint ranges",
        bound: 1.0,
    },
];

/// Measures everything; `each` gets the figures as they come.
pub fn measure(bench: &Bench, mut each: impl FnMut(Figure)) -> Result<()> {
    for pattern in &PATTERNS {
        for threads in [1, 2] {
            for ranges in RANGES {
                let row = Row {
                    pattern,
                    threads,
                    ranges,
                };
                println!("bench: {}, {}", pattern.table, row.name());
                row.times(bench, &mut each)?;
                if threads == 1 {
                    row.counts(bench, &mut each)?;
                }
            }
        }
    }
    Ok(())
}

struct Row<'a> {
    pattern: &'a Pattern,
    threads: u32,
    ranges: u32,
}

impl Row<'_> {
    fn name(&self) -> String {
        let threads = match self.threads {
            1 => "1 thread".to_owned(),
            threads => format!("{threads} threads"),
        };
        format!("{threads}, {} live ranges", thousands(self.ranges))
    }

    fn figure(&self, unit: Unit, side: Side, value: f64) -> Figure {
        Figure {
            table: self.pattern.table.to_owned(),
            row: self.name(),
            unit,
            side,
            value,
        }
    }

    fn words(&self, bench: &Bench, side: Side, operations: u32) -> Vec<String> {
        vec![
            bench.library(side).display().to_string(),
            self.threads.to_string(),
            self.ranges.to_string(),
            operations.to_string(),
            self.pattern.word.to_owned(),
        ]
    }

    fn times(&self, bench: &Bench, each: &mut impl FnMut(Figure)) -> Result<()> {
        for round in 0..ROUNDS {
            for side in Side::in_turn(round) {
                let mut command = Command::new(bench.program("fork"));
                command.args(self.words(bench, side, OPERATIONS));
                let output = command.output().context("the fork program")?;
                let text = String::from_utf8_lossy(&output.stdout);
                if !output.status.success() {
                    let errors = String::from_utf8_lossy(&output.stderr);
                    bail!("the fork program: {}\n{errors}", output.status);
                }
                let took = nanoseconds(&text).with_context(|| format!("no time in {text:?}"))?;
                each(self.figure(Unit::Nanoseconds, side, took));
            }
        }
        Ok(())
    }

    fn counts(&self, bench: &Bench, each: &mut impl FnMut(Figure)) -> Result<()> {
        for side in Side::in_turn(0) {
            let whole = |operations| -> Result<f64> {
                let words = self.words(bench, side, operations);
                let dir = bench.dir().join("callgrind");
                let counts = callgrind::count(&bench.program("fork"), &words, &[], &dir)?;
                Ok(counts.whole)
            };
            let more = whole(2 * COUNTED)? - whole(COUNTED)?;
            each(self.figure(Unit::Instructions, side, more / f64::from(COUNTED)));
        }
        Ok(())
    }
}

fn thousands(number: u32) -> String {
    match (number / 1000, number % 1000) {
        (0, rest) => rest.to_string(),
        (thousands, rest) => format!("{thousands},{rest:03}"),
    }
}

/// The first number after the colon: nanoseconds an operation, by the wall clock.
fn nanoseconds(text: &str) -> Option<f64> {
    let (_, figures) = text.split_once(':')?;
    let mut words = figures.split_whitespace();
    let number = words.next()?.parse().ok()?;
    (words.next()? == "ns").then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_clock_is_read() {
        let line = "overlap  threads 1 ranges    100 operations 20000:    372.7 ns    \
                    2683123/s, processor    370.0 ns, mappings 1 -> 1\n";
        assert_eq!(nanoseconds(line), Some(372.7));
        assert_eq!(nanoseconds("no figures"), None);
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(thousands(100), "100");
        assert_eq!(thousands(30_000), "30,000");
        assert_eq!(thousands(1_005), "1,005");
    }
}
