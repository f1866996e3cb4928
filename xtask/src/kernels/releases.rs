//! The stages `release-guest`: the kernels of Debian 13 and sid in QEMU's emulation, with their
//! soft-RoCE, and over the root of the release: its programs, its rdma-core's provider and tests.
//!
//! `release-guest:trixie:pyverbs` is the suite `pyverbs` on Debian 13's kernel. Later kernels have
//! operations that Linux 6.1 lacks, and sid's changes, so there are no lists: each suite runs over
//! the release's own libraries as well, and those results are the reference. A whole run leaves the
//! stages out: the suites of a release take minutes in emulation.
#![forbid(unsafe_code)]

use std::env;

use anyhow::{Context, Result};

use super::{Against, Boot, Processor, Programs};
use crate::{
    chroot::{Chroot, SID, TRIXIE},
    dirs::Dirs,
    report::{Report, Tally},
    vm,
};

/// Begins the names of the stages.
pub const STAGE: &str = "release-guest";

const AMD64: Processor = Processor {
    architecture: "amd64",
    name: "max",
    emulator: "qemu-system-x86",
};

const LABELS: &[&str] = &[
    "pyverbs.stock",
    "pyverbs",
    "pyverbs.rust",
    "pyverbs-cm.stock",
    "pyverbs-cm.cm",
    "pingpong.stock",
    "pingpong",
    "pingpong.rust",
];

const fn boot(name: &'static str, release: Chroot) -> Boot {
    Boot {
        group: STAGE,
        name,
        chroot: release.booted(),
        processor: AMD64,
        pages: 4096,
        against: Against::Stock,
        labels: LABELS,
    }
}

pub const BOOTS: [Boot; 2] = [boot("trixie", TRIXIE), boot("sid", SID)];

/// The names of the stages.
pub fn names() -> impl Iterator<Item = String> {
    BOOTS.iter().flat_map(Boot::stages)
}

/// Runs the stages that were asked for.
pub fn stages(dirs: &Dirs, only: &[String], report: &mut Report) {
    let boots = BOOTS.iter();
    let boots = boots.map(|boot| (boot, boot.named(only)));
    let boots = boots.filter(|(_, labels)| !labels.is_empty()).collect();
    super::stages(dirs, boots, |tally| prepare(dirs, tally), report);
}

fn prepare(dirs: &Dirs, tally: &mut Tally) -> Result<Option<Programs>> {
    if env::consts::ARCH != "x86_64" {
        tally.skip("the releases' kernels are for x86-64");
        return Ok(None);
    }
    if dirs.packaged.is_none() {
        vm::build_library(dirs)?;
    }
    let library = dirs.built()?;
    Ok(Some(Programs {
        libraries: library
            .parent()
            .context("a file is in a folder")?
            .to_owned(),
        program: dirs.program.clone(),
        source: dirs.root.clone(),
    }))
}
