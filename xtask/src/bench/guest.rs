//! The part that needs an RDMA device; runs in the virtual machine.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, ffi::OsStr, path::Path, process::Command};

use anyhow::{Context, Result, bail};

use crate::{guest::copy_to_ram, host::must, suites::PREFER_PLUGIN};

use super::{
    callgrind,
    figures::FigureFile,
    programs::Bench,
    row::{Figure, Side, Unit},
};

pub const START: &str = "Start";
pub const OBJECTS: &str = "Create and destroy";
pub const MEMORY: &str = "Memory";

/// Rounds of the wall clock.
const ROUNDS: usize = 21;
/// Rounds under callgrind, where a round takes minutes, and the same work is the same count.
const COUNT_ROUNDS: usize = 1;
pub const CYCLES: u32 = 20;

pub const DEVICE: &str = "rxe0";
/// The library's own switch for fork protection.
const FORK_SAFE: &str = "RDMAV_FORK_SAFE";

/// One run of a program: its arguments in a round, and the rows of its parts.
struct Run {
    program: &'static str,
    words: fn(&Bench, Side, usize) -> Vec<String>,
    fork_safe: bool,
    /// The kernel puts everything where it put it in the run before.
    same_addresses: bool,
    table: &'static str,
    /// Follows the name of each part.
    suffix: &'static str,
}

const RUNS: [Run; 4] = [
    Run {
        program: "start",
        words: start,
        fork_safe: false,
        same_addresses: false,
        table: START,
        suffix: "",
    },
    Run {
        program: "start",
        words: start,
        fork_safe: false,
        same_addresses: true,
        table: START,
        suffix: ", same addresses",
    },
    Run {
        program: "objects",
        words: |_, _, round| objects(round, &[]),
        fork_safe: false,
        same_addresses: false,
        table: OBJECTS,
        suffix: "",
    },
    Run {
        program: "objects",
        words: |_, _, round| objects(round, &["mr"]),
        fork_safe: true,
        same_addresses: false,
        table: OBJECTS,
        suffix: ", fork protection on",
    },
];

fn start(bench: &Bench, side: Side, _round: usize) -> Vec<String> {
    vec![bench.library(side).display().to_string(), DEVICE.to_owned()]
}

/// Each round has one mapping more than the one before, for both libraries: with how many a cycle
/// costs the kernel much is chance, and not the same for both.
fn objects(round: usize, kinds: &[&str]) -> Vec<String> {
    let numbers = [DEVICE.to_owned(), CYCLES.to_string(), round.to_string()];
    let kinds = kinds.iter().map(|kind| (*kind).to_owned());
    numbers.into_iter().chain(kinds).collect()
}

/// The row that the parts of the start add up to.
const TOGETHER: &str = "load + list + open + close";

/// Measures everything into the file of results in `dir`.
pub fn run(dir: &Path) -> Result<()> {
    // Where both libraries and all programs are in memory.
    let bench = Bench::at(&copy_to_ram::copy(dir)?);
    let mut file = FigureFile::create(dir)?;
    // Not counted: the first round reads files from disk.
    one_round(&bench, 0)?;
    for round in 0..ROUNDS {
        println!("bench: wall clock, round {} of {ROUNDS}", round + 1);
        file.write(one_round(&bench, round)?)?;
    }
    for round in 0..COUNT_ROUNDS {
        println!("bench: instructions, round {} of {COUNT_ROUNDS}", round + 1);
        for side in Side::in_turn(round) {
            // Instructions are the same at other addresses.
            for run in RUNS.iter().filter(|run| !run.same_addresses) {
                file.write(run.count(&bench, side, round)?)?;
            }
        }
    }
    file.complete()
}

fn one_round(bench: &Bench, round: usize) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for side in Side::in_turn(round) {
        for run in &RUNS {
            figures.extend(run.time(bench, side, round)?);
        }
        figures.push(peak(bench, side)?);
    }
    Ok(figures)
}

