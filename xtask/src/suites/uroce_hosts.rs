//! uroce between four hosts on one Ethernet: UCX between each two of them, OpenMPI over UCX with a
//! rank on each, and multicast. `guest/four-hosts` makes the hosts, `guest/on-host` runs programs
//! there.
#![forbid(unsafe_code)]

use std::path::Path;

use super::uroce_ways::IN_SYSFS;
use super::{Case, Check, Ready, Target, mpi, ucx};

/// Bytes of UCX's messages: two packets of the largest datagram that the frames hold, and more.
const UCX_TEST: &str = "-t tag_bw -s 8192 -n 50 -w 2";
/// Hosts are numbered from 1.
const HOSTS: u8 = 4;
/// Processes that load the library on a host where a program sees the device in place of the
/// kernel's: the program, and those that list the devices.
pub const USERS_IN_SYSFS: usize = 3;

/// The setting that makes only `eth0` a device on each host.
pub const DEVICES: (&str, &str) = ("UROCE_DEVICES", "eth0");

/// The device of each host: its GIDs are 10.9.4.N and fd00:9:4::N. Addresses are the cases' own.
pub fn target(helpers: &Path) -> Target {
    Target {
        device: "uroce_eth0",
        address: "10.9.4.1",
        mtu: 1024,
        ..super::uroce_ways::target(helpers, false)
    }
}

/// Name, index of the source's GID, and group, byte by byte: 239.1.1.1 and ff0e::1:1.
const GROUPS: &[(&str, u8, &str)] = &[
    ("ipv4", 0, "0:0:0:0:0:0:0:0:0:0:255:255:239:1:1:1"),
    ("ipv6", 1, "255:14:0:0:0:0:0:0:0:0:0:0:0:1:0:1"),
];

pub fn cases(target: &Target) -> Vec<Case> {
    let mut ports = 24000..;
    let mut port = || ports.next().unwrap_or_default();
    let mut cases = Vec::new();
    for group in GROUPS {
        cases.push(multicast(target, group, port()));
    }
    for (transport, layers) in ucx::TRANSPORTS {
        for (server, client) in pairs() {
            let name = format!("{transport}-ucx-{server}-{client}");
            let case = ucx_pair(target, name, (server, client), port());
            cases.push(ucx::environment(case, target, layers));
        }
        let case = ucx_pair(target, format!("{transport}-ucx-ipv6"), (1, 2), port());
        let case = ucx::environment(case, target, layers);
        cases.push(case.env("UCX_IB_GID_INDEX", &target.other_gid.to_string()));
        for exchange in mpi::EXCHANGES {
            let case = ranks(target, format!("{transport}-mpi-{exchange}"), exchange);
            cases.push(ucx::environment(case, target, layers));
        }
    }
    cases
}

/// Each two of the hosts.
fn pairs() -> impl Iterator<Item = (u8, u8)> {
    (1..=HOSTS).flat_map(|server| (server + 1..=HOSTS).map(move |client| (server, client)))
}

fn address(host: u8) -> String {
    format!("10.9.4.{host}")
}

/// The words before a program that runs on this host.
pub fn on(target: &Target, host: u8) -> String {
    format!("{}/on-host {host}", target.helpers.display())
}

/// Datagrams to a group of each other's.
fn multicast(target: &Target, (family, gid, group): &(&str, u8, &str), port: u16) -> Case {
    let device = target.device;
    let line = format!("ib_send_lat -d {device} -x {gid} -F -n 96 -c UD -g -M {group} -p {port}");
    let server = format!("{} {line}", on(target, 1));
    let client = format!("{} {line} {}", on(target, 2), address(1));
    Case::pair(
        format!("multicast-{family}"),
        &server,
        Ready::Tcp(port),
        &client,
    )
    .check(Check::PerftestRows(vec![2]))
}

fn ucx_pair(target: &Target, name: String, (server, client): (u8, u8), port: u16) -> Case {
    let program = format!("{IN_SYSFS} ucx_perftest -p {port}");
    let to = address(server);
    let server = format!("{} {program}", on(target, server));
    let client = format!("{} {program} {to} {UCX_TEST}", on(target, client));
    Case::pair(name, &server, Ready::Tcp(port), &client)
        .users(2 * USERS_IN_SYSFS)
        .check(Check::Says("Final:"))
        .check(Check::NeverSays("ERROR"))
}

/// A program with a rank on each host, started on the first.
fn ranks(target: &Target, name: String, exchange: &str) -> Case {
    let hosts: Vec<_> = (1..=HOSTS).map(address).collect();
    let helpers = target.helpers.display();
    let line = format!(
        "{} mpirun {} --host {} -n {HOSTS} --mca plm_rsh_agent {helpers}/on-host \
         --mca oob_tcp_if_include eth0 {IN_SYSFS} /usr/bin/python3 -B {helpers}/exchange.py {exchange} {HOSTS}",
        on(target, 1),
        mpi::OPTIONS,
        hosts.join(","),
    );
    Case::single(name, &line)
        .users(usize::from(HOSTS) * USERS_IN_SYSFS)
        .check(Check::Says("4 ranks agree"))
}
