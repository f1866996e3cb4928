//! Code that runs inside the virtual machine; running and judging a suite is shared with uroce's
//! namespace.
#![forbid(unsafe_code)]

pub mod case;
pub mod copy_to_ram;
pub mod demo;
mod library;
mod patience;
pub mod place;
pub mod process;
mod pyverbs;
pub mod setup;
pub mod suite;
pub mod uroce;

pub use library::initialised;
pub use place::SOURCES;
pub use pyverbs::CUT_SHORT;
pub use suite::COMPLETE;

/// Begins the line that reports the size of the machine's pages in bytes.
pub const PAGES: &str = "bytes of a page: ";

use std::{
    ffi::OsString,
    fs,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result};

use demo::Show;

use crate::{
    bench, suites,
    vm::{BEGUN, Job, Library, put_library},
};

/// Sets up the RDMA device and does the job that lies in this directory.
pub fn run(dir: &Path) -> Result<ExitCode> {
    let job = Job::load(dir)?;
    fs::write(dir.join(BEGUN), "").context("the sign that it has begun")?;
    println!("{PAGES}{}", rustix::param::page_size());
    setup::device()?;
    match job {
        Job::Suites { ours, labels } => {
            copy_to_ram::copy_listed(dir);
            let ours = ours.as_deref().map(copy_to_ram::copy).transpose()?;
            suite::run(dir, ours.as_deref(), &labels)
        }
        Job::Command {
            library,
            write,
            words,
        } => one_command(&library, write, &words),
        Job::Demo { ours } => demo::run(&Show {
            ours: &ours,
            target: &suites::rxe(Path::new(place::HELPERS)),
            env: &[],
            // The default port of the pingpong programs.
            port: 18515,
            room: Path::new("/run"),
            bandwidth: false,
        }),
        Job::Bench => {
            copy_to_ram::copy_listed(dir);
            bench::guest::run(dir).map(|()| ExitCode::SUCCESS)
        }
        Job::BenchRxe => {
            copy_to_ram::copy_listed(dir);
            bench::rxe::measure(dir).map(|()| ExitCode::SUCCESS)
        }
        Job::BenchRdmacm => {
            copy_to_ram::copy_listed(dir);
            bench::rdmacm::measure(dir).map(|()| ExitCode::SUCCESS)
        }
        Job::BenchUroce { ours, rounds } => {
            bench::uroce::in_the_guest(dir, &ours, rounds).map(|()| ExitCode::SUCCESS)
        }
    }
}

fn one_command(library: &Library, write: bool, words: &[OsString]) -> Result<ExitCode> {
    let (program, arguments) = words.split_first().context("no command")?;
    let mut command = Command::new(program);
    command.args(arguments);
    put_library(&mut command, library);
    if write {
        command.env("IBVERBS_FORCE_WRITE", "1");
    }
    let status = command
        .status()
        .with_context(|| program.to_string_lossy().into_owned())?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
