//! The unit tests of the packages with unsafe code, compiled with AddressSanitizer: it finds
//! accesses beyond the end of an array, on the stack too, which memcheck does not see.
#![forbid(unsafe_code)]

use std::{path::Path, process::Command};

use anyhow::Result;

use super::library::{FOUND, KIT, Library, answers, run_tests};
use crate::{dirs::Dirs, host, report::Tally, unit};

pub const STAGE: &str = "unit:asan";

const LIBRARIES: [Library; 4] = [
    KIT,
    Library::whole("rxe", "providers/rxe"),
    Library::whole("siw", "providers/siw"),
    Library::whole("ibverbs", ""),
];

const PACKAGES: [&str; 4] = [
    "ferroverbs-kit",
    "ferroverbs-rxe",
    "ferroverbs-siw",
    "ferroverbs",
];

/// Named, so that build scripts and macros are compiled without the sanitizer.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// As few inputs as under memcheck.
const CASES: &str = "8";

/// Compiles and runs the tests, if a compiler is there that has the sanitizer.
pub fn run(dirs: &Dirs, log: &Path) -> Result<Tally> {
    if !answers(Command::new("cargo").args(["+nightly", "--version"])) {
        let mut tally = Tally::default();
        tally.skip("no nightly toolchain, which AddressSanitizer needs");
        return Ok(tally);
    }
    let mut cargo = Command::new("cargo");
    cargo
        .args(["+nightly", "test", "--lib", "--no-run", "--target", TARGET])
        .args(PACKAGES.iter().flat_map(|name| ["--package", name]))
        .env("CARGO_TARGET_DIR", dirs.target.join("asan"))
        .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
        .env("RUSTFLAGS", "-Zsanitizer=address")
        .current_dir(&dirs.root);
    let built = host::run(&mut cargo, log, None)?;
    if !built.status.success() {
        return Ok(unit::tally(&built.text, false));
    }
    run_tests(dirs, &built.text, log, &LIBRARIES, sanitized)
}

fn sanitized(tests: &Path) -> Command {
    let mut command = Command::new(tests);
    command
        // Registrations of providers remain for ever, so leaks are not errors.
        .env("ASAN_OPTIONS", format!("detect_leaks=0:exitcode={FOUND}"))
        .env("PROPTEST_CASES", CASES);
    command
}
