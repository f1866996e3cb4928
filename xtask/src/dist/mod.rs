//! The stages of files that are given to others: each file is made, used, and removed.
//!
//! They take the library of the Debian packages if those are built in the same run.
#![forbid(unsafe_code)]

mod dockerfile;
mod image;
mod perfetto;
mod programs;
mod tarball;
mod wheel;

use crate::{dirs::Dirs, report::Tally};

/// A stage: its name, and its tests.
type Stage = (&'static str, fn(&Dirs) -> Tally);

pub const STAGES: &[Stage] = &[
    (wheel::STAGE, wheel::run),
    (tarball::STAGE, tarball::run),
    (image::STAGE, image::run),
    (perfetto::STAGE, perfetto::run),
];
