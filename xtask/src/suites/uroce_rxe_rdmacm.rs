//! uroce and the kernel's soft-RoCE connect to each other by librdmacm: the connection manager of
//! this host is the kernel's, over `rxe0`, and that of the second host is uroce's.
//!
//! Both ends run over this project's librdmacm: rdma-core's has no connection manager for uroce.
//!
//! Perftest with `-R` is left out: its server listens anew for its second connection, and a client
//! that is quicker is rejected, which happens to uroce's at two of three attempts.
#![forbid(unsafe_code)]

use super::{Case, Check, Ready, Target, applications, case::words};
use crate::guest::setup::{ADDRESS, SECOND_ADDRESS, SECOND_HOST};

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

/// fio's verbs.
const FIO: &[&str] = &["write", "read", "send"];

/// One of the two hosts.
struct Host {
    /// The words before a program of this host.
    before: String,
    ipv4: &'static str,
    ipv6: &'static str,
}

impl Host {
    fn rxe() -> Self {
        Self {
            before: String::new(),
            ipv4: ADDRESS,
            ipv6: ADDRESS_V6,
        }
    }

    /// Here the kernel's connection manager has to be out of sight: where it can be opened, ids
    /// are the kernel's. ip(8) gives the program a separate mount namespace.
    fn uroce(target: &Target) -> Self {
        let helpers = target.helpers.display();
        Self {
            before: format!(
                "ip netns exec {SECOND_HOST} {helpers}/without-rdma env UROCE_DEVICES=v1 "
            ),
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
    for (direction, server, client, fio_ports) in [
        ("to-rxe", &rxe, &uroce, 25100),
        ("to-uroce", &uroce, &rxe, 25200),
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
        cases.push(multicast(direction, server, client));
        for mut case in fio(target, server, client, fio_ports) {
            case.name = format!("{direction}-{}", case.name);
            cases.push(case);
        }
    }
    cases
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
