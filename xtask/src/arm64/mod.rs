//! The stage `arm64`: the library is compiled for arm64, and run by qemu-user.
//!
//! A chroot of Debian sid ([`crate::chroot::ARM64`]) has the compilers for arm64, Debian's programs
//! and providers of arm64, and qemu-user. In it the stage
//!
//! - compares the layouts of `kit::abi` with the C compiler's for arm64 ([`layouts`]);
//! - compiles the library;
//! - has Debian's `ibv_devinfo` for arm64 show a device of uroce, and Debian's pingpongs and
//!   perftest for arm64 move data over it ([`programs`]);
//! - loads all providers of Debian for arm64 into one program ([`providers`]);
//! - compiles C tests and unit tests for arm64, and runs them ([`c_tests`], [`unit_tests`]);
//! - makes the Debian packages for arm64, examines them, and installs them over Debian's
//!   ([`packages`]); makes the wheel and the archive of the same files ([`dist`]);
//! - has rustc check the library and the programs for riscv64 and ppc64el, and the C compilers for
//!   these the layouts ([`others`]).
//!
//! Besides, machines of 32 bits or with big-endian numbers have to be refused by one sentence.
//!
//! The sources are copied to the cache directory, where only files that differ are written, so a
//! later run compiles only these, also after a fresh clone.
//!
//! # Limits
//! Left out are:
//!
//! - optimisation, but for the packages, because the optimised library takes minutes;
//! - tests that take long under emulation, among them simulations of networks, and those that need
//!   a system call that qemu-user does not have ([`c_tests`] and [`unit_tests`] list them);
//! - tests that start a program of arm64 from within one: the kernel of this machine cannot execute
//!   it without a setting for the whole machine (`binfmt_misc`);
//! - memory order, because an x86 processor that emulates arm64 does not reorder accesses as arm64
//!   does. The shared memory of uroce argues it at each place (`providers/uroce/src/carrier/shm`).
#![forbid(unsafe_code)]

mod c_tests;
mod dist;
pub mod guest;
mod inside;
mod layouts;
mod others;
mod packages;
mod programs;
mod providers;
mod sources;
mod step;
mod unit_tests;

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result, bail};

use crate::{dirs::Dirs, host, report::Tally};
use inside::{ARM, Inside};
use step::{compile, must, one};

pub use step::STAGE;

/// Targets, and whether the library is for them.
const TARGETS: [(&str, bool); 7] = [
    ("x86_64-unknown-linux-gnu", true),
    ("aarch64-unknown-linux-gnu", true),
    ("riscv64gc-unknown-linux-gnu", true),
    ("powerpc64le-unknown-linux-gnu", true),
    ("i686-unknown-linux-gnu", false),
    ("armv7-unknown-linux-gnueabihf", false),
    ("s390x-unknown-linux-gnu", false),
];
/// What cargo takes from a build script as an error that ends the build.
const ERROR: &str = "cargo::error=ferroverbs needs a 64-bit little-endian machine";

/// Runs all of it.
pub fn run(dirs: &Dirs) -> Tally {
    Tally::of(STAGE, |tally| {
        one(tally, "machines that are refused", refused(dirs));
        let Some(inside) = Inside::for_stage(dirs, tally)? else {
            return Ok(());
        };
        one(tally, "layouts", layouts::compare(dirs, &inside, &ARM));
        others::check(dirs, &inside, tally);
        let library = library(dirs, &inside)?;
        tally.passed += 1;
        one(tally, "providers", providers::load(dirs, &inside, &library));
        programs::run(dirs, &inside, &library, tally);
        c_tests::run(dirs, &inside, &library, tally)?;
        unit_tests::run(dirs, &inside, tally)?;
        packages::run(dirs, &inside, tally)?;
        dist::run(dirs, &inside, tally)
    })
}

/// Runs the build script that decides, with the values that rustc has for each target. No standard
/// library of the targets is needed.
fn refused(dirs: &Dirs) -> Result<()> {
    let script = dirs.fresh("arm64-refused")?.join("script");
    let mut compile = Command::new("rustc");
    compile.args(["--edition", "2024", "-o"]).arg(&script);
    compile.arg(dirs.root.join("providers/kit/build.rs"));
    host::must(&mut compile)?;
    for (target, welcome) in TARGETS {
        let values =
            host::must(Command::new("rustc").args(["--print", "cfg", "--target", target]))?;
        let value = |name: &str| {
            let found = values
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            let found = found.with_context(|| format!("rustc has no {name} for {target}"))?;
            anyhow::Ok(found.trim_matches('"').to_owned())
        };
        let mut decide = Command::new(&script);
        decide.env(
            "CARGO_CFG_TARGET_POINTER_WIDTH",
            value("target_pointer_width")?,
        );
        decide.env("CARGO_CFG_TARGET_ENDIAN", value("target_endian")?);
        let printed = host::must(&mut decide)?;
        if printed.contains(ERROR) == welcome {
            bail!("{target}: {printed}");
        }
    }
    Ok(())
}

/// Compiles the libraries; returns their directory, as the chroot names it.
fn library(dirs: &Dirs, inside: &Inside) -> Result<PathBuf> {
    println!("-- {STAGE}: the library");
    let packages = ["ferroverbs", "ferroverbs-rdmacm"];
    let mut build = inside.cargo(&["build"], &[ARM]);
    for package in packages {
        build.args(["--package", package]);
    }
    compile(dirs, "build", &mut build).context("the library does not build")?;
    let built = inside.built();
    for name in ["libibverbs.so", "librdmacm.so"] {
        let mut link = inside.command("ln");
        link.arg("-sf")
            .arg(name)
            .arg(built.join(format!("{name}.1")));
        must(dirs, "link", &mut link)?;
    }
    Ok(built)
}
