//! Tests of queues under Miri, which interprets them: it checks each access against Rust's rules
//! for references, bounds, alignment and threads.
#![forbid(unsafe_code)]

use std::{ffi::OsString, path::Path, process::Command};

use anyhow::Result;

use super::library::answers;
use crate::{dirs::Dirs, host, report::Tally, unit};

pub const STAGE: &str = "unit:miri";

/// Packages, and which of their tests: those that need no system call but memory and threads.
const TESTS: [(&[&str], &[&str]); 2] = [
    (
        &["ferroverbs-kit"],
        &[
            "queue::",
            "abi::handle::requests::",
            "provider::shim::tests::cqs::",
        ],
    ),
    (&["ferroverbs-rxe", "ferroverbs-siw"], &[]),
];

/// The variable that names a cargo-miri elsewhere than where cargo finds it.
const PROGRAM: &str = "CARGO_MIRI";

/// Each step takes some thousand times as long as compiled.
const CASES: &str = "4";

/// Runs them, if a Miri is there.
pub fn run(dirs: &Dirs, log: &Path) -> Result<Tally> {
    let mut tally = Tally::default();
    let Some(miri) = found() else {
        tally.skip("no toolchain with Miri");
        return Ok(tally);
    };
    for (number, (packages, tests)) in TESTS.into_iter().enumerate() {
        let mut command = with(&miri);
        command
            .args(["test", "--lib"])
            .args(packages.iter().flat_map(|name| ["--package", name]))
            .arg("--")
            .args(tests)
            .env("CARGO_TARGET_DIR", dirs.target.join("miri"))
            // proptest looks for the current directory.
            .env("MIRIFLAGS", "-Zmiri-disable-isolation")
            .env("PROPTEST_CASES", CASES)
            .current_dir(&dirs.root);
        let log = log.with_extension(format!("{number}.log"));
        let outcome = host::run(&mut command, &log, None)?;
        tally.add(unit::tally(&outcome.text, outcome.status.success()));
    }
    Ok(tally)
}

/// The first program and its words that answer.
fn found() -> Option<Vec<OsString>> {
    let named = std::env::var_os(PROGRAM).map(|program| vec![program, "miri".into()]);
    let by_cargo = [&["cargo", "miri"][..], &["cargo", "+nightly", "miri"]];
    let by_cargo = by_cargo.map(|words| words.iter().map(OsString::from).collect());
    named
        .into_iter()
        .chain(by_cargo)
        .find(|words: &Vec<_>| answers(with(words).arg("--version")))
}

fn with(words: &[OsString]) -> Command {
    let mut words = words.iter();
    let mut command = Command::new(words.next().cloned().unwrap_or_default());
    command.args(words);
    command
}
