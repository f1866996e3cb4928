//! The library that the stages are about. Optimised as it is, it takes longest of all to compile: where
//! the packages are built in the same run, it is the one that they have.
#![forbid(unsafe_code)]

use std::time::Instant;

use anyhow::Result;

use crate::{
    cli,
    dirs::Dirs,
    package::{self, Built},
    report::{Row, Tally},
    stages::{self, BUILD, chosen},
    vm,
};

/// What came of making it.
pub struct Made {
    /// The stage, if that was asked for.
    pub stage: Option<Row>,
    /// The packages, or why there are none, if they were built for it.
    pub packages: Option<Result<Built>>,
}

impl Made {
    /// Whether the stage has failed.
    pub fn failed(&self) -> bool {
        self.stage.as_ref().is_some_and(Row::failed)
    }
}

/// Makes the library, if the stage was asked for or it is `needed`, and answers where it is from then
/// on. Where the packages cannot be built it is made without them.
///
/// # Errors
/// Of the file system; of the compiler, if the stage was not asked for.
pub fn make(dirs: &Dirs, options: &cli::Test, needed: bool) -> Result<(Dirs, Made)> {
    let mut made = Made {
        stage: None,
        packages: None,
    };
    let mut dirs = dirs.clone();
    if options.stock {
        return Ok((dirs, made));
    }
    let Some(stage) = stages::asked(options).find(|stage| stage.name == BUILD) else {
        if needed {
            vm::build_library(&dirs)?;
        }
        return Ok((dirs, made));
    };
    if chosen(&options.only, package::STAGE) {
        let start = Instant::now();
        let packages = made.packages.insert(Built::new(&dirs));
        if let Ok(built) = packages {
            dirs.packaged = Some(built.library());
            made.stage = Some(Row::new(BUILD, start.elapsed(), Tally::one()));
            return Ok((dirs, made));
        }
    }
    made.stage = Some(stages::cargo(&dirs, stage)?);
    Ok((dirs, made))
}
