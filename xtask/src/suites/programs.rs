//! Our programs: those of `tools/utils` print the same as Debian's and interoperate with them, the
//! doctor examines a kernel that has RDMA, and an example of the crate for Rust runs over it. This
//! has the library as a part of it.
//!
//! They run over any libibverbs, so their results over the stock one are the reference.
#![forbid(unsafe_code)]

use std::{env, path::Path, process::Command};

use anyhow::{Result, bail};

use super::{Case, Check, PREFER_PLUGIN, Ready, Target};
use crate::{
    dirs::{Dirs, EXAMPLES},
    host,
};

pub const NAME: &str = "programs";

/// Where Debian has its programs.
const STOCK: &str = "/usr/bin";

/// The packages that are needed.
const PACKAGES: [&str; 2] = ["ferroverbs-utils", "ferroverbs-doctor"];

/// Lines that have to come to the same words by either program: the name of the test, the line.
const SAME: &[(&str, &str)] = &[
    ("devices", "ibv_devices"),
    ("devinfo", "ibv_devinfo"),
    ("devinfo-verbose", "ibv_devinfo -v"),
    ("devinfo-list", "ibv_devinfo -l"),
    ("devinfo-port", "ibv_devinfo -d rxe0 -i 1 -v"),
    ("devinfo-no-such-device", "ibv_devinfo -d rxe7"),
    ("devinfo-no-such-port", "ibv_devinfo -i 2"),
    ("asyncwatch-no-such-device", "ibv_asyncwatch -d rxe7"),
    ("rc-timestamps", "ibv_rc_pingpong -d rxe0 -t"),
    ("rc-on-demand-paging", "ibv_rc_pingpong -d rxe0 -o"),
    ("rc-device-memory", "ibv_rc_pingpong -d rxe0 -j"),
    (
        "rc-no-such-port",
        "ibv_rc_pingpong -d rxe0 -i 2 -g 1 10.9.0.1",
    ),
    ("ud-over-mtu", "ibv_ud_pingpong -d rxe0 -g 1 -s 2048"),
    ("xsrq", "ibv_xsrq_pingpong -d rxe0 -g 1"),
];

/// Pingpongs: the program, its options.
const PAIRS: &[(&str, &str)] = &[
    ("rc", "-s 4096 -e"),
    ("uc", "-s 4096"),
    ("ud", "-s 512"),
    ("srq", "-s 4096 -e"),
];

/// Builds the programs, beside this one.
pub fn build(dirs: &Dirs) -> Result<()> {
    let packages = PACKAGES.iter().flat_map(|package| ["--package", package]);
    let example = ["--package", "ferroverbs-verbs", "--example", "device"];
    for (words, log) in [
        (packages.collect::<Vec<_>>(), "programs-build.log"),
        (example.into(), "example-build.log"),
    ] {
        let mut cargo = Command::new("cargo");
        cargo.arg("build").args(words).current_dir(&dirs.root);
        let outcome = host::run(&mut cargo, &dirs.work.join(log), None)?;
        if !outcome.status.success() {
            bail!("our programs do not build");
        }
    }
    Ok(())
}

/// One of our programs; they lie where this one lies.
fn own(program: &str) -> String {
    let here = env::current_exe().unwrap_or_default();
    let folder = here.parent().unwrap_or(Path::new("/"));
    folder.join(program).display().to_string()
}

/// A helper script.
fn helper(target: &Target, name: &str) -> String {
    target.helpers.join(name).display().to_string()
}

pub fn cases(target: &Target) -> Vec<Case> {
    let mut cases: Vec<_> = SAME.iter().map(|row| same(target, row)).collect();
    cases.push(events(target));
    cases.extend(pairs(target));
    cases.extend(doctor(target));
    cases.extend(ailing(target));
    cases.push(example(target));
    cases
}

fn same(target: &Target, (name, line): &(&str, &str)) -> Case {
    let program = line.split(' ').next().unwrap_or_default();
    let words = line.strip_prefix(program).unwrap_or_default();
    let (helper, ours) = (helper(target, "same-words"), own(program));
    Case::single(*name, &format!("{helper} {ours} {STOCK}/{program} {words}"))
        .users(2)
        .check(Check::Says("the same: "))
}

fn events(target: &Target) -> Case {
    let helper = helper(target, "same-events");
    let ours = own("ibv_asyncwatch");
    Case::single(
        "asyncwatch",
        &format!("{helper} {ours} {STOCK}/ibv_asyncwatch"),
    )
    .users(2)
    .check(Check::Says("the same: "))
}

