//! The unit tests of the packages that have unsafe code, under valgrind's memcheck.
#![forbid(unsafe_code)]

use std::{path::Path, process::Command};

use anyhow::Result;

use super::library::{FOUND, KIT, Library, run_tests};
use crate::{dirs::Dirs, host, report::Tally, unit};

pub const STAGE: &str = "unit:valgrind";

const LIBRARIES: [Library; 2] = [KIT, Library::whole("ibverbs", "")];

/// Properties are tried on this many inputs instead of 256: each step takes some thirty times as
/// long, and memory is used in the same way for most inputs.
const CASES: &str = "8";

/// Compiles the packages of `cargo test`, and runs the tests of these libraries.
pub fn run(dirs: &Dirs, log: &Path) -> Result<Tally> {
    let mut cargo = Command::new("cargo");
    cargo
        // All packages, as in the stage before: the same features, so nothing is compiled anew.
        .args([
            "test",
            "--workspace",
            "--exclude",
            "ferroverbs-verbs",
            "--no-run",
        ])
        .current_dir(&dirs.root);
    let built = host::run(&mut cargo, log, None)?;
    if !built.status.success() {
        return Ok(unit::tally(&built.text, false));
    }
    let memcheck = |tests: &Path| memcheck(dirs, tests);
    run_tests(dirs, &built.text, log, &LIBRARIES, memcheck)
}

fn memcheck(dirs: &Dirs, tests: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=memcheck", "--quiet", "--leak-check=no"])
        // One thread runs at a time; without it, one that spins keeps the others from running.
        .arg("--fair-sched=yes")
        .arg(format!("--error-exitcode={FOUND}"))
        .arg(format!(
            "--suppressions={}",
            dirs.root.join("xtask/valgrind.supp").display()
        ))
        .arg(tests)
        .env("PROPTEST_CASES", CASES);
    command
}
