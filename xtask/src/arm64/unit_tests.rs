//! Unit tests, compiled for arm64.
#![forbid(unsafe_code)]

use anyhow::Result;

use super::{
    inside::{ARM, Inside},
    step::{STAGE, log},
};
use crate::{dirs::Dirs, host, report::Tally, unit};

/// The packages: the library, what providers are built with, the providers for devices of the
/// kernel, the connection manager, the device in user space, and protocols without I/O.
const TESTED: [&str; 9] = [
    "ferroverbs",
    "ferroverbs-kit",
    "ferroverbs-rxe",
    "ferroverbs-siw",
    "ferroverbs-rdmacm",
    "rsocket-protocol",
    "uroce",
    "uroce-cm",
    "uroce-engine",
];

/// Parts of the names of tests that are left out, with the reason.
const LEFT_OUT: [(&str, &str); 16] = [
    ("core::address::l2::tests::namespace", STARTS_ITSELF),
    ("in_a_namespace", STARTS_ITSELF),
    ("sys::denied::tests::this_process_may_make", NO_FORK),
    ("sys::madvise::tests::unmapped_memory", NO_FORK),
    ("export::fork::tests", NO_FORK),
    (
        "sys::other_process::tests",
        "qemu-user has no process_vm_readv(2)",
    ),
    (
        "sys::packet::tests",
        "qemu-user lacks options of packet sockets",
    ),
    ("queue::tests::interleavings", OWN_ORDERS),
    ("attention::interleavings", OWN_ORDERS),
    ("sim::tests", LONG),
    ("sys::application::tests::a_reader_of_the_last", LONG),
    ("sys::forks::tests", LONG),
    ("rendezvous::simulation", LONG),
    ("resizing_under_load", LONG),
    ("the_promised_number_of_regions", LONG),
    ("timers::tests::unused_entries", LONG),
];
const STARTS_ITSELF: &str = "this machine's kernel cannot start a program of arm64";
const NO_FORK: &str = "qemu-user has no MADV_DONTFORK";
const OWN_ORDERS: &str = "loom tries orders of its own, not those of the processor";
const LONG: &str = "it takes many seconds under emulation";

/// Compiles and runs them.
///
/// # Errors
/// Of the command.
pub fn run(dirs: &Dirs, inside: &Inside, tally: &mut Tally) -> Result<()> {
    println!("-- {STAGE}: unit tests of {}", TESTED.join(", "));
    let mut command = inside.cargo(&["test", "--lib", "--no-fail-fast"], &[ARM]);
    command.envs([("PROPTEST_CASES", "8"), ("UROCE_FUZZ_ROUNDS", "50")]);
    for package in TESTED {
        command.args(["--package", package]);
    }
    command.arg("--");
    for (part, reason) in LEFT_OUT {
        println!("-- {STAGE}: without {part}: {reason}");
        command.args(["--skip", part]);
        tally.skip(reason);
    }
    let outcome = host::run_tests(&mut command, &log(dirs, "tests"))?;
    tally.add(unit::tally(&outcome.text, outcome.status.success()));
    Ok(())
}
