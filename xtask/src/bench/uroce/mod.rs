//! `cargo xtask bench uroce`: how fast uroce is, every row beside a peer that did the same kind of
//! work in the same rounds: UCX, the system's calls for another process's memory, TCP, and the
//! kernel's soft-RoCE.
#![forbid(unsafe_code)]

mod figure;
mod measure;
pub mod pair;
mod rows;
mod scale;
mod text;

pub use measure::{in_network, in_the_guest};

use std::{fs, path::Path, process::Command, process::ExitCode};

use anyhow::{Context, Result, bail};

use super::{machine, programs::run};
use crate::{
    cli,
    dirs::Dirs,
    host, needs,
    uroce::network,
    vm::{self, Job},
};
use figure::Figure;
use rows::{Place, ROWS};

const DOCUMENT: &str = "docs/benchmarks-uroce.md";
/// The page for users, which has the table in short.
const GUIDE: &str = "docs/uroce.md";
/// Where figures are written, in the directory of the job.
const RESULTS: &str = "figures.tsv";
/// Written last, so that a run that stopped half-way is noticed.
const COMPLETE: &str = "# complete";

pub fn run_all(options: &cli::BenchUroce) -> Result<ExitCode> {
    let dirs = Dirs::find()?;
    let machine = needs::provide(&dirs)?;
    // Said before the work, which takes minutes in which the sources may change.
    let described = machine::describe(&dirs, &machine);
    vm::build_library(&dirs)?;
    let mut figures = here(&dirs, options.rounds)?;
    figures.extend(guest(&dirs, &machine, options.rounds)?);
    figures.extend(scale::measure(&dirs)?);
    let faults = text::faults(ROWS, &figures);
    let tables = text::tables(ROWS, &figures);
    println!("\n{tables}");
    if options.write {
        let path = dirs.root.join(DOCUMENT);
        let text = text::document(&described, &tables, &faults);
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        println!("written to {}", path.display());
        let path = dirs.root.join(GUIDE);
        let page = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let page = text::guide(&page, ROWS, &figures)?;
        fs::write(&path, page).with_context(|| path.display().to_string())?;
    }
    for fault in &faults {
        println!("NOT MET {fault}");
    }
    println!("{} rows, {} not met", ROWS.len(), faults.len());
    Ok(if faults.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What is measured with, in an empty directory, and the job.
fn prepare(dirs: &Dirs, name: &str, rounds: usize) -> Result<std::path::PathBuf> {
    let dir = dirs.fresh(name)?;
    let lib = dirs.snapshot(&dir)?;
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(dir.join(measure::RAW))
        .arg(dirs.root.join("c-tests/bench/raw.c"));
    run(&mut gcc)?;
    Job::BenchUroce { ours: lib, rounds }.save(&dir)?;
    Ok(dir)
}

fn here(dirs: &Dirs, rounds: usize) -> Result<Vec<Figure>> {
    println!("-- uroce on lo and its peers, in a network of their own");
    let dir = prepare(dirs, "bench-uroce", rounds)?;
    let mut command = network(&dirs.program);
    command.arg("in-network").arg(&dir).current_dir(&dirs.root);
    let log = dirs.work.join("bench-uroce.log");
    let outcome = host::run(&mut command, &log, None)?;
    if !outcome.status.success() {
        bail!("the bench failed; see {}", log.display());
    }
    read(&dir.join(RESULTS))
}

fn guest(dirs: &Dirs, machine: &needs::Machine, rounds: usize) -> Result<Vec<Figure>> {
    println!("-- booting {} for the bench", machine.kernel.display());
    let dir = prepare(dirs, "bench-uroce-guest", rounds)?;
    let job = Job::load(&dir)?;
    let log = dirs.work.join("bench-uroce-guest.log");
    let outcome = vm::boot(dirs, machine, &dir, &job, &log, true)?;
    if !outcome.status.success() {
        bail!("the bench failed in the guest; see {}", log.display());
    }
    read(&dir.join(RESULTS))
}

fn read(path: &Path) -> Result<Vec<Figure>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let Some(figures) = text.strip_suffix(&format!("{COMPLETE}\n")) else {
        bail!("{} was not written to its end", path.display());
    };
    figures.lines().map(str::parse).collect()
}

/// The rows of a place.
fn rows_of(place: Place) -> impl Iterator<Item = &'static rows::Row> {
    ROWS.iter().filter(move |row| row.place == place)
}
