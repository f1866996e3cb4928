//! Running suites one after the other, with a line of result for each test.
#![forbid(unsafe_code)]

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use anyhow::{Context, Result};

use super::{
    case::{self, Stage},
    library::Witness,
    pyverbs,
};
use crate::{
    ctests,
    record::Record,
    suites::{Kind, Run},
    vm::Library,
};

/// Begins the last line of a list that was written to its end; the seconds it took follow.
pub const COMPLETE: &str = "# complete, seconds:";

/// Our own files that suites need.
const HELPERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/guest");

pub fn run(dir: &Path, ours: Option<&Path>, labels: &[String]) -> Result<ExitCode> {
    for label in labels {
        one(dir, ours, label).with_context(|| label.clone())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn one(dir: &Path, ours: Option<&Path>, label: &str) -> Result<()> {
    let (run, suite) = Run::from_label(label).context("unknown suite")?;
    let library = match ours {
        Some(ours) if !run.stock => Library::Ours(ours.to_owned()),
        None if !run.stock => anyhow::bail!("no library to run over"),
        _ => Library::Stock,
    };
    let logs = dir.join(label);
    fs::create_dir_all(&logs)?;
    let mut list = List::create(dir, label)?;
    let stage = |number: usize| -> Result<Stage> {
        let seen = PathBuf::from(format!("/run/xtask/{label}/{number}"));
        Ok(Stage {
            witness: Witness::new(&library, &seen)?,
            write: run.write,
            logs: logs.clone(),
        })
    };
    match suite.kind {
        Kind::Cases(cases) => {
            for (number, case) in cases(Path::new(HELPERS)).iter().enumerate() {
                let record = case::run(case, &stage(number)?);
                list.add(&record.with_context(|| case.name.clone())?)?;
            }
        }
        Kind::Pyverbs { connection_manager } => {
            let runner = Path::new(HELPERS).join("pyverbs_cm.py");
            let runner = connection_manager.then_some(runner);
            for record in pyverbs::run(&stage(0)?, runner.as_deref())? {
                list.add(&record)?;
            }
        }
        Kind::CTests => ctests::run_programs(&library, run, dir)?,
    }
    list.complete()
}

/// The results, written as they come, so that a crash of the machine loses none before it.
struct List {
    file: File,
    label: String,
    begun: Instant,
}

impl List {
    fn create(dir: &Path, label: &str) -> Result<Self> {
        let file = File::create(dir.join(format!("{label}.tsv")))?;
        Ok(Self {
            file,
            label: label.to_owned(),
            begun: Instant::now(),
        })
    }

    fn add(&mut self, record: &Record) -> Result<()> {
        writeln!(self.file, "{record}")?;
        println!("{}: {}", self.label, record.to_string().replace('\t', "  "));
        Ok(())
    }

    fn complete(mut self) -> Result<()> {
        writeln!(self.file, "{COMPLETE} {}", self.begun.elapsed().as_secs())?;
        Ok(())
    }
}
