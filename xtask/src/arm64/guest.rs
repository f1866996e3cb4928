//! The stages `arm64-guest`: Debian's kernels for arm64 in QEMU's emulation of a whole machine,
//! with the kernel's soft-RoCE.
//!
//! A boot of [`crate::kernels`] runs suites of the stages `guest` with the same expected lists:
//! `arm64-guest:16k:pingpong` is the suite `pingpong` on a kernel with pages of 16 KiB. This
//! program is compiled for arm64, linked statically, and starts the suites.
//!
//! - Debian 12's kernel 6.1 has pages of 4 KiB: rdma-core's tests and pingpongs over rxe, over
//!   stock and over this library, with rdma-core's provider and with the built-in one.
//! - Debian 13's kernel for pages of 16 KiB: the pingpongs over rxe in the same ways.
//! - Both: the pingpongs over uroce, in shared memory.
//! - 4 KiB: rdma-core's tests over uroce.
//!
//! The library is the optimised one of the packages: without optimisation, an emulated processor
//! needs half a second for a message of 1 MiB, and requests of the pingpongs time out.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::{
    inside::{ARM, Inside},
    step::compile,
};
use crate::{
    chroot::{BOOKWORM_ARM64, TRIXIE_ARM64_16K},
    dirs::Dirs,
    kernels::{self, Against, Boot, Processor, Programs},
    report::{Report, Tally},
};

/// Begins the names of the stages.
pub const STAGE: &str = "arm64-guest";

const PROCESSOR: Processor = Processor {
    architecture: ARM.name,
    // It can have pages of 16 KiB; virtme-ng's choice, a Cortex-A57, cannot.
    name: "neoverse-n1",
    emulator: "qemu-system-arm",
};
/// This program's file.
const PROGRAM: &str = "xtask";
/// Its target directory: other programs are linked with shared libraries.
const STATIC: &str = "static";

pub const BOOTS: [Boot; 2] = [
    Boot {
        group: STAGE,
        name: "4k",
        chroot: BOOKWORM_ARM64,
        processor: PROCESSOR,
        pages: 4096,
        against: Against::Lists,
        labels: &[
            "pyverbs.stock",
            "pyverbs",
            "pyverbs.rust",
            "pingpong.stock",
            "pingpong",
            "pingpong.rust",
            "uroce:pingpong",
            "uroce:pyverbs",
        ],
    },
    Boot {
        group: STAGE,
        name: "16k",
        chroot: TRIXIE_ARM64_16K,
        processor: PROCESSOR,
        pages: 16384,
        against: Against::Lists,
        labels: &[
            "pingpong.stock",
            "pingpong",
            "pingpong.rust",
            "uroce:pingpong",
        ],
    },
];

/// The names of the stages.
pub fn names() -> impl Iterator<Item = String> {
    BOOTS.iter().flat_map(Boot::stages)
}

/// Runs the stages that were asked for.
pub fn stages(dirs: &Dirs, only: &[String], report: &mut Report) {
    let boots = BOOTS.iter().map(|boot| (boot, boot.named(only)));
    let boots = boots.filter(|(_, labels)| !labels.is_empty()).collect();
    let mut inside = None;
    let prepare = |tally: &mut Tally| {
        inside = Inside::for_stage(dirs, tally)?;
        let inside = inside.as_ref();
        inside.map(|inside| programs(dirs, inside)).transpose()
    };
    // The chroot's directories are in use until the machines have ended.
    kernels::stages(dirs, boots, prepare, report);
}

fn programs(dirs: &Dirs, inside: &Inside) -> Result<Programs> {
    Ok(Programs {
        libraries: libraries(dirs, inside)?,
        program: program(dirs, inside)?,
        source: inside.source().to_owned(),
    })
}

/// Compiles the libraries as they are packaged.
fn libraries(dirs: &Dirs, inside: &Inside) -> Result<PathBuf> {
    println!("-- {STAGE}: the libraries");
    let mut build = inside.cargo(&["build", "--release"], &[ARM]);
    for package in ["ferroverbs", "ferroverbs-rdmacm"] {
        build.args(["--package", package]);
    }
    compile(dirs, "guest-build", &mut build).context("the libraries do not build for arm64")?;
    Ok(inside.results().0.join(ARM.target).join("release"))
}

/// Compiles this program for arm64, to run with the C library of any release.
fn program(dirs: &Dirs, inside: &Inside) -> Result<PathBuf> {
    println!("-- {STAGE}: the program that runs the suites");
    let mut build = inside.cargo(&["build", "--package", "xtask"], &[ARM]);
    let (outside, within) = inside.results();
    build.env("CARGO_TARGET_DIR", within.join(STATIC));
    build.env("RUSTFLAGS", "-C target-feature=+crt-static");
    compile(dirs, "xtask", &mut build).context("this program does not build for arm64")?;
    Ok(outside
        .join(STATIC)
        .join(ARM.target)
        .join("debug")
        .join(PROGRAM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_suites_can_be_asked_for() {
        let chosen = |asked: &str| {
            let only = [asked.to_owned()];
            BOOTS.iter().map(|boot| boot.named(&only).len()).collect()
        };
        let all: Vec<usize> = chosen(STAGE);
        assert_eq!(all, BOOTS.map(|boot| boot.labels.len()));
        assert_eq!(chosen("arm64-guest:16k"), [0, 4]);
        assert_eq!(chosen("arm64-guest:4k:uroce:pingpong"), [1, 0]);
        assert_eq!(chosen("arm64-guest:4k:pingpong"), [3, 0]);
        assert_eq!(chosen("arm64"), [0, 0]);
        assert!(BOOTS.iter().all(|boot| boot.named(&[]).is_empty()));
    }
}
