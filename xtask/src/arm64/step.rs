//! A step of the stage: a command with a log.
#![forbid(unsafe_code)]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, bail};

use crate::{
    dirs::Dirs,
    host::{self, Outcome},
    report::Tally,
};

pub const STAGE: &str = "arm64";

/// Counts a step.
pub fn one(tally: &mut Tally, name: &str, result: Result<()>) {
    match result {
        Ok(()) => tally.passed += 1,
        Err(error) => tally.fail(format!("{STAGE}: {name}: {error:#}")),
    }
}

/// Runs a command with a log of this name. One that hangs is killed.
pub fn watched(dirs: &Dirs, name: &str, command: &mut Command) -> Result<Outcome> {
    let log = log(dirs, name);
    let bound = watchdog::bound();
    host::run_silently(command, &log, Some(Box::new(move |since| since >= bound)))
}

/// The log of this name.
pub fn log(dirs: &Dirs, name: &str) -> PathBuf {
    let name = name.replace('/', "-");
    dirs.work.join(format!("{STAGE}-{name}.log"))
}

/// Compiles something, which takes as long as it takes on a busy machine.
pub fn compile(dirs: &Dirs, name: &str, command: &mut Command) -> Result<()> {
    let log = log(dirs, name);
    let outcome = host::run_silently(command, &log, None)?;
    succeeded(&outcome, &log)
}

/// Runs a command that has to succeed; returns its output.
pub fn must(dirs: &Dirs, name: &str, command: &mut Command) -> Result<String> {
    let outcome = watched(dirs, name, command)?;
    succeeded(&outcome, &log(dirs, name))?;
    Ok(outcome.text)
}

/// Whether a command has ended well; its last lines are the error.
pub fn succeeded(outcome: &Outcome, log: &Path) -> Result<()> {
    if !outcome.status.success() || outcome.hung {
        bail!(
            "{}, see {}: {}",
            outcome.status,
            log.display(),
            outcome.last_lines()
        );
    }
    Ok(())
}
