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
    pyverbs,
    setup::{SIW, SecondHost, SoftIwarp},
};
use crate::{
    ctests,
    record::{Record, Word},
    siw,
    suites::{self, Case, Kind, On, Run, Target},
    vm::Library,
};

/// Begins the last line of a list that was written to its end; the seconds it took follow.
pub const COMPLETE: &str = "# complete, seconds:";

/// Our own files that suites need.
pub const HELPERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/guest");

/// What a suite runs on.
pub struct Place<'a> {
    /// Where results go.
    pub dir: &'a Path,
    /// Where programs and the runner may leave what nobody wants later.
    pub room: &'a Path,
    pub library: &'a Library,
    pub target: &'a Target,
    /// Set for every program.
    pub env: Vec<(&'static str, &'static str)>,
    /// Which cases are run, if not all.
    pub run: Option<Run>,
}

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
    if matches!(suite.kind, Kind::CTests) {
        let list = List::create(dir, label)?;
        fs::create_dir_all(dir.join(label))?;
        ctests::run_programs(&library, run, dir)?;
        return list.complete();
    }
    let place = Place {
        dir,
        room: Path::new("/run"),
        library: &library,
        target: &suite.on.target(Path::new(HELPERS)),
        env: run.env(),
        run: Some(run),
    };
    let _device = match suite.on {
        On::Rxe => None,
        On::Siw => Some(SoftIwarp::new(&dir.join(siw::MODULE))?),
    };
    programs(&place, label, &suite.kind)
}

/// Runs a suite of programs and writes its list.
pub fn programs(place: &Place, label: &str, kind: &Kind) -> Result<()> {
    let logs = place.dir.join(label);
    fs::create_dir_all(&logs)?;
    let mut list = List::create(place.dir, label)?;
    let stage = |number: usize, attempt: usize| -> Result<Stage> {
        let seen = place.room.join(format!("xtask/{label}/{number}"));
        Ok(Stage {
            witness: Witness::new(place.library, &seen)?,
            env: suites::uroce::attempt(&place.env, attempt),
            logs: logs.clone(),
        })
    };
    match kind {
        Kind::Cases(cases) | Kind::TwoHosts(cases) => {
            let two = matches!(kind, Kind::TwoHosts(_));
            let _second = two.then(SecondHost::new).transpose()?;
            let wanted = |case: &&Case| place.run.is_none_or(|run| run.has(&case.name));
            let cases = cases(place.target);
            for (number, case) in cases.iter().filter(wanted).enumerate() {
                let record = patiently(place, case, |attempt| {
                    case::run(case, &stage(number, attempt)?)
                });
                list.add(&record.with_context(|| case.name.clone())?)?;
            }
        }
        Kind::Pyverbs { connection_manager } => {
            let runner = place.target.helpers.join("pyverbs_cm.py");
            let runner = connection_manager.then_some(runner);
            let device = place.target.device;
            for record in pyverbs::run(&stage(0, 0)?, device, place.room, runner.as_deref())? {
                list.add(&record)?;
            }
        }
        Kind::CTests => anyhow::bail!("the C tests have a runner of their own"),
    }
    list.complete()
}

/// Runs a case, three times at most if it was unlucky, and says so. On a network that loses packets
/// an end that has what it wants goes away, and if its last acknowledgement is lost the other repeats
/// to nobody until its retries are used up: no protocol can help that. And whoever sends datagrams,
/// or over an unreliable connection, faster than a busy machine takes them loses some. Perftest with
/// events takes what it finds on its stack for a completion if the peer's answer comes first, because
/// the acknowledgement before it was lost. Each attempt has a seed of its own, since a short case may
/// send as many packets each time. Soft-iWARP fails a connection (EINVAL) if the accepting side's first
/// message is there before its reply was looked at (`siw_recv_mpa_rr` of the kernel's siw_cm.c), and
/// the server of ucmatose is the first to send.
fn patiently(place: &Place, case: &Case, run: impl Fn(usize) -> Result<Record>) -> Result<Record> {
    // The last line of the pingpongs, of which one ended well.
    const RETRIES_USED_UP: [&str; 2] = ["retry counter exceeded", "parse WC failed"];
    const WELL: &str = "exit status 0";
    // What perftest says of an unreliable service where messages were lost.
    const LOST: &str = "Total Iters Required";
    const SENT_TOO_EARLY: &str = "return status -22";
    let is_faults = |name: &str| name == "UROCE_FAULTS";
    let loses = place.env.iter().any(|(name, _)| is_faults(name))
        || case.env.iter().any(|(name, _)| is_faults(name));
    let mut record = run(0)?;
    for attempt in 1..suites::uroce::ATTEMPTS {
        let says = |text: &&str| record.reason.contains(*text);
        let used_up = says(&WELL) && RETRIES_USED_UP.iter().any(says);
        let too_early = place.target.device == SIW && says(&SENT_TOO_EARLY);
        let unlucky = too_early || loses && (used_up || has_no_completion(&record.reason));
        if record.word != Word::Fail || !unlucky && !says(&LOST) {
            break;
        }
        println!("once more, after: {}", record.reason);
        record = run(attempt)?;
    }
    Ok(record)
}

/// Whether perftest tells of a completion with a status that there is none of (`enum ibv_wc_status`).
fn has_no_completion(reason: &str) -> bool {
    const LAST_STATUS: u32 = 23;
    let said = reason.split("Failed status ").skip(1);
    said.filter_map(|said| said.split(':').next()?.parse::<i64>().ok())
        .any(|status| u32::try_from(status).is_ok_and(|status| status > LAST_STATUS) || status < 0)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_that_no_completion_has_was_none() {
        let reason =
            |status: &str| format!("client exit status 17: Failed status {status}: wr_id 0");
        for status in ["976236602", "-338249984", "24"] {
            assert!(has_no_completion(&reason(status)), "{status}");
        }
        for status in ["12", "0", "23", "word"] {
            assert!(!has_no_completion(&reason(status)), "{status}");
        }
        let both = format!("{}; server {}", reason("12"), reason("-5"));
        assert!(has_no_completion(&both));
        assert!(!has_no_completion("server hung:"));
    }
}
