//! The providers in C of other releases of rdma-core, out of Debian's packages: loaded by the
//! library under test, and driven by the pingpong programs of their release over soft-RoCE.
#![forbid(unsafe_code)]

use super::{Case, Check, Ready, Target};
use crate::chroot::{Chroot, SID, TRIXIE};

pub const NAME: &str = "providers";

/// Program, name, options.
const PINGPONGS: &[(&str, &str, &str)] = &[
    ("ibv_rc_pingpong", "rc", "-c"),
    ("ibv_rc_pingpong", "rc-events", "-c -e -s 65536"),
    ("ibv_rc_pingpong", "rc-new-send", "-c -N"),
    ("ibv_uc_pingpong", "uc-events", "-c -e"),
    ("ibv_ud_pingpong", "ud", "-c -s 1024"),
    ("ibv_srq_pingpong", "srq-events", "-c -e"),
];

/// Ports from here on, some for each release.
const PORT: u16 = 25000;

pub fn cases(target: &Target) -> Vec<Case> {
    let mut cases = Vec::new();
    for (chroot, first) in [TRIXIE, SID].iter().zip((PORT..).step_by(PINGPONGS.len())) {
        cases.push(loaded(target, chroot));
        cases.push(taken(target, chroot));
        let ports = PINGPONGS.iter().zip(first..);
        cases.extend(ports.map(|(row, port)| pingpong(target, chroot, row, port)));
    }
    cases
}

/// The command that runs a program in the chroot.
fn inside(target: &Target, chroot: &Chroot, line: &str) -> String {
    let helpers = target.helpers.display();
    format!("{helpers}/in-chroot {} {line}", chroot.directory())
}

fn name(chroot: &Chroot, what: &str) -> String {
    format!("{}-{what}", chroot.debian)
}

/// All of them load, and register with the library.
fn loaded(target: &Target, chroot: &Chroot) -> Case {
    let line = inside(target, chroot, "python3 -B -c");
    let mut case = Case::single(name(chroot, "all"), &line);
    case.client
        .push(include_str!("../../guest/plugins.py").into());
    case.check(Check::Says(" loaded"))
}

/// The provider of that release drives the device: its file is loaded, and `ibv_devinfo` shows its
/// attributes of the device.
fn taken(target: &Target, chroot: &Chroot) -> Case {
    let line = inside(target, chroot, "sh -c");
    let mut case = Case::single(name(chroot, "taken"), &line);
    let device = target.device;
    let program = format!("ibv_devinfo -v -d {device}");
    let printed = format!("env -u LD_DEBUG_OUTPUT LD_DEBUG=libs {program} 2>&1");
    let wanted = "max_mr_size:|calling init: .*/librxe-rdmav[0-9]*.so";
    case.client.push(format!(
        "{program} >/dev/null && {printed} | grep -E '{wanted}'"
    ));
    let case = case.check(Check::Says("/librxe-rdmav"));
    case.check(Check::Says("max_mr_size:"))
}

fn pingpong(
    target: &Target,
    chroot: &Chroot,
    (program, what, options): &(&str, &str, &str),
    port: u16,
) -> Case {
    let (device, gid) = (target.device, target.gid);
    let line = format!("{program} -d {device} -g {gid} -p {port} -n 200 {options}");
    let server = inside(target, chroot, &line);
    let client = format!("{server} {}", target.address);
    Case::pair(name(chroot, what), &server, Ready::Tcp(port), &client)
        .check(Check::NeverSays("invalid data"))
}
