//! The programs of rdmacm-utils.
#![forbid(unsafe_code)]

use super::{Case, Check, Ready, Target};

/// Name, server, client; `PORT` becomes a port of the case's own, `ADDRESS` the
/// address of the device's interface.
pub type Row = (&'static str, &'static str, &'static str);

const ROWS: &[Row] = &[
    (
        "rping",
        "rping -s -a ADDRESS -p PORT -C 20 -V -v",
        "rping -c -a ADDRESS -p PORT -C 20 -V -v",
    ),
    (
        "rping-own-queue-pair",
        "rping -s -a ADDRESS -p PORT -C 20 -V -q",
        "rping -c -a ADDRESS -p PORT -C 20 -V -q",
    ),
    (
        "rping-64k",
        "rping -s -a ADDRESS -p PORT -C 5 -V -S 65000",
        "rping -c -a ADDRESS -p PORT -C 5 -V -S 65000",
    ),
    (
        "ucmatose",
        "ucmatose -p PORT -c 3 -C 20 -S 512",
        "ucmatose -s ADDRESS -p PORT -c 3 -C 20 -S 512",
    ),
    (
        "udaddy",
        "udaddy -c 2 -C 20",
        "udaddy -s ADDRESS -c 2 -C 20",
    ),
    (
        "rstream",
        "rstream -p PORT -S 4096 -C 50 -I 2 -T v",
        "rstream -s ADDRESS -p PORT -S 4096 -C 50 -I 2 -T v",
    ),
    (
        "rstream-blocking",
        "rstream -p PORT -S 1024 -C 50 -I 2 -T b -T v",
        "rstream -s ADDRESS -p PORT -S 1024 -C 50 -I 2 -T b -T v",
    ),
    (
        "rstream-nonblocking",
        "rstream -p PORT -S 1024 -C 50 -I 2 -T n -T v",
        "rstream -s ADDRESS -p PORT -S 1024 -C 50 -I 2 -T n -T v",
    ),
    (
        "riostream",
        "riostream -p PORT -S 4096 -C 50 -I 2 -T v",
        "riostream -s ADDRESS -p PORT -S 4096 -C 50 -I 2 -T v",
    ),
    (
        "cmtime",
        "cmtime -p PORT",
        "cmtime -s ADDRESS -p PORT -c 10",
    ),
    (
        "rping-any-address",
        "rping -s -p PORT -C 20 -V -v",
        "rping -c -a ADDRESS -p PORT -C 20 -V -v",
    ),
    (
        "ucmatose-migrate",
        "ucmatose -p PORT -c 3 -m",
        "ucmatose -s ADDRESS -p PORT -c 3 -m",
    ),
    (
        "ucmatose-many",
        "ucmatose -p PORT -c 100 -C 2",
        "ucmatose -s ADDRESS -p PORT -c 100 -C 2",
    ),
    (
        "rdma-server",
        "rdma_server -p PORT",
        "rdma_client -s ADDRESS -p PORT",
    ),
    (
        "rdma-xserver-rc",
        "rdma_xserver -p PORT -c r",
        "rdma_xclient -s ADDRESS -p PORT -c r",
    ),
];

/// Each service and way of waiting once, for a second provider.
pub const AGAIN: &[&str] = &[
    "rping",
    "ucmatose",
    "udaddy",
    "rstream-blocking",
    "riostream",
    "mckey",
];

/// Datagram sockets: name, and the client's options.
const DATAGRAMS: &[(&str, &str)] = &[
    ("udpong", "-S 512 -C 50"),
    ("udpong-blocking", "-S 1000 -C 50 -T b"),
    ("udpong-nonblocking", "-S 1000 -C 50 -T n"),
    ("udpong-echo", "-S 1000 -C 50 -T e"),
];

const SERVERS_THAT_STAY: &[&str] = &["cmtime"];

pub fn cases(target: &Target) -> Vec<Case> {
    let all: Vec<_> = ROWS.iter().map(|(name, ..)| *name).collect();
    let mut cases = named(target, &all, 22000);
    cases.push(multicast(target));
    cases.push(copy(target, 22501));
    // Those of rdma-core's library find no route over RoCE, and their clients report it.
    let datagrams = datagrams(target, 22510).into_iter();
    cases.extend(datagrams.map(Case::may_refuse));
    cases
}

/// Cases by name, with ports from this one on.
pub fn named(target: &Target, names: &[&str], port: u16) -> Vec<Case> {
    let wanted = ROWS.iter().filter(|(name, ..)| names.contains(name));
    rows(target, wanted, port)
}

/// The cases of these rows, with ports from this one on.
pub fn rows<'a>(target: &Target, rows: impl Iterator<Item = &'a Row>, port: u16) -> Vec<Case> {
    let rows = rows.zip(port..);
    rows.map(|(row, port)| case(target, row, port)).collect()
}

fn case(target: &Target, (name, server, client): &Row, port: u16) -> Case {
    let port = port.to_string();
    let place = |line: &str| {
        line.replace("PORT", &port)
            .replace("ADDRESS", target.address)
    };
    let (server, client) = (place(server), place(client));
    let case = Case::pair(*name, &server, Ready::RdmaCm, &client)
        // Messages of these programs about wrong data and errors, some with exit status 0.
        .check(Check::NeverSays("data mismatch"))
        .check(Check::NeverSays("failed"));
    if SERVERS_THAT_STAY.contains(name) {
        return case.server_stays();
    }
    case
}

/// The receiver joins a group; the sender, joining too, sends to it.
pub fn multicast(target: &Target) -> Case {
    let line = format!("mckey -m 239.77.1.2 -b {} -C 10", target.address);
    // 239.77.1.2 in the byte order of a little-endian machine.
    let ready = Ready::Multicast("02014DEF");
    Case::pair("mckey", &line, ready, &format!("{line} -s"))
}

/// Datagram sockets, with ports from this one on.
pub fn datagrams(target: &Target, port: u16) -> Vec<Case> {
    let rows = DATAGRAMS.iter().zip(port..);
    rows.map(|((name, options), port)| datagram(name, target.address, options, port))
        .collect()
}

/// Without an address the server of udpong 44 binds to the first one that getaddrinfo(3) names,
/// `::1`.
pub fn datagram(name: &str, address: &str, options: &str, port: u16) -> Case {
    let server = format!("udpong -b {address} -p {port}");
    let client = format!("udpong -s {address} -p {port} {options}");
    Case::pair(name, &server, Ready::Udp(port), &client)
        .server_stays()
        // The row of the results.
        .check(Check::Says("custom"))
}

/// Copies a file and compares the copy.
pub fn copy(target: &Target, port: u16) -> Case {
    let server = format!("rcopy -p {port}");
    let mut case = Case::pair("rcopy", &server, Ready::RdmaCm, "sh -c");
    let address = target.address;
    case.client.push(format!(
        "dir=$(mktemp -d) && trap 'rm -rf $dir' EXIT && \
         head -c 300000 /dev/urandom >$dir/in && \
         rcopy $dir/in {address}:$dir/out -p {port} && \
         cmp $dir/in $dir/out && echo same"
    ));
    case.check(Check::Says("same")).server_stays()
}
