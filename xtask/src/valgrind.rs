//! The unit tests of the packages that have unsafe code, under valgrind's memcheck.
#![forbid(unsafe_code)]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::{dirs::Dirs, host, report::Tally, unit};

/// A library whose tests are run, and the folder of its package.
const LIBRARIES: [(&str, &str); 2] = [("kit", "providers/kit"), ("ibverbs", "")];

/// The exit status of a program with an error, which no test has.
const FOUND: i32 = 99;

/// Properties are tried on this many inputs instead of 256: each step takes some thirty times as
/// long, and memory is used in the same way for most inputs.
const CASES: &str = "8";

/// Compiles what `cargo test` compiles, and runs the tests of these libraries.
pub fn run(dirs: &Dirs, log: &Path) -> Result<Tally> {
    let mut cargo = Command::new("cargo");
    cargo
        // All packages, as in the stage before: the same features, so nothing is compiled anew.
        .args(["test", "--workspace", "--no-run"])
        .current_dir(&dirs.root);
    let built = host::run(&mut cargo, log, None)?;
    if !built.status.success() {
        return Ok(unit::tally(&built.text, false));
    }
    let mut tally = Tally::default();
    for (name, folder) in LIBRARIES {
        let tests = dirs.root.join(binary(&built.text, name)?);
        let log = log.with_extension(format!("{name}.log"));
        let mut command = memcheck(dirs, &tests);
        command.current_dir(dirs.root.join(folder));
        let outcome = host::run(&mut command, &log, None)?;
        let found = outcome.status.code() == Some(FOUND);
        tally.add(unit::tally(
            &outcome.text,
            outcome.status.success() || found,
        ));
        if found {
            tally.fail(format!("memcheck has found errors; see {}", log.display()));
        }
    }
    Ok(tally)
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

/// The tests of a library, from what cargo prints: `Executable unittests src/lib.rs (PATH)`.
fn binary(text: &str, name: &str) -> Result<PathBuf> {
    let of_library = |path: &&str| {
        let file = path.rsplit('/').next().unwrap_or_default();
        file.rsplit_once('-').is_some_and(|(stem, _)| stem == name)
    };
    let mut found = text
        .lines()
        .filter_map(|line| {
            line.trim()
                .strip_prefix("Executable unittests src/lib.rs (")
        })
        .filter_map(|rest| rest.strip_suffix(')'))
        .filter(of_library);
    let path = found
        .next()
        .with_context(|| format!("cargo names no tests of {name}"))?;
    if found.next().is_some() {
        bail!("cargo names the tests of {name} twice");
    }
    Ok(path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
    Finished `test` profile [unoptimized + debuginfo] target(s) in 0.04s
  Executable unittests src/lib.rs (/t/debug/deps/kit-3c6a)
  Executable unittests src/lib.rs (/t/debug/deps/kit_ctest-a7ee)
  Executable unittests src/main.rs (/t/debug/deps/ibverbs-1111)
  Executable unittests src/lib.rs (/t/debug/deps/ibverbs-67af)
";

    #[test]
    fn the_tests_of_a_library_are_found_by_its_name() -> Result<()> {
        assert_eq!(binary(TEXT, "kit")?, Path::new("/t/debug/deps/kit-3c6a"));
        let path = Path::new("/t/debug/deps/ibverbs-67af");
        assert_eq!(binary(TEXT, "ibverbs")?, path);
        Ok(())
    }

    #[test]
    fn tests_that_are_not_there_are_an_error() {
        assert!(binary(TEXT, "xtask").is_err());
        assert!(binary(&TEXT.repeat(2), "kit").is_err());
    }
}
