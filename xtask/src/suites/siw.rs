//! Programs over the kernel's soft-iWARP, whose connections are the connection manager's.
#![forbid(unsafe_code)]

use super::{Case, Ready, Target, perftest, rdmacm};

pub const NAME: &str = "siw";

/// Programs of rdmacm-utils that need neither datagrams nor features that iWARP's connection
/// manager lacks.
const CONNECTIONS: &[&str] = &[
    "rping",
    "rping-64k",
    "ucmatose",
    "rstream",
    "rstream-blocking",
    "rdma-server",
];

/// Once more over librdmacm as it is built here.
pub const BY_CM: &[&str] = &["rping", "ucmatose"];

const BENCHMARKS: &[perftest::Row] = &[
    ("write-lat", "ib_write_lat", "-R", 2),
    ("send-lat-events", "ib_send_lat", "-R -e", 2),
    ("send-bw", "ib_send_bw", "-R -s 4096", 4096),
    ("send-lat-inline", "ib_send_lat", "-R -I 64 -s 64", 64),
    ("write-bw-list", "ib_write_bw", "-R -l 8 -s 4096", 4096),
    ("read-lat", "ib_read_lat", "-R", 2),
    ("send-bw-srq", "ib_send_bw", "-R --use-srq -s 4096", 4096),
    ("send-lat-srq-events", "ib_send_lat", "-R --use-srq -e", 2),
];

/// Ports from here on.
const PORT: u16 = 24000;

pub fn cases(target: &Target) -> Vec<Case> {
    let mut cases = rdmacm::named(target, CONNECTIONS, PORT);
    cases.extend(perftest::rows(target, BENCHMARKS, PORT + 100));
    let (connections, benchmarks) = cases.split_at_mut(CONNECTIONS.len());
    for (cases, port) in [(connections, PORT), (benchmarks, PORT + 100)] {
        for (case, port) in cases.iter_mut().zip(port..) {
            listen_by_tcp(case, port);
        }
    }
    cases
}

/// The connection manager reports that a server listens when it does so on the first of two
/// devices; iWARP's part of that is a TCP socket.
fn listen_by_tcp(case: &mut Case, port: u16) {
    if let Some(server) = &mut case.server {
        server.ready = Ready::Tcp(port);
    }
}
