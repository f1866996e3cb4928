//! uroce and the kernel's soft-RoCE connect to each other by librdmacm: the connection manager of
//! this host is the kernel's, over `rxe0`, and that of the second host is uroce's.
//!
//! Both ends run over this project's librdmacm: rdma-core's has no connection manager for uroce.
//!
//! Perftest with `-R` connects twice: its server listens anew for the second connection, and the
//! kernel rejects a client that is quicker. Perftest then ends: it connects again by objects that
//! it has destroyed. So the requests of uroce's clients are delayed (`late-requests`). A request
//! to uroce waits for the listener.
#![forbid(unsafe_code)]

use super::{Case, Check, Ready, Target, applications, case::words, perftest};
use crate::guest::setup::{ADDRESS, DEVICE, SECOND_ADDRESS, SECOND_HOST};

pub const NAME: &str = "uroce-rxe-rdmacm";

const ADDRESS_V6: &str = "fd00:9::1";
const SECOND_ADDRESS_V6: &str = "fd00:9::2";

/// Name, server, client; `ADDRESS4` and `ADDRESS6` become the addresses of the server, `PORT` a
/// port that no other case has.
const ROWS: &[(&str, &str, &str)] = &[
    (
        "rping",
        "rping -s -a ADDRESS4 -p PORT -C 20 -V -v",
        "rping -c -a ADDRESS4 -p PORT -C 20 -V -v",
    ),
    (
        "rping-ipv6",
        "rping -s -a ADDRESS6 -p PORT -C 20 -V -v",
        "rping -c -a ADDRESS6 -p PORT -C 20 -V -v",
    ),
    (
        "rping-64k",
        "rping -s -p PORT -C 5 -V -S 65000",
        "rping -c -a ADDRESS4 -p PORT -C 5 -V -S 65000",
    ),
    (
        "ucmatose",
        "ucmatose -p PORT -c 3 -C 20 -S 512",
        "ucmatose -s ADDRESS4 -p PORT -c 3 -C 20 -S 512",
    ),
    (
        "ucmatose-many",
        "ucmatose -p PORT -c 100 -C 2",
        "ucmatose -s ADDRESS4 -p PORT -c 100 -C 2",
    ),
    // The queue pair of a datagram service is resolved (SIDR).
    (
        "udaddy",
        "udaddy -c 2 -C 20",
        "udaddy -s ADDRESS4 -c 2 -C 20",
    ),
    (
        "rstream",
        "rstream -p PORT -S 4096 -C 50 -I 2 -T v",
        "rstream -s ADDRESS4 -p PORT -S 4096 -C 50 -I 2 -T v",
    ),
    (
        "riostream",
        "riostream -p PORT -S 4096 -C 50 -I 2 -T v",
        "riostream -s ADDRESS4 -p PORT -S 4096 -C 50 -I 2 -T v",
    ),
];

/// Perftest's operations: name, program, options, size of the row in the table.
const PERFTESTS: &[perftest::Row] = &[
    ("send-lat", "ib_send_lat", "", 2),
    ("send-lat-ud", "ib_send_lat", "-c UD", 2),
    ("send-bw", "ib_send_bw", "-s 4096", 4096),
    ("write-lat", "ib_write_lat", "", 2),
    ("write-bw-4-pairs", "ib_write_bw", "-q 4 -s 4096", 4096),
    ("read-lat", "ib_read_lat", "", 2),
    ("read-bw", "ib_read_bw", "-s 4096", 4096),
    ("atomic-lat", "ib_atomic_lat", "", 8),
];

/// fio's verbs.
const FIO: &[&str] = &["write", "read", "send"];

/// One of the two hosts.
struct Host {
    /// The words before a program of this host.
    before: String,
    /// Those before one whose requests for connections leave later.
    late: String,
    device: &'static str,
    /// The index of the address of IPv4 among the device's GIDs.
    gid: u8,
    ipv4: &'static str,
    ipv6: &'static str,
}

impl Host {
    fn rxe() -> Self {
        Self {
            before: String::new(),
            late: String::new(),
            device: DEVICE,
            gid: 1,
            ipv4: ADDRESS,
            ipv6: ADDRESS_V6,
        }
    }

