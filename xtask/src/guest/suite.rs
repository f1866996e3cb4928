//! Running suites one after the other, with a line of result for each test.
#![forbid(unsafe_code)]

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    process::ExitCode,
    time::Instant,
};

use anyhow::{Context, Result};

use super::{
    case::{self, Stage},
    library::Witness,
    patience,
    place::{Surroundings, helpers},
    pyverbs,
    setup::{SecondHost, SoftIwarp},
    uroce,
};
use crate::{
    ctests,
    dirs::RDMACM_BESIDE,
    provided,
    record::Record,
    siw,
    suites::{self, Case, Kind, On, Run},
    vm::Library,
};

/// Begins the last line of a list that was written to its end; the seconds it took follow.
pub const COMPLETE: &str = "# complete, seconds:";

pub fn run(dir: &Path, ours: Option<&Path>, labels: &[String]) -> Result<ExitCode> {
    for label in labels {
        one(dir, ours, label).with_context(|| label.clone())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn one(dir: &Path, ours: Option<&Path>, label: &str) -> Result<()> {
    if let Some(label) = label.strip_prefix(uroce::STAGE) {
        return uroce::run(dir, ours.context("no library to run over")?, label);
    }
    let (run, suite) = Run::from_label(label).context("unknown suite")?;
    let library = match ours {
        Some(ours) if run.cm => Library::WithRdmacm(ours.join(RDMACM_BESIDE)),
        Some(ours) if !run.stock => Library::Ours(ours.to_owned()),
        None if !run.stock => anyhow::bail!("no library to run over"),
        _ => Library::Stock,
    };
    if matches!(suite.kind, Kind::CTests) {
        let list = List::create(dir, label)?;
        fs::create_dir_all(dir.join(label))?;
        ctests::run_programs(&library, run, dir)?;
        return list.complete();
    }
    let room = Path::new("/run");
    let place = Surroundings {
        dir,
        room,
        library: &library,
        target: &suite.on.target(&helpers()),
        env: run.env(),
        paths: provided::variables(run.suite, dir, room)?,
        run: Some(run),
    };
    let _device = match suite.on {
        On::Rxe => None,
        On::Siw => Some(SoftIwarp::new(&dir.join(siw::MODULE))?),
    };
    programs(&place, label, &suite.kind)
}

/// Runs a suite of programs and writes its list.
pub fn programs(place: &Surroundings, label: &str, kind: &Kind) -> Result<()> {
    let logs = place.dir.join(label);
    fs::create_dir_all(&logs)?;
    let mut list = List::create(place.dir, label)?;
    let stage = |number: usize, attempt: usize| -> Result<Stage> {
        let seen = place.room.join(format!("xtask/{label}/{number}"));
        Ok(Stage {
            witness: Witness::new(place.library, &seen)?,
            env: suites::uroce::attempt(&place.env, attempt),
            paths: place.paths.clone(),
            logs: logs.clone(),
            device: place.target.device,
        })
    };
    match kind {
        Kind::Cases(cases) | Kind::TwoHosts(cases) => {
            let two = matches!(kind, Kind::TwoHosts(_));
            let _second = two.then(SecondHost::new).transpose()?;
            let wanted = |case: &&Case| place.run.is_none_or(|run| run.has(&case.name));
            let cases = cases(place.target);
            for (number, case) in cases.iter().filter(wanted).enumerate() {
                let record = patience::run(place, case, |attempt| {
                    case::run(case, &stage(number, attempt)?)
                });
                list.add(&record.with_context(|| case.name.clone())?)?;
            }
        }
        Kind::Pyverbs(which) => {
            for record in pyverbs::run(&stage(0, 0)?, place, *which)? {
                list.add(&record)?;
            }
        }
        Kind::CTests => anyhow::bail!("the C tests have a separate runner"),
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
