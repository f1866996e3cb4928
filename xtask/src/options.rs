//! The options of the commands, as the command line (`cli`) has them.
#![forbid(unsafe_code)]

use std::{ffi::OsString, path::PathBuf, time::Duration};

#[derive(Debug, Default, PartialEq)]
pub struct Test {
    pub only: Vec<String>,
    pub stock: bool,
    pub bless: bool,
    pub list: bool,
    /// The time for the whole run.
    pub within: Option<Duration>,
}

#[derive(Debug, Default, PartialEq)]
pub struct Vm {
    pub stock: bool,
    /// Over the librdmacm built here, too.
    pub rdmacm: bool,
    pub write: bool,
    pub command: Vec<OsString>,
}

/// Of a file to be given to others.
#[derive(Debug, Default, PartialEq)]
pub struct Dist {
    /// Its directory, if it was named.
    pub into: Option<PathBuf>,
    /// The target of rustc that it is for, if not this machine.
    pub target: Option<String>,
}

#[derive(Debug, Default, PartialEq)]
pub struct Bench {
    pub write: bool,
    /// The only part to measure.
    pub part: Option<Part>,
    /// An earlier build of the library, in place of the stock one.
    pub before: Option<PathBuf>,
}

#[derive(Debug, PartialEq)]
pub struct BenchUroce {
    pub write: bool,
    /// Measure only the curves of the plots.
    pub plots_alone: bool,
    pub rounds: usize,
    /// An earlier build of the library, in place of the peers.
    pub before: Option<PathBuf>,
}

/// Which part of the work; both without a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Guest,
    Fork,
}