    /// Here the kernel's connection manager has to be out of sight: where it can be opened, ids
    /// are the kernel's. ip(8) gives the program a separate mount namespace.
    fn uroce(target: &Target) -> Self {
        let helpers = target.helpers.display();
        let before =
            format!("ip netns exec {SECOND_HOST} {helpers}/without-rdma env UROCE_DEVICES=v1 ");
        Self {
            late: format!("{before}{helpers}/late-requests v1 "),
            before,
            device: "uroce_v1",
            gid: 0,
            ipv4: SECOND_ADDRESS,
            ipv6: SECOND_ADDRESS_V6,
        }
    }

    /// A command line of this host, which leads to `server`.
    fn line(&self, line: &str, server: &Self, port: u16) -> String {
        let line = line
            .replace("ADDRESS4", server.ipv4)
            .replace("ADDRESS6", server.ipv6)
            .replace("PORT", &port.to_string());
        format!("{}{line}", self.before)
    }
}

pub fn cases(target: &Target) -> Vec<Case> {
    let mut ports = 25000..;
    let mut port = || ports.next().unwrap_or_default();
    let (rxe, uroce) = (Host::rxe(), Host::uroce(target));
    let mut cases = Vec::new();
    for (direction, server, client, fio_ports, perftest_ports) in [
        ("to-rxe", &rxe, &uroce, 25100, 25150),
        ("to-uroce", &uroce, &rxe, 25200, 25250),
    ] {
        for (name, serve, connect) in ROWS {
            let port = port();
            let serve = server.line(serve, server, port);
            let connect = client.line(connect, server, port);
            let case = pair(direction, name, &serve, &connect)
                // Messages of these programs about wrong data and errors, some with exit status 0.
                .check(Check::NeverSays("data mismatch"))
                .check(Check::NeverSays("failed"));
            cases.push(case);
        }
        for (row, port) in PERFTESTS.iter().zip(perftest_ports..) {
            cases.push(measured(direction, server, client, row, port));
        }
        cases.push(multicast(direction, server, client));
        for mut case in fio(target, server, client, fio_ports) {
            case.name = format!("{direction}-{}", case.name);
            cases.push(case);
        }
    }
    cases
}

/// Perftest, which exchanges its parameters over the first of its two connections.
fn measured(
    direction: &str,
    server: &Host,
    client: &Host,
    (name, program, options, size): &perftest::Row,
    port: u16,
) -> Case {
    let line = |host: &Host| {
        let (device, gid) = (host.device, host.gid);
        format!("{program} -d {device} -x {gid} -F -R -p {port} -n 96 {options}")
    };
    let serve = format!("{}{}", server.before, line(server));
    let connect = format!("{}{} {}", client.late, line(client), server.ipv4);
    let name = format!("perftest-{name}");
    pair(direction, &name, &serve, &connect).check(Check::PerftestRows(vec![*size]))
}

/// fio reads, writes and sends.
fn fio(target: &Target, server: &Host, client: &Host, port: u16) -> Vec<Case> {
    let target = Target {
        address: server.ipv4,
        ..target.clone()
    };
    let mut cases = applications::fio_cases(&target, FIO, port);
    for case in &mut cases {
        if let Some(serving) = &mut case.server {
            serving.words.splice(0..0, words(&server.before));
        }
        case.client.splice(0..0, words(&client.before));
    }
    cases
}

/// The receiver joins a group; the sender, joining too, sends to it.
fn multicast(direction: &str, server: &Host, client: &Host) -> Case {
    let line = "mckey -m 239.77.1.2 -C 10 -b";
    let serve = format!("{}{line} {}", server.before, server.ipv4);
    let connect = format!("{}{line} {} -s", client.before, client.ipv4);
    // 239.77.1.2 in the byte order of a little-endian machine.
    let ready = Ready::Multicast("02014DEF");
    Case::pair(format!("{direction}-mckey"), &serve, ready, &connect)
}

fn pair(direction: &str, name: &str, server: &str, client: &str) -> Case {
    let name = format!("{direction}-{name}");
    Case::pair(name, server, Ready::RdmaCm, client)
}
