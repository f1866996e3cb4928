//! The programs of rdmacm-utils.
#![forbid(unsafe_code)]

use super::{Case, Check, Ready, Target};

/// Name, server, client; `PORT` becomes a port of the case's own.
type Row = (&'static str, &'static str, &'static str);

const ROWS: &[Row] = &[
    (
        "rping",
        "rping -s -a 10.9.0.1 -p PORT -C 20 -V -v",
        "rping -c -a 10.9.0.1 -p PORT -C 20 -V -v",
    ),
    (
        "rping-own-queue-pair",
        "rping -s -a 10.9.0.1 -p PORT -C 20 -V -q",
        "rping -c -a 10.9.0.1 -p PORT -C 20 -V -q",
    ),
    (
        "rping-64k",
        "rping -s -a 10.9.0.1 -p PORT -C 5 -V -S 65000",
        "rping -c -a 10.9.0.1 -p PORT -C 5 -V -S 65000",
    ),
    (
        "ucmatose",
        "ucmatose -p PORT -c 3 -C 20 -S 512",
        "ucmatose -s 10.9.0.1 -p PORT -c 3 -C 20 -S 512",
    ),
    (
        "udaddy",
        "udaddy -c 2 -C 20",
        "udaddy -s 10.9.0.1 -c 2 -C 20",
    ),
    (
        "rstream",
        "rstream -p PORT -S 4096 -C 50 -I 2 -T v",
        "rstream -s 10.9.0.1 -p PORT -S 4096 -C 50 -I 2 -T v",
    ),
    (
        "rstream-blocking",
        "rstream -p PORT -S 1024 -C 50 -I 2 -T b -T v",
        "rstream -s 10.9.0.1 -p PORT -S 1024 -C 50 -I 2 -T b -T v",
    ),
    (
        "rstream-nonblocking",
        "rstream -p PORT -S 1024 -C 50 -I 2 -T n -T v",
        "rstream -s 10.9.0.1 -p PORT -S 1024 -C 50 -I 2 -T n -T v",
    ),
    (
        "riostream",
        "riostream -p PORT -S 4096 -C 50 -I 2 -T v",
        "riostream -s 10.9.0.1 -p PORT -S 4096 -C 50 -I 2 -T v",
    ),
    (
        "cmtime",
        "cmtime -p PORT",
        "cmtime -s 10.9.0.1 -p PORT -c 10",
    ),
    (
        "rdma-server",
        "rdma_server -p PORT",
        "rdma_client -s 10.9.0.1 -p PORT",
    ),
    (
        "rdma-xserver-rc",
        "rdma_xserver -p PORT -c r",
        "rdma_xclient -s 10.9.0.1 -p PORT -c r",
    ),
];

const SERVERS_THAT_STAY: &[&str] = &["cmtime"];

pub fn cases(_: &Target) -> Vec<Case> {
    let mut ports = 22000..;
    let mut cases: Vec<_> = ROWS
        .iter()
        .map(|row| case(row, ports.next().unwrap_or_default()))
        .collect();
    cases.push(multicast());
    cases.push(datagrams(ports.next().unwrap_or_default()));
    cases.push(copy(ports.next().unwrap_or_default()));
    cases
}

fn case((name, server, client): &Row, port: u16) -> Case {
    let port = port.to_string();
    let server = server.replace("PORT", &port);
    let client = client.replace("PORT", &port);
    let case = Case::pair(*name, &server, Ready::RdmaCm, &client)
        // What these programs print about wrong data and errors, some with exit status 0.
        .check(Check::NeverSays("data mismatch"))
        .check(Check::NeverSays("failed"));
    if SERVERS_THAT_STAY.contains(name) {
        return case.server_stays();
    }
    case
}

/// The receiver joins a group; the sender, joining too, sends to it.
fn multicast() -> Case {
    Case::pair(
        "mckey",
        "mckey -m 239.77.1.2 -b 10.9.0.1 -C 10",
        // 239.77.1.2 in the byte order of a little-endian machine.
        Ready::Multicast("02014DEF"),
        "mckey -m 239.77.1.2 -b 10.9.0.1 -C 10 -s",
    )
}

/// Datagram sockets find no route between two ends of one machine; the client says so.
fn datagrams(port: u16) -> Case {
    let server = format!("udpong -p {port}");
    let client = format!("udpong -s 10.9.0.1 -p {port} -S 512 -C 50");
    Case::pair("udpong", &server, Ready::RdmaCm, &client)
        .server_stays()
        .may_refuse()
}

/// Copies a file and compares the copy.
fn copy(port: u16) -> Case {
    let server = format!("rcopy -p {port}");
    let mut case = Case::pair("rcopy", &server, Ready::RdmaCm, "sh -c");
    case.client.push(format!(
        "head -c 300000 /dev/urandom >/run/rcopy.in && \
         rcopy /run/rcopy.in 10.9.0.1:/run/rcopy.out -p {port} && \
         cmp /run/rcopy.in /run/rcopy.out && echo same"
    ));
    case.check(Check::Says("same")).server_stays()
}
