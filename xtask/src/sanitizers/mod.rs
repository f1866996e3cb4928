//! The unit tests of the packages with unsafe code, under tools that see how memory is used.
#![forbid(unsafe_code)]

pub mod asan;
mod library;
pub mod miri;
pub mod valgrind;

use std::time::Instant;

use anyhow::Result;

use crate::{
    dirs::Dirs,
    report::{Report, Row},
    stage::chosen,
};

/// The stages, in the order in which they run.
pub const STAGES: [&str; 3] = [valgrind::STAGE, asan::STAGE, miri::STAGE];

/// Runs the stages that were asked for.
pub fn stages(dirs: &Dirs, only: &[String], report: &mut Report) -> Result<()> {
    for stage in STAGES.into_iter().filter(|stage| chosen(only, stage)) {
        println!("-- {stage}: unit tests of the packages with unsafe code");
        let start = Instant::now();
        let name = stage.replace(':', "-");
        let log = dirs.work.join(format!("{name}.log"));
        let tally = match stage {
            valgrind::STAGE => valgrind::run(dirs, &log),
            asan::STAGE => asan::run(dirs, &log),
            _ => miri::run(dirs, &log),
        }?;
        report.add(Row::new(stage, start.elapsed(), tally));
    }
    Ok(())
}
