//! `cargo xtask bench rdmacm`: connections by this project's librdmacm and by rdma-core's, the same
//! work in turn over soft-RoCE in the virtual machine; and over uroce on `lo` in a separate network
//! namespace, where rdma-core's library has no connection manager.
#![forbid(unsafe_code)]

use std::{fmt::Write as _, path::Path, process::Command, process::ExitCode};

use anyhow::{Context, Result};

use super::{
    Findings, Paper, callgrind,
    figures::FigureFile,
    guest::{LIBRARY, MEMORY, lines, per_cycle, witness},
    in_the_guest, machine, programs,
    programs::Bench,
    row::{Figure, Row, Side, Unit},
    sample::median,
    table,
};
use crate::{
    debian_deps,
    dirs::{Dirs, RDMACM_BESIDE},
    guest::{copy_to_ram, setup},
    host::must,
    network::network,
    vm,
    vm::Job,
};

const STEPS: &str = "Steps over soft-RoCE";

/// Rounds of the wall clock, in the virtual machine and here.
const ROUNDS: usize = 11;
/// Connections of a round, one after the other. [`per_cycle`] divides by as many.
const CYCLES: u32 = super::guest::CYCLES;
const AT_ONCE: u32 = 64;
/// Ids on the channel beside which an address is resolved.
const IDS: u32 = 10_000;

/// A part of the program's output that is no time.
const BYTES: &str = "memory";
/// The row by which connections a second are judged, and its bound: 5,000 a second.
const TOGETHER: &str = "connecting and disconnecting 64 at once";
const MOST: f64 = 200_000.0;

const PAPER: Paper = Paper {
    document: "docs/benchmarks-rdmacm.md",
    introduction: "\
# Benchmarks of librdmacm
This page compares connections by this project's librdmacm with those by rdma-core's, made by one \
run of

    cargo xtask bench rdmacm --write

The command measures, fails if a row is above its bound, and writes this file. The program is \
`c-tests/bench/connections.c`: a client and a server, each a process, make reliable connections \
and end them.

*Steps over soft-RoCE* ran in the virtual machine, each library over its own libibverbs. \
*Instructions* are those of the client in user space for one call and the event that answers it, \
counted by callgrind; *time* is wall-clock time, whose greatest part is the kernel's. The machine \
is emulated: times can be compared with each other, but have no meaning by themselves. A time \
fails if its median is above the bound, and it is above in so many rounds that chance (sign test, \
0.1 %) does not explain it. *beside 10000 ids* has so many more ids on the same event channel.

*Over uroce* ran on this machine, over `lo`, between two processes without RDMA in the kernel. \
rdma-core's librdmacm has no connection manager there, so there is nothing to compare with.
",
};

/// The whole command.
pub fn run(write: bool) -> Result<ExitCode> {
    let dirs = Dirs::find()?;
    let machine = debian_deps::provide(&dirs)?;
    let described = machine::describe(&dirs, &machine);
    vm::build_library(&dirs)?;
    let built = dirs.library()?;
    let bench = programs::prepare(&dirs, &built.join("libibverbs.so.1"), None)?;
    bench.add_rdmacm(&built.join(RDMACM_BESIDE).join("librdmacm.so.1"))?;
    let here = Here::measure(&bench)?;
    let mut rows = Row::gather(in_the_guest(&dirs, &machine, &bench, &Job::BenchRdmacm)?);
    rows.sort_by_key(|row| row.table == MEMORY);
    let mut faults: Vec<_> = rows.iter().flat_map(|row| row.faults(1.0)).collect();
    faults.extend(here.fault());
    let findings = Findings {
        rows: rows.len() + here.0.len(),
        tables: format!("{}{}", table::tables(&rows, |_| 1.0), here.table()),
        faults,
    };
    findings.publish(&dirs, &described, write, &PAPER)
}

/// Measures everything into the file of results in `dir`; called in the virtual machine.
pub fn measure(dir: &Path) -> Result<()> {
    // Where both libraries and the program are in memory.
    let bench = Bench::at(&copy_to_ram::copy(dir)?);
    let mut file = FigureFile::create(dir)?;
    for side in Side::in_turn(0) {
        file.write(instructions(&bench, side)?)?;
    }
    // Not counted: the first run reads files from disk.
    times(&bench, Side::Stock)?;
    for round in 0..ROUNDS {
        for side in Side::in_turn(round) {
            file.write(times(&bench, side)?)?;
        }
    }
    file.complete()
}

fn instructions(bench: &Bench, side: Side) -> Result<Vec<Figure>> {
    let library_dir = bench.library_dir(side);
    let counts = callgrind::count(
        &bench.program("connections"),
        &[setup::ADDRESS.to_owned(), CYCLES.to_string()],
        &[("LD_LIBRARY_PATH", library_dir.as_os_str())],
        &bench.dir().join("callgrind"),
    )?;
    witness(&counts.text, &bench.rdmacm(side))?;
    let figure = |(row, value)| Figure {
        table: STEPS.to_owned(),
        row,
        unit: Unit::Instructions,
        side,
        value,
    };
    Ok(per_cycle(&counts.parts).into_iter().map(figure).collect())
}

