//! The place of a suite: a library, a device, directories.
#![forbid(unsafe_code)]

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::{
    suites::{Run, Target},
    vm::Library,
};

/// Our own files that suites need.
pub const HELPERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/guest");

/// The sources in a machine that does not see this machine's file system.
pub const SOURCES: &str = "/mnt/source";

/// Where those files are in a virtual machine.
pub fn helpers() -> PathBuf {
    match sources_are_seen() {
        true => Path::new(SOURCES).join("xtask/guest"),
        false => HELPERS.into(),
    }
}

/// Whether this is a machine with the root of another release or architecture.
pub fn sources_are_seen() -> bool {
    Path::new(SOURCES).join("xtask/guest").is_dir()
}

/// The place of a suite.
pub struct Surroundings<'a> {
    /// Where results go.
    pub dir: &'a Path,
    /// The directory for temporary files of programs and of the runner.
    pub room: &'a Path,
    pub library: &'a Library,
    pub target: &'a Target,
    /// Set for every program.
    pub env: Vec<(&'static str, &'static str)>,
    /// Set for every program, too.
    pub paths: Vec<(&'static str, OsString)>,
    /// Which cases are run, if not all.
    pub run: Option<Run>,
}
