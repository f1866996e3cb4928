//! `cargo xtask bench uroce`: how fast uroce is, every row beside a peer that did the same kind of
//! work in the same rounds: UCX, the system's calls for another process's memory, TCP, and the
//! kernel's soft-RoCE.
#![forbid(unsafe_code)]

mod before;
mod curves;
mod figure;
mod measure;
pub mod pair;
mod ranks;
mod row;
mod rows;
mod scale;
mod text;

pub use measure::in_the_guest;

use std::{fs, path::Path, process::Command, process::ExitCode};

use anyhow::{Context, Result, bail};

use super::{machine, plot};
use crate::{
    debian_deps,
    dirs::Dirs,
    host,
    network::network,
    options,
    vm::{self, Job},
};
use figure::Figure;
use measure::{COMPLETE, RESULTS};
use row::SYSFS;

const DOCUMENT: &str = "docs/benchmarks-uroce.md";
/// The page for users, which has the table in short.
const GUIDE: &str = "docs/uroce.md";
/// The directory of the job that measures the curves of the plots.
const PLOTS: &str = "bench-uroce-plots";
/// Rounds of the plots at most: a line shows chance by itself.
const PLOT_ROUNDS: usize = 3;

pub fn run_all(options: &options::BenchUroce) -> Result<ExitCode> {
    let dirs = Dirs::find()?;
    let machine = debian_deps::provide(&dirs)?;
    // Checked before the work, which takes minutes in which the sources may change.
    let described = machine::describe(&dirs, &machine);
    vm::build_library(&dirs)?;
    if options.plots_alone {
        plots(&dirs, &described, options)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(library) = &options.before {
        return compare(&dirs, &machine, library, options.rounds);
    }
    let mut figures = here(&dirs, options.rounds)?;
    figures.extend(guest(&dirs, &machine, options.rounds)?);
    figures.extend(scale::measure(&dirs)?);
    let rows = rows::all();
    let faults = text::faults(&rows, &figures);
    let tables = text::tables(&rows, &figures);
    println!("\n{tables}");
    if options.write {
        let path = dirs.root.join(DOCUMENT);
        let text = text::document(&described, &tables, &faults);
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        println!("written to {}", path.display());
        for curves in &curves::ROW_PLOTS {
            let picture = plot::svg(&curves::plot_of_rows(curves, &figures));
            write_plot(&dirs, curves.file, picture)?;
        }
        plots(&dirs, &described, options)?;
        let path = dirs.root.join(GUIDE);
        let page = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let page = text::guide(&page, &rows, &figures)?;
        fs::write(&path, page).with_context(|| path.display().to_string())?;
    }
    for fault in &faults {
        println!("NOT MET {fault}");
    }
    println!("{} rows, {} not met", rows.len(), faults.len());
    Ok(if faults.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Measures the library and an earlier build of it in turn.
fn compare(
    dirs: &Dirs,
    machine: &debian_deps::Machine,
    library: &Path,
    rounds: usize,
) -> Result<ExitCode> {
    println!("-- {} is measured in place of the peers", library.display());
    let dir = prepare(dirs, "bench-uroce", rounds)?;
    before::add(&dir, library)?;
    let mut figures = in_own_network(dirs, &dir, "bench-uroce")?;
    let dir = prepare(dirs, "bench-uroce-guest", rounds)?;
    before::add(&dir, library)?;
    figures.extend(in_guest(dirs, machine, &dir)?);
    let rows = before::compare(&rows::all(), &figures);
    println!("\n{}", before::table(&rows));
    let slower = before::faults(&rows);
    for fault in &slower {
        println!("SLOWER {fault}");
    }
    println!("{} rows, {} slower", rows.len(), slower.len());
    Ok(if slower.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The measuring programs, in an empty directory, and the job.
fn prepare(dirs: &Dirs, name: &str, rounds: usize) -> Result<std::path::PathBuf> {
    let dir = dirs.fresh(name)?;
    let lib = dirs.snapshot(&dir)?;
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(dir.join(measure::RAW))
        .arg(dirs.root.join("c-tests/bench/raw.c"));
    host::must(&mut gcc)?;
    let sysfs = dirs.root.join("tools").join(SYSFS);
    let guest = dirs.root.join("xtask/guest");
    for script in ranks::SCRIPTS
        .map(|name| guest.join(name))
        .iter()
        .chain([&sysfs])
    {
        let name = script.file_name().unwrap_or_default();
        fs::copy(script, dir.join(name)).with_context(|| script.display().to_string())?;
    }
    Job::BenchUroce { ours: lib, rounds }.save(&dir)?;
    Ok(dir)
}

/// Measures the curves of the plots and, if requested, writes them and their section of the
/// document.
fn plots(dirs: &Dirs, described: &[(&str, String)], options: &options::BenchUroce) -> Result<()> {
    println!("-- the plots of this machine");
    let rounds = options.rounds.min(PLOT_ROUNDS);
    let dir = prepare(dirs, PLOTS, rounds)?;
    let figures = in_own_network(dirs, &dir, PLOTS)?;
    for curves in &curves::PLOTS {
        let picture = plot::svg(&curves::plot(curves, &figures));
        if options.write {
            write_plot(dirs, curves.file, picture)?;
        }
    }
    if options.write {
        let path = dirs.root.join(DOCUMENT);
        let page = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let page = text::with_plots(&page, &text::plots(&curves::PLOTS, described, rounds));
        fs::write(&path, page).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Writes a plot, as a file below `docs`.
fn write_plot(dirs: &Dirs, file: &str, picture: Option<String>) -> Result<()> {
    let picture = picture.with_context(|| format!("{file}: nothing was measured"))?;
    let path = dirs.root.join("docs").join(file);
    fs::create_dir_all(path.parent().unwrap_or(&path))?;
    fs::write(&path, picture).with_context(|| path.display().to_string())?;
    println!("written to {}", path.display());
    Ok(())
}

/// Measures in the network that this process was started in.
pub fn in_network(dir: &Path, ours: &Path, rounds: usize) -> Result<()> {
    let _ = Command::new("ip")
        .args(["link", "set", "lo", "up"])
        .status();
    if dir.ends_with(PLOTS) {
        return measure::curves_in_network(dir, ours, rounds);
    }
    measure::in_network(dir, ours, rounds)
}

fn here(dirs: &Dirs, rounds: usize) -> Result<Vec<Figure>> {
    println!("-- uroce on lo and its peers, in a separate network namespace");
    let dir = prepare(dirs, "bench-uroce", rounds)?;
    in_own_network(dirs, &dir, "bench-uroce")
}

fn in_own_network(dirs: &Dirs, dir: &Path, name: &str) -> Result<Vec<Figure>> {
    let mut command = network(&dirs.program);
    command.arg("in-network").arg(dir).current_dir(&dirs.root);
    let log = dirs.work.join(format!("{name}.log"));
    let outcome = host::run(&mut command, &log, None)?;
    if !outcome.status.success() {
        bail!("the bench failed; see {}", log.display());
    }
    read(&dir.join(RESULTS))
}

fn guest(dirs: &Dirs, machine: &debian_deps::Machine, rounds: usize) -> Result<Vec<Figure>> {
    let dir = prepare(dirs, "bench-uroce-guest", rounds)?;
    in_guest(dirs, machine, &dir)
}

fn in_guest(dirs: &Dirs, machine: &debian_deps::Machine, dir: &Path) -> Result<Vec<Figure>> {
    println!("-- booting {} for the bench", machine.kernel.display());
    let job = Job::load(dir)?;
    let log = dirs.work.join("bench-uroce-guest.log");
    let outcome = vm::boot(dirs, machine, dir, &job, &log, true)?;
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