fn times(bench: &Bench, side: Side) -> Result<Vec<Figure>> {
    let mut command = Command::new(bench.program("connections"));
    command
        .args(words(setup::ADDRESS))
        .env("LD_LIBRARY_PATH", bench.library_dir(side));
    let figures = values(&must(&mut command)?, &bench.rdmacm(side))?;
    let figure = |(name, value): (String, f64)| {
        let (table, row, unit, value) = match name.as_str() {
            BYTES => (MEMORY, "an idle id", Unit::Kibibytes, value / 1024.0),
            step => (STEPS, step, Unit::Nanoseconds, value),
        };
        Figure {
            table: table.to_owned(),
            row: row.to_owned(),
            unit,
            side,
            value,
        }
    };
    Ok(figures.into_iter().map(figure).collect())
}

fn words(address: &str) -> [String; 4] {
    let numbers = [CYCLES, AT_ONCE, IDS].map(|number| number.to_string());
    let [cycles, at_once, ids] = numbers;
    [address.to_owned(), cycles, at_once, ids]
}

/// The names and values of an output, which has to be of this library.
fn values(text: &str, library: &Path) -> Result<Vec<(String, f64)>> {
    witness(text, library)?;
    let others = lines(text).filter(|(name, _)| *name != LIBRARY);
    others
        .map(|(name, value)| {
            let value = value.parse().with_context(|| format!("{name} {value}"))?;
            Ok((name.to_owned(), value))
        })
        .collect()
}

/// The figures over uroce: one of each row for every round, in the order of the output.
#[derive(Debug, Default)]
struct Here(Vec<(String, Vec<f64>)>);

impl Here {
    fn measure(bench: &Bench) -> Result<Self> {
        let mut here = Self::default();
        for round in 1..=ROUNDS {
            println!("-- over uroce on lo, round {round} of {ROUNDS}");
            let mut command = network(Path::new("sh"));
            command
                .args(["-c", "ip link set lo up && exec \"$0\" \"$@\""])
                .arg(bench.program("connections"))
                .args(words("127.0.0.1"))
                .env("LD_LIBRARY_PATH", bench.library_dir(Side::Ours))
                .env("UROCE_DEVICES", "lo");
            here.add(values(&must(&mut command)?, &bench.rdmacm(Side::Ours))?);
        }
        Ok(here)
    }

    fn add(&mut self, figures: Vec<(String, f64)>) {
        for (name, value) in figures {
            match self.0.iter_mut().find(|(known, _)| *known == name) {
                Some((_, values)) => values.push(value),
                None => self.0.push((name, vec![value])),
            }
        }
    }

    fn median(&self, wanted: &str) -> Option<f64> {
        let (_, values) = self.0.iter().find(|(name, _)| name == wanted)?;
        median(values)
    }

    /// The fault, if connections are not made fast enough.
    fn fault(&self) -> Option<String> {
        match self.median(TOGETHER) {
            Some(took) if took <= MOST => None,
            Some(took) => Some(format!(
                "over uroce, {TOGETHER}: {:.0} a second, at least {:.0}",
                1e9 / took,
                1e9 / MOST
            )),
            None => Some(format!("over uroce, {TOGETHER}: not measured")),
        }
    }

    fn table(&self) -> String {
        let mut text = String::from(
            "## Over uroce\nMicroseconds each; at least 5000 connections a second.\n\n\
             | row | ours | a second |\n| --- | ---: | ---: |\n",
        );
        for (name, values) in self.0.iter().filter(|(name, _)| name != BYTES) {
            let Some(took) = median(values) else { continue };
            // Writing to a string does not fail.
            let _ = writeln!(text, "| {name} | {:.1} | {:.0} |", took / 1e3, 1e9 / took);
        }
        if let Some(bytes) = self.median(BYTES) {
            let _ = writeln!(text, "\nAn idle id takes {bytes:.0} bytes.");
        }
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "library\t/x/ours/librdmacm.so.1\nrdma_connect\t150000\n\
                          connecting and disconnecting 64 at once\t90000\nmemory\t1024\n";

    #[test]
    fn an_output_is_read() {
        let library = Path::new("/x/ours/librdmacm.so.1");
        let values = values(OUTPUT, library).unwrap();
        let wanted = [
            ("rdma_connect", 150_000.0),
            (TOGETHER, 90_000.0),
            (BYTES, 1024.0),
        ];
        assert_eq!(values, wanted.map(|(name, value)| (name.to_owned(), value)));
        assert!(super::values(OUTPUT, Path::new("/x/stock/librdmacm.so.1")).is_err());
    }

    #[test]
    fn slow_connections_are_a_fault() {
        let mut here = Here::default();
        assert!(
            here.fault()
                .is_some_and(|fault| fault.contains("not measured"))
        );
        here.add(vec![
            (TOGETHER.to_owned(), 100_000.0),
            (BYTES.to_owned(), 80.0),
        ]);
        assert_eq!(here.fault(), None);
        let table = here.table();
        assert!(table.contains("| 100.0 | 10000 |\n"), "{table}");
        assert!(table.contains("An idle id takes 80 bytes."), "{table}");
        here.add(vec![(TOGETHER.to_owned(), 400_000.0)]);
        let fault = here.fault();
        assert!(fault.is_some_and(|fault| fault.contains("4000 a second, at least 5000")));
    }
}
