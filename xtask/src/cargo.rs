//! The stages that are one command of cargo.
#![forbid(unsafe_code)]

use std::{path::Path, process::Command, time::Instant};

use anyhow::Result;

use crate::{
    archives,
    dirs::Dirs,
    host,
    options::Test,
    report::{Row, Tally},
    stage::{BUILD, FMT, UNIT, VERBS, chosen},
    unit,
};

/// A stage on this machine: its name, cargo's words, and the variable that makes warnings errors.
pub struct Cargo {
    pub name: &'static str,
    words: &'static [&'static str],
    env: Option<(&'static str, &'static str)>,
}

const ARCHIVES: &str = "archives";

pub const CARGO: &[Cargo] = &[
    Cargo {
        name: FMT,
        words: &["fmt", "--all", "--", "--check"],
        env: None,
    },
    Cargo {
        name: "clippy",
        words: &[
            "clippy",
            "--workspace",
            // Their sources are those of `ferroverbs` and `ferroverbs-rdmacm`, whose dependencies
            // for tests they lack.
            "--exclude",
            "ferroverbs-static",
            "--exclude",
            "ferroverbs-rdmacm-static",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
        env: None,
    },
    Cargo {
        name: "doc",
        words: &[
            "doc",
            "--workspace",
            "--no-deps",
            "--document-private-items",
        ],
        env: Some(("RUSTDOCFLAGS", "-D warnings")),
    },
    Cargo {
        name: ARCHIVES,
        // Those of docs/rust.md, which cargo compiles from the archives, without the repository.
        words: &[
            "package",
            "--quiet",
            "--allow-dirty",
            "--package",
            "ferroverbs-kit",
            "--package",
            "uroce-engine",
            "--package",
            "uroce-cm",
            "--package",
            "uroce",
            "--package",
            "ferroverbs-rxe",
            "--package",
            "ferroverbs-siw",
            "--package",
            "ferroverbs-static",
            "--package",
            "rsocket-protocol",
            "--package",
            "ferroverbs-rdmacm-static",
            "--package",
            "ferroverbs-verbs",
        ],
        env: None,
    },
    Cargo {
        name: BUILD,
        words: &[
            "build",
            "--release",
            "--package",
            "ferroverbs",
            "--package",
            "ferroverbs-rdmacm",
            "--package",
            "ferroverbs-rspreload",
        ],
        env: None,
    },
    Cargo {
        name: UNIT,
        // The programs have the crate `verbs` with other features, so its tests are a stage.
        words: &[
            "test",
            "--workspace",
            "--exclude",
            "ferroverbs-verbs",
            "--no-fail-fast",
        ],
        env: None,
    },
    Cargo {
        name: VERBS,
        words: &[
            "test",
            "--package",
            "ferroverbs-verbs",
            "--features",
            "tokio",
            "--no-fail-fast",
        ],
        env: None,
    },
];

/// The stages that were asked for.
pub fn asked(options: &Test) -> impl Iterator<Item = &'static Cargo> {
    CARGO
        .iter()
        .filter(|stage| chosen(&options.only, stage.name))
}

/// Runs a stage.
///
/// # Errors
/// Of starting it, of its log.
pub fn run(dirs: &Dirs, stage: &Cargo) -> Result<Row> {
    println!("-- {}: cargo {}", stage.name, stage.words.join(" "));
    let start = Instant::now();
    let log = dirs.work.join(format!("{}.log", stage.name));
    let mut command = Command::new("cargo");
    command
        .args(stage.words)
        .envs(stage.env)
        .envs(dirs.packaged.iter().map(|library| (NAMED, library)))
        .current_dir(&dirs.root);
    if stage.name == ARCHIVES {
        archives::forget(dirs)?;
        command.arg("--target-dir").arg(archives::target(dirs));
    }
    let outcome = match stage.name {
        UNIT | VERBS => host::run_tests(&mut command, &log)?,
        _ => host::run(&mut command, &log, None)?,
    };
    let ended_well = outcome.status.success();
    let tally = if matches!(stage.name, UNIT | VERBS) {
        unit::tally(&outcome.text, ended_well)
    } else {
        one_test(stage.name, ended_well, &log)
    };
    Ok(Row::new(stage.name, start.elapsed(), tally))
}

/// Names the library for tests that would build it.
const NAMED: &str = "FERROVERBS_LIBRARY";

fn one_test(name: &str, ended_well: bool, log: &Path) -> Tally {
    if ended_well {
        Tally::one()
    } else {
        Tally::failure(format!("{name}: see {}", log.display()))
    }
}