impl Run {
    fn env<'a>(&self, library_dir: &'a OsStr) -> Vec<(&'static str, &'a OsStr)> {
        // Both libraries over one provider, the C plugin.
        let plugin = (PREFER_PLUGIN, OsStr::new("all"));
        let mut env = vec![("LD_LIBRARY_PATH", library_dir), plugin];
        if self.fork_safe {
            env.push((FORK_SAFE, OsStr::new("1")));
        }
        env
    }

    fn time(&self, bench: &Bench, side: Side, round: usize) -> Result<Vec<Figure>> {
        let library_dir = bench.library_dir(side);
        let program = bench.program(self.program);
        let mut command = if self.same_addresses {
            let mut setarch = Command::new("setarch");
            setarch.arg("--addr-no-randomize").arg(program);
            setarch
        } else {
            Command::new(program)
        };
        command
            .args((self.words)(bench, side, round))
            .envs(self.env(library_dir.as_os_str()));
        let text = must(&mut command)?;
        witness(&text, &bench.library(side))?;
        let mut parts = Vec::new();
        for (name, value) in lines(&text).filter(|(name, _)| *name != LIBRARY) {
            let value = value.parse().with_context(|| format!("{name} {value}"))?;
            parts.push((name.to_owned(), value));
        }
        Ok(self.figures(parts, Unit::Nanoseconds, side))
    }

    fn count(&self, bench: &Bench, side: Side, round: usize) -> Result<Vec<Figure>> {
        let library_dir = bench.library_dir(side);
        let counts = callgrind::count(
            &bench.program(self.program),
            &(self.words)(bench, side, round),
            &self.env(library_dir.as_os_str()),
            &bench.dir().join("callgrind"),
        )?;
        witness(&counts.text, &bench.library(side))?;
        let parts = match self.table {
            OBJECTS => per_cycle(&counts.parts),
            _ => counts.parts.into_iter().collect(),
        };
        Ok(self.figures(parts, Unit::Instructions, side))
    }

    /// The figures of a run's parts; those of the start are added up too, being one row.
    fn figures(&self, parts: Vec<(String, f64)>, unit: Unit, side: Side) -> Vec<Figure> {
        let mut rows: Vec<_> = parts
            .into_iter()
            .map(|(part, value)| (format!("{part}{}", self.suffix), value))
            .collect();
        if self.table == START {
            let sum = rows.iter().map(|(_, value)| value).sum();
            rows.push((format!("{TOGETHER}{}", self.suffix), sum));
        }
        let figure = |(row, value)| Figure {
            table: self.table.to_owned(),
            row,
            unit,
            side,
            value,
        };
        rows.into_iter().map(figure).collect()
    }
}

/// The program dumps CYCLES cycles as "KIND 1" and twice as many as "KIND 2": the difference is the
/// cost of CYCLES cycles, without the code around them.
pub fn per_cycle(parts: &BTreeMap<String, f64>) -> Vec<(String, f64)> {
    let once = |(name, once): (&String, &f64)| {
        let kind = name.strip_suffix(" 1")?;
        let twice = parts.get(&format!("{kind} 2"))?;
        Some((kind.to_owned(), (twice - once) / f64::from(CYCLES)))
    };
    parts.iter().filter_map(once).collect()
}

/// The most memory that Debian's ibv_devices had at once.
fn peak(bench: &Bench, side: Side) -> Result<Figure> {
    let mut command = Command::new(bench.program("peak"));
    command
        .arg("ibv_devices")
        .env("LD_LIBRARY_PATH", bench.library_dir(side))
        .env(PREFER_PLUGIN, "all");
    let text = must(&mut command)?;
    if !text.contains(DEVICE) {
        bail!("ibv_devices did not list {DEVICE}: {text}");
    }
    let found = lines(&text).find(|(name, _)| *name == "peak");
    let (_, value) = found.with_context(|| format!("no peak in {text:?}"))?;
    Ok(Figure {
        table: MEMORY.to_owned(),
        row: "peak of `ibv_devices`".to_owned(),
        unit: Unit::Kibibytes,
        side,
        value: value.parse()?,
    })
}

/// Names and values, a tab between.
pub fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.split_once('\t'))
}

/// The name of the line by which a program says which file it measured.
pub const LIBRARY: &str = "library";

/// The program prints the file that it measured; it has to be this one.
pub fn witness(text: &str, wanted: &Path) -> Result<()> {
    let found = lines(text).find(|(name, _)| *name == LIBRARY);
    let path = found.map(|(_, path)| Path::new(path));
    if path == Some(wanted) {
        return Ok(());
    }
    bail!("{path:?} was measured, not {}", wanted.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_the_difference_of_two_runs() {
        let cycles = f64::from(CYCLES);
        let parts = [
            ("cq 1", 51.0 + 7.0 * cycles),
            ("cq 2", 51.0 + 14.0 * cycles),
            ("lonely 1", 1.0),
        ];
        let parts = parts.map(|(name, count)| (name.to_owned(), count)).into();
        assert_eq!(per_cycle(&parts), [("cq".to_owned(), 7.0)]);
    }

    #[test]
    fn another_library_is_noticed() {
        let text = "library\t/x/ours/libibverbs.so.1\nload\t5\n";
        assert!(witness(text, Path::new("/x/ours/libibverbs.so.1")).is_ok());
        assert!(witness(text, Path::new("/x/stock/libibverbs.so.1")).is_err());
        assert!(witness("", Path::new("/x")).is_err());
    }
}
