//! `cargo xtask bench rxe`: the library's own provider for soft-RoCE against rdma-core's, the same
//! work in turn, in one virtual machine.
#![forbid(unsafe_code)]

use std::{path::Path, process::ExitCode};

use anyhow::{Context, Result};

use super::{
    Paper, callgrind,
    figures::FigureFile,
    guest::{CYCLES, DEVICE, per_cycle, witness},
    in_the_guest, machine, programs,
    programs::Bench,
    report,
    row::{Figure, Row, Side, Unit},
    uroce::pair::{self, Call},
};
use crate::{
    debian_deps,
    dirs::Dirs,
    guest::{copy_to_ram, setup},
    vm,
    vm::Job,
};

const REQUESTS: &str = "Work requests";
const MESSAGES: &str = "Messages";

/// Rounds of the messages.
const ROUNDS: usize = 11;

const PAPER: Paper = Paper {
    document: "docs/benchmarks-rxe.md",
    introduction: "\
# Benchmarks of the provider for soft-RoCE
This page compares the library and its built-in provider for the kernel's soft-RoCE with \
rdma-core's library and its provider in C. Both do the same work in turn, in one run of

    cargo xtask bench rxe --write

The command measures in the virtual machine, fails if a row is above its bound, and writes \
this file.

*Work requests* are instructions in user space for one call each, counted by callgrind \
(`c-tests/bench/requests.c`): a request with one piece of memory, and polling an empty \
queue, one completion, and 16 completions. Work of the kernel is not counted.

*Messages* is the time for each message of `ib_send_bw -s 64` over a reliable connection, \
from its message rate; less is better. The machine is emulated, so times can be compared \
with each other, but have no meaning by themselves. A time fails if its median is above the \
bound, and it is above in so many rounds that chance (sign test, 0.1 %) does not explain it.
",
};

/// The whole command.
pub fn run(write: bool) -> Result<ExitCode> {
    let dirs = Dirs::find()?;
    let machine = debian_deps::provide(&dirs)?;
    let described = machine::describe(&dirs, &machine);
    vm::build_library(&dirs)?;
    let bench = programs::prepare(&dirs, &dirs.library()?.join("libibverbs.so.1"), None)?;
    let figures = in_the_guest(&dirs, &machine, &bench, &Job::BenchRxe)?;
    let rows = Row::gather(figures);
    report(&dirs, &described, write, &rows, &PAPER)
}

/// Measures everything into the file of results in `dir`; called in the virtual machine.
pub fn measure(dir: &Path) -> Result<()> {
    // Where both libraries and all programs are in memory.
    let bench = Bench::at(&copy_to_ram::copy(dir)?);
    let mut file = FigureFile::create(dir)?;
    for side in Side::in_turn(0) {
        file.write(requests(&bench, side)?)?;
    }
    // Not counted: the first run reads files from disk.
    messages(&bench, Side::Stock)?;
    for round in 0..ROUNDS {
        for side in Side::in_turn(round) {
            file.write(vec![messages(&bench, side)?])?;
        }
    }
    file.complete()
}

/// Instructions of each call.
fn requests(bench: &Bench, side: Side) -> Result<Vec<Figure>> {
    let library_dir = bench.library_dir(side);
    let counts = callgrind::count(
        &bench.program("requests"),
        &[DEVICE.to_owned(), CYCLES.to_string()],
        &[("LD_LIBRARY_PATH", library_dir.as_os_str())],
        &bench.dir().join("callgrind"),
    )?;
    witness(&counts.text, &bench.library(side))?;
    let figure = |(row, value)| Figure {
        table: REQUESTS.to_owned(),
        row,
        unit: Unit::Instructions,
        side,
        value,
    };
    Ok(per_cycle(&counts.parts).into_iter().map(figure).collect())
}

/// How often a run is made that perftest could not time.
const TRIES: usize = 10;

/// Nanoseconds for a message. perftest measures the processor's clock first, in emulation not
/// always with success; then its rate is 0, which is unrelated to the library, and the run is
/// repeated.
fn messages(bench: &Bench, side: Side) -> Result<Figure> {
    let port = pair::port();
    let words = format!("ib_send_bw -d {DEVICE} -x 1 -F -s 64 -n 2000 -p {port}");
    let call = |words: &str| Call::new(words).env("LD_LIBRARY_PATH", bench.library_dir(side));
    let client = call(&format!("{words} {}", setup::ADDRESS));
    let mut rated = None;
    for _ in 0..TRIES {
        let text = pair::run(bench.dir(), &call(&words), &client, port)?;
        rated = rate(&text).with_context(|| format!("no message rate in {text:?}"))?;
        if rated.is_some() {
            break;
        }
        println!("bench: perftest could not time its run; once more");
    }
    let rate = rated.with_context(|| format!("perftest could not time any of {TRIES} runs"))?;
    Ok(Figure {
        table: MESSAGES.to_owned(),
        row: "`ib_send_bw -s 64`".to_owned(),
        unit: Unit::Nanoseconds,
        side,
        value: 1e3 / rate,
    })
}

/// Millions of messages a second: the last column of the row for 64 bytes. `Some(None)` where
/// perftest could not time its run.
fn rate(text: &str) -> Option<Option<f64>> {
    let fields = text.lines().map(|line| line.split_whitespace());
    let mut rows = fields.filter(|fields| fields.clone().next() == Some("64"));
    let rate: f64 = rows.next_back()?.last()?.parse().ok()?;
    Some((rate > 0.0).then_some(rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_row() {
        let text = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n\
                    \x2064         2000             0.93               0.85   \t\t   0.013961\n----\n";
        assert_eq!(rate(text), Some(Some(0.013961)));
        assert_eq!(rate("64 2000 0 0 0.000000"), Some(None));
        assert_eq!(rate(""), None);
    }
}
