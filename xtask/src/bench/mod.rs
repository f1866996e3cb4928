//! `cargo xtask bench`: this library and the stock one, the same work in turn.
//!
//! Work that needs a device is done in the virtual machine, fork protection on this machine. Every
//! row has the figures of both libraries and the bound of their ratio; a row above its bound ends
//! the command with an error.
#![forbid(unsafe_code)]

mod callgrind;
mod figures;
mod fork;
pub mod guest;
mod machine;
pub mod observe;
mod plot;
mod programs;
pub mod rdmacm;
mod row;
pub mod rxe;
pub mod sample;
mod table;
pub mod uroce;

use std::{fs, process::ExitCode};

use anyhow::{Context, Result, bail};

use crate::{
    debian_deps::{self, Machine},
    dirs::Dirs,
    guest::copy_to_ram,
    options::{self, Part},
    vm::{self, Job},
};
use programs::Bench;
use row::{Figure, Row, Side, Unit};

/// A document with figures.
struct Paper {
    document: &'static str,
    introduction: &'static str,
}

const PAPER: Paper = Paper {
    document: "docs/benchmarks.md",
    introduction: INTRODUCTION,
};

const INTRODUCTION: &str = "\
# Benchmarks
This page compares this library with rdma-core's. Both do the same work in turn, in one run \
of

    cargo xtask bench --write

The command measures, fails if a row is above its bound, and writes this file.

*Instructions* are those of the program and all its libraries in user space, counted by \
callgrind; *time* is wall-clock time. Figures are medians, and the ratio is that of the \
medians. A count above its bound fails. A time with a bound below 1 fails if it is above the \
bound. A time with bound 1 fails if its median is above the bound, and it is above in so \
many rounds that chance (sign test, 0.1 %) does not explain it: in most of these rows the \
kernel takes nearly all of the time for both libraries, and their medians vary by chance. \
The last column counts the rounds in which this library was above the bound.

*Start* and *Create and destroy* ran in the virtual machine, which is emulated: its times \
can be compared with each other, but have no meaning by themselves. *Start* is a program \
that loads the library with dlopen(3), lists devices for the first time (which loads the \
providers), opens the device and closes it. The emulator translates code when it first runs, \
and again for each process that has it at other addresses. Most of the time of a first call \
is this translation, which a physical machine does not have. Therefore the start is also \
measured with programs and libraries at the same addresses each time (setarch(8), \
`--addr-no-randomize`), so that translated code is reused. Both libraries, the programs and \
the providers are in the machine's memory, because its other files come from the host. \
*Create and destroy* is a cycle of both; registered memory is 64 KiB. Each round has one \
more mapping than the one before, for both libraries, because the kernel's time to map and \
unmap a queue depends on the number of mappings.

*Fork protection* ran on the machine itself, by `ibv_dontfork_range` and `ibv_dofork_range`. \
Its kernel does not report that it copies registered pages at fork, so pages are marked. One \
operation releases a random range and protects another one in its place. Overlapping ranges \
have 1 to 32 pages, and each page lies in four of them on average; disjoint ranges have 4 \
pages.
";

pub fn run(options: &options::Bench) -> Result<ExitCode> {
    let dirs = Dirs::find()?;
    let machine = debian_deps::provide(&dirs)?;
    // Checked before the work, which takes minutes in which the sources may change.
    let described = machine::describe(&dirs, &machine);
    vm::build_library(&dirs)?;
    let before = options.before.as_deref();
    if let Some(before) = before {
        println!(
            "-- {} is measured in place of the stock library",
            before.display()
        );
    }
    let built = dirs.library()?.join("libibverbs.so.1");
    let bench = programs::prepare(&dirs, &built, before)?;
    let mut figures = Vec::new();
    if options.part != Some(Part::Fork) {
        figures.extend(in_the_guest(&dirs, &machine, &bench, &Job::Bench)?);
    }
    if options.part != Some(Part::Guest) {
        println!("-- fork protection, on this machine");
        fork::measure(&bench, |figure| figures.push(figure))?;
    }
    for side in [Side::Stock, Side::Ours] {
        figures.push(size(&bench, side)?);
    }
    let mut rows = Row::gather(figures);
    rows.sort_by_key(|row| row.table == guest::MEMORY);
    if before.is_some() {
        return findings(&rows, |_| 1.0).publish(&dirs, &described, false, &PAPER);
    }
    report(&dirs, &described, options.write, &rows, &PAPER)
}

