//! Runs the tests of libraries under a tool.
#![forbid(unsafe_code)]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::{dirs::Dirs, host, report::Tally, unit};

/// The exit status of a program with an error that the tool has found, which no test has.
pub(super) const FOUND: i32 = 99;

/// A library whose tests are run.
pub(super) struct Library {
    pub(super) name: &'static str,
    /// Of its package, in the checkout.
    pub(super) folder: &'static str,
    /// For the tests: which, if not all.
    pub(super) words: &'static [&'static str],
}

/// loom switches stacks by itself, which tools take for an error or need minutes for; and the code
/// that it tests is safe.
pub(super) const KIT: Library = Library {
    name: "kit",
    folder: "providers/kit",
    words: &["--skip", "queue::tests::interleavings"],
};

impl Library {
    pub(super) const fn whole(name: &'static str, folder: &'static str) -> Self {
        let words = &[];
        Self {
            name,
            folder,
            words,
        }
    }
}

/// Runs the tests of libraries that cargo has built, saying `text`, each by the command that
/// `under` makes for a program.
pub(super) fn run_tests(
    dirs: &Dirs,
    text: &str,
    log: &Path,
    libraries: &[Library],
    under: impl Fn(&Path) -> Command,
) -> Result<Tally> {
    let mut tally = Tally::default();
    for library in libraries {
        let tests = dirs.root.join(binary(text, library.name)?);
        let log = log.with_extension(format!("{}.log", library.name));
        let mut command = under(&tests);
        command
            .args(library.words)
            .current_dir(dirs.root.join(library.folder));
        let outcome = host::run(&mut command, &log, None)?;
        let found = outcome.status.code() == Some(FOUND);
        tally.add(unit::tally(
            &outcome.text,
            outcome.status.success() || found,
        ));
        if found {
            tally.fail(format!("errors were found; see {}", log.display()));
        }
    }
    Ok(tally)
}

/// Whether a command is there and succeeds, as one that prints its version does.
pub(super) fn answers(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// The tests of a library, from cargo's output: `Executable unittests src/lib.rs (PATH)`.
pub(super) fn binary(text: &str, name: &str) -> Result<PathBuf> {
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
