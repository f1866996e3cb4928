//! The project's own commands, run as `cargo xtask <command>`.
//!
//! `test` runs everything that shows the library to be right, `demo` shows it at work, `vm` gives
//! a machine with an RDMA device to try things on, `bench` compares with the system's library,
//! `install` puts the library in its place, `wheel` and `tarball` pack it for others.
//! `vm`, and the others for a part, need a kernel with RDMA drivers; they boot one in QEMU and
//! start this same binary again inside.
#![forbid(unsafe_code)]

mod archives;
mod arm64;
mod bench;
mod boots;
mod cargo;
mod chroot;
mod circles;
mod cli;
mod crates;
mod ctests;
mod deadline;
mod debian_deps;
mod demo;
mod dirs;
mod dist;
mod excused;
mod expect;
mod guest;
mod host;
mod huge_pages;
mod install;
mod kernels;
mod library;
mod links;
mod network;
mod options;
mod package;
mod pip;
mod progress;
mod provided;
mod record;
mod report;
mod sanitizers;
mod sccache;
mod siw;
mod size;
mod stage;
mod stages;
mod style;
mod suites;
mod unit;
mod unpacked;
mod uroce;
mod vm;
mod waiting;

use std::{env, process::ExitCode};

use anyhow::Result;

use dirs::Dirs;

fn main() -> ExitCode {
    let done = cli::parse(lexopt::Parser::from_env()).and_then(|command| match command {
        cli::Command::Test(options) => stages::run(&options),
        cli::Command::Vm(options) => vm::run_command(&options),
        cli::Command::Demo { kernel } => demo::run(kernel),
        cli::Command::Bench(options) => timed(|| bench::run(&options)),
        cli::Command::BenchObserve => timed(bench::observe::run_all),
        cli::Command::BenchUroce(options) => timed(|| bench::uroce::run_all(&options)),
        cli::Command::BenchRxe { write } => timed(|| bench::rxe::run(write)),
        cli::Command::BenchRdmacm { write } => timed(|| bench::rdmacm::run(write)),
        cli::Command::Install(options) => install::run(&options),
        cli::Command::Wheel(options) => install::dist(options, install::make_wheel),
        cli::Command::Tarball(options) => install::dist(options, install::make_tarball),
        cli::Command::Size => size::run(),
        cli::Command::InGuest { results } => guest::run(&results),
        cli::Command::InNetwork {
            results,
            surrounded,
        } => uroce::in_network(&results, surrounded),
        cli::Command::InRoot { job, lower } => package::in_root(&job, lower.as_deref()),
        cli::Command::Help => {
            println!("{}", cli::USAGE);
            Ok(ExitCode::SUCCESS)
        }
    });
    done.unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        ExitCode::FAILURE
    })
}

/// Runs a command that takes minutes. First it prints the time that the same command line took.
fn timed(run: impl FnOnce() -> Result<ExitCode>) -> Result<ExitCode> {
    let words: Vec<String> = env::args().skip(1).collect();
    progress::timed(&Dirs::find()?.cache, &words.join(" "), run)
}
