//! The library that the stages are about. Optimised as it is, it takes longest of all to compile:
//! where the packages are built in the same run, it is the one that goes into them.
#![forbid(unsafe_code)]

use std::time::Instant;

use anyhow::Result;

use crate::{
    cargo,
    dirs::Dirs,
    options::Test,
    package::{self, Compiled},
    report::{Row, Tally},
    stage::{BUILD, chosen},
    vm,
};

/// The results of making it.
pub struct Made {
    /// The stage, if that was asked for.
    pub stage: Option<Row>,
    /// The contents of the packages, or the reason why there are none, if they were compiled.
    pub packages: Option<Result<Compiled>>,
}

impl Made {
    /// Whether the stage has failed.
    pub fn failed(&self) -> bool {
        self.stage.as_ref().is_some_and(Row::failed)
    }
}

/// Makes the library, if the stage was asked for or it is `needed`, and answers where it is from
/// then on. Where that cannot be done for the packages it is made without them.
///
/// # Errors
/// Of the file system; of the compiler, if the stage was not asked for.
pub fn make(dirs: &Dirs, options: &Test, needed: bool) -> Result<(Dirs, Made)> {
    let mut made = Made {
        stage: None,
        packages: None,
    };
    let mut dirs = dirs.clone();
    if options.stock {
        return Ok((dirs, made));
    }
    let Some(stage) = cargo::asked(options).find(|stage| stage.name == BUILD) else {
        if needed {
            vm::build_library(&dirs)?;
        }
        return Ok((dirs, made));
    };
    if chosen(&options.only, package::STAGE) {
        let start = Instant::now();
        let packages = made.packages.insert(Compiled::new(&dirs));
        if let Ok(compiled) = packages {
            dirs.packaged = Some(compiled.library());
            made.stage = Some(Row::new(BUILD, start.elapsed(), Tally::one()));
            return Ok((dirs, made));
        }
    }
    made.stage = Some(cargo::run(&dirs, stage)?);
    Ok((dirs, made))
}
