//! `cargo xtask bench observe`: the cost of IBVERBS_EXPLAIN, IBVERBS_VALIDATE and IBVERBS_TRACE for
//! a call, over uroce on `lo` in a separate network namespace. The ways take turns, and the minimum
//! of each is kept, because other work on a busy machine is not part of their cost.
#![forbid(unsafe_code)]

use std::{
    fmt::Write,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, bail};

use crate::{debian_deps, dirs::Dirs, host::must, network::network, vm};

/// How often each way has its turn.
const ROUNDS: usize = 5;

/// A way to run the program: the head of its column, and the variable that is set.
const WAYS: [(&str, Option<&str>); 4] = [
    ("off", None),
    ("EXPLAIN", Some("IBVERBS_EXPLAIN")),
    ("VALIDATE", Some("IBVERBS_VALIDATE")),
    ("TRACE", Some("IBVERBS_TRACE")),
];

/// Where reports and records go.
const NOWHERE: &str = "/dev/null";

/// Nanoseconds a call, by way.
#[derive(Debug, PartialEq)]
struct Row {
    call: String,
    least: Vec<f64>,
}

pub fn run_all() -> Result<ExitCode> {
    let dirs = Dirs::find()?;
    debian_deps::provide_here(&dirs)?;
    vm::build_library(&dirs)?;
    let (program, library) = prepare(&dirs)?;
    let mut rows: Vec<Row> = Vec::new();
    for round in 1..=ROUNDS {
        for (way, (name, variable)) in WAYS.iter().enumerate() {
            println!("-- round {round} of {ROUNDS}: {name}");
            let text = once(&program, &library, *variable)?;
            keep(&mut rows, way, &figures(&text)?);
        }
    }
    print!("\n{}", table(&rows));
    Ok(ExitCode::SUCCESS)
}

/// The program, and a folder with the library.
fn prepare(dirs: &Dirs) -> Result<(PathBuf, PathBuf)> {
    let dir = dirs.fresh("bench-observe")?;
    let library = dirs.snapshot(&dir)?;
    let program = dir.join("observe");
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(dirs.root.join("c-tests/bench/observe.c"))
        .arg("-libverbs");
    must(&mut gcc)?;
    Ok((program, library))
}

fn once(program: &Path, library: &Path, variable: Option<&str>) -> Result<String> {
    let mut command = network(Path::new("sh"));
    command
        .args(["-c", "ip link set lo up && exec \"$0\""])
        .arg(program)
        .env("LD_LIBRARY_PATH", library)
        .env("UROCE_DEVICES", "lo");
    for (_, other) in WAYS {
        if let Some(name) = other {
            command.env_remove(name);
        }
    }
    if let Some(name) = variable {
        command.env(name, NOWHERE);
    }
    must(&mut command)
}

/// Lines of a call and its nanoseconds: `poll_cq, empty   143 ns`.
fn figures(text: &str) -> Result<Vec<(String, f64)>> {
    let lines = text.lines().map(|line| {
        let (call, number) = line
            .strip_suffix(" ns")
            .and_then(|line| line.rsplit_once(' '))
            .with_context(|| format!("not a figure: {line}"))?;
        Ok((call.trim().to_owned(), number.parse()?))
    });
    let figures: Vec<_> = lines.collect::<Result<_>>()?;
    if figures.is_empty() {
        bail!("nothing was measured");
    }
    Ok(figures)
}

fn keep(rows: &mut Vec<Row>, way: usize, figures: &[(String, f64)]) {
    for (call, figure) in figures {
        let at = rows.iter().position(|row| row.call == *call);
        let at = at.unwrap_or_else(|| {
            rows.push(Row {
                call: call.clone(),
                least: vec![f64::INFINITY; WAYS.len()],
            });
            rows.len() - 1
        });
        if let Some(least) = rows.get_mut(at).and_then(|row| row.least.get_mut(way)) {
            *least = least.min(*figure);
        }
    }
}

fn table(rows: &[Row]) -> String {
    let heads: Vec<_> = WAYS.iter().map(|(name, _)| *name).collect();
    let mut text = format!("| call, nanoseconds | {} |\n", heads.join(" | "));
    text += &format!("| --- |{}\n", " --- |".repeat(WAYS.len()));
    for row in rows {
        let least: Vec<_> = row
            .least
            .iter()
            .map(|figure| format!("{figure:.0}"))
            .collect();
        // Writing to a string does not fail.
        let _ = writeln!(text, "| {} | {} |", row.call, least.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_each_way_is_kept() {
        let text = "poll_cq, empty                143 ns\nreg_mr, dereg_mr              798 ns\n";
        let mut rows = Vec::new();
        keep(&mut rows, 0, &figures(text).unwrap());
        keep(&mut rows, 0, &figures(&text.replace("143", "150")).unwrap());
        for way in 1..WAYS.len() {
            keep(&mut rows, way, &figures(text).unwrap());
        }
        assert_eq!(
            table(&rows),
            "| call, nanoseconds | off | EXPLAIN | VALIDATE | TRACE |\n\
             | --- | --- | --- | --- | --- |\n\
             | poll_cq, empty | 143 | 143 | 143 | 143 |\n\
             | reg_mr, dereg_mr | 798 | 798 | 798 | 798 |\n"
        );
    }

    #[test]
    fn other_words_are_no_figures() {
        assert!(figures("").is_err());
        assert!(figures("poll_cq: Invalid argument\n").is_err());
    }
}