/// Ours as the server and as the client of Debian's.
fn pairs(target: &Target) -> Vec<Case> {
    let mut ports = 24000..;
    let mut cases = Vec::new();
    for (kind, options) in PAIRS {
        let program = format!("ibv_{kind}_pingpong");
        let (ours, stock) = (own(&program), format!("{STOCK}/{program}"));
        for (name, server, client) in [("serves", &ours, &stock), ("asks", &stock, &ours)] {
            let port = ports.next().unwrap_or_default();
            let rounds = if *kind == "srq" { 20 } else { 100 };
            let line = format!(
                "-d {} -g {} -p {port} -n {rounds} -c {options}",
                target.device, target.gid
            );
            let server = format!("{server} {line}");
            let client = format!("{client} {line} {}", target.address);
            let case = Case::pair(format!("{kind}-{name}"), &server, Ready::Tcp(port), &client);
            cases.push(
                case.check(Check::Says("iters in"))
                    .check(Check::NeverSays("invalid data")),
            );
        }
    }
    cases
}

/// The crate for programs in Rust.
fn example(target: &Target) -> Case {
    let line = format!(
        "{} {} {}",
        own(&format!("{EXAMPLES}/device")),
        target.device,
        target.address
    );
    Case::single("crate-device", &format!("env -u {PREFER_PLUGIN} {line}"))
        .users(0)
        .check(Check::Says("messages, RDMA and atomic operations\n"))
        .check(Check::Says("\ndatagrams by address\n"))
}

/// The doctor on a machine that lacks nothing; over the library's own provider for the device as
/// users have it, and over the one in C.
fn doctor(target: &Target) -> Vec<Case> {
    let doctor = own("ibv_doctor");
    let plain = format!("env -u {PREFER_PLUGIN} {doctor}");
    let well = |name: &str, line: &str| {
        Case::single(name, line)
            .check(Check::Says("rxe0: port 1 active, MTU 1024, "))
            .check(Check::Says("note [mtu] rxe0 port 1: "))
            .check(Check::Says("\n0 problems, 0 warnings; can be used: rxe0\n"))
    };
    let found = "device=rxe0\nport=1\ngid_index=1\ngid=::ffff:10.9.0.1\nmtu=1024\nstate=active\n";
    let nothing = helper(target, "ends-with");
    vec![
        well("doctor", &plain),
        well("doctor-plugin", &doctor),
        Case::single("doctor-json", &format!("{plain} --json"))
            .check(Check::Says("\"usable\":[\"rxe0\"]")),
        Case::single("doctor-netdev", &format!("{plain} --netdev v0")).check(Check::Says(found)),
        Case::single("doctor-address", &format!("{plain} --netdev 10.9.0.1"))
            .check(Check::Says(found)),
        Case::single("doctor-netdev-json", &format!("{plain} --netdev v0 --json"))
            .check(Check::Says("\"gid_index\":1")),
        Case::single(
            "doctor-netdev-none",
            &format!("{nothing} 1 {plain} --netdev v1"),
        )
        .check(Check::Says("no RDMA device has a RoCE v2 GID of v1")),
        Case::pair(
            "doctor-pair",
            &format!("{plain} --pair"),
            Ready::Tcp(18516),
            &format!("{plain} --pair {}", target.address),
        )
        .check(Check::Says("read: ok, "))
        .check(Check::Says("\npassed\n"))
        .check(Check::NeverSays("problem")),
    ]
}

/// The doctor where something is wrong with the kernel's device.
fn ailing(target: &Target) -> Vec<Case> {
    let (doctor, problem) = (own("ibv_doctor"), helper(target, "ends-with"));
    let plain = format!("{problem} 1 env -u {PREFER_PLUGIN} {doctor}");
    let carrier = helper(target, "without-carrier");
    let node = "/dev/infiniband/uverbs0";
    vec![
        Case::single("doctor-port-down", &format!("{carrier} {plain}"))
            .check(Check::Says("problem [port-down] rxe0 port 1: ")),
        shell(
            "doctor-no-node",
            "unshare --mount",
            &format!("mount -t tmpfs none /dev/infiniband && exec {plain}"),
        )
        // `node-missing`; in a container, which the virtual machine looks like, the container is
        // the cause.
        .check(Check::Says("1. problem ["))
        .check(Check::Says("] rxe0: "))
        .check(Check::Says("1 problem, 0 warnings; no device can be used"))
        .check(Check::NeverSays("provider-")),
        // Root without the right to pass over modes.
        shell(
            "doctor-permission",
            "",
            &format!(
                "trap 'chmod 666 {node}' EXIT; chmod 444 {node}; \
                 setpriv --bounding-set=-dac_override {plain}"
            ),
        )
        .check(Check::Says("problem [permission] rxe0: ")),
        // And without the right to pin memory beyond the limit.
        Case::single(
            "doctor-memlock",
            &format!("prlimit --memlock=65536:65536 setpriv --bounding-set=-ipc_lock {plain}"),
        )
        .check(Check::Says(
            "problem [memlock] rxe0: Registering 1048576 bytes failed: RLIMIT_MEMLOCK is 65536 bytes",
        )),
    ]
}

/// A case of shell's words.
fn shell(name: &str, before: &str, script: &str) -> Case {
    let mut case = Case::single(name, &format!("{before} sh -c"));
    case.client.push(script.to_owned());
    case
}