fn in_the_guest(dirs: &Dirs, machine: &Machine, bench: &Bench, job: &Job) -> Result<Vec<Figure>> {
    println!("-- booting {} for the bench", machine.kernel.display());
    let dir = bench.dir();
    copy_to_ram::list(&[], dir)?;
    let log = dirs.work.join("bench.log");
    let outcome = vm::boot(dirs, machine, dir, job, &log, true)?;
    if !outcome.status.success() {
        bail!("the bench failed; see {}", log.display());
    }
    figures::read(dir)
}

fn size(bench: &Bench, side: Side) -> Result<Figure> {
    let path = bench.library(side);
    let meta = fs::metadata(&path).with_context(|| path.display().to_string())?;
    #[expect(
        clippy::cast_precision_loss,
        reason = "files are smaller than 2^52 bytes"
    )]
    let value = meta.len() as f64 / 1024.0;
    Ok(Figure {
        table: guest::MEMORY.to_owned(),
        row: "libibverbs.so.1, stripped".to_owned(),
        unit: Unit::Kibibytes,
        side,
        value,
    })
}

/// The most that ours may be of the stock library's.
fn bound(row: &Row) -> f64 {
    let pattern = fork::PATTERNS
        .iter()
        .find(|pattern| pattern.table == row.table);
    pattern.map_or(1.0, |pattern| pattern.bound)
}

fn report(
    dirs: &Dirs,
    machine: &[(&str, String)],
    write: bool,
    rows: &[Row],
    paper: &Paper,
) -> Result<ExitCode> {
    findings(rows, bound).publish(dirs, machine, write, paper)
}

fn findings(rows: &[Row], bound: impl Fn(&Row) -> f64) -> Findings {
    Findings {
        rows: rows.len(),
        faults: rows.iter().flat_map(|row| row.faults(bound(row))).collect(),
        tables: table::tables(rows, bound),
    }
}

/// The result of a bench.
struct Findings {
    rows: usize,
    tables: String,
    /// The rows above their bounds.
    faults: Vec<String>,
}

impl Findings {
    /// Prints them, and writes the document if that is wanted.
    fn publish(
        &self,
        dirs: &Dirs,
        machine: &[(&str, String)],
        write: bool,
        paper: &Paper,
    ) -> Result<ExitCode> {
        println!("\n{}", self.tables);
        if write {
            let path = dirs.root.join(paper.document);
            let text = document(paper, machine, &self.tables, &self.faults);
            fs::write(&path, text).with_context(|| path.display().to_string())?;
            println!("written to {}", path.display());
        }
        for fault in &self.faults {
            println!("ABOVE ITS BOUND {fault}");
        }
        println!("{} rows, {} faults", self.rows, self.faults.len());
        Ok(match self.faults.is_empty() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        })
    }
}

fn document(paper: &Paper, machine: &[(&str, String)], tables: &str, faults: &[String]) -> String {
    let mut text = paper.introduction.to_owned();
    text.push_str("\n| | |\n| --- | --- |\n");
    for (name, value) in machine {
        text.push_str(&format!("| {name} | {value} |\n"));
    }
    text.push('\n');
    text.push_str(tables);
    text.push_str("## Above their bounds\n");
    if faults.is_empty() {
        text.push_str("None.\n");
    }
    for fault in faults {
        text.push_str(&format!("- {fault}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_finds_its_bound() {
        let row = |table: &str| Row {
            table: table.to_owned(),
            name: String::new(),
            figures: std::collections::BTreeMap::new(),
        };
        for pattern in &fork::PATTERNS {
            assert_eq!(bound(&row(pattern.table)), pattern.bound);
        }
        assert_eq!(bound(&row(guest::OBJECTS)), 1.0);
    }

    #[test]
    fn the_document_names_rows_above_their_bound() {
        let text = document(&PAPER, &[("processor", "x".to_owned())], "## T\n", &[]);
        assert!(text.contains("| processor | x |"));
        assert!(text.ends_with("None.\n"));
        let text = document(&PAPER, &[], "", &["T, r: time 2".to_owned()]);
        assert!(text.ends_with("- T, r: time 2\n"));
    }
}
