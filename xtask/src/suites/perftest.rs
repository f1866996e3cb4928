//! The programs of perftest 4.5.
#![forbid(unsafe_code)]

use super::{Case, Check, Ready, Target};

/// Name, program, options, size of the row in the table.
pub type Row = (&'static str, &'static str, &'static str, u64);

const ROWS: &[Row] = &[
    ("send-lat", "ib_send_lat", "", 2),
    ("send-lat-64k", "ib_send_lat", "-s 65536", 65536),
    ("send-lat-events", "ib_send_lat", "-e", 2),
    ("send-lat-uc", "ib_send_lat", "-c UC", 2),
    ("send-lat-ud", "ib_send_lat", "-c UD", 2),
    ("send-lat-ud-events", "ib_send_lat", "-c UD -e", 2),
    ("send-lat-srq", "ib_send_lat", "--use-srq", 2),
    ("send-lat-inline", "ib_send_lat", "-I 64 -s 64", 64),
    ("send-lat-old-post", "ib_send_lat", "--use_old_post_send", 2),
    ("send-bw", "ib_send_bw", "", 65536),
    ("send-bw-events", "ib_send_bw", "-e", 65536),
    ("send-bw-both-ways", "ib_send_bw", "-b", 65536),
    ("send-bw-uc", "ib_send_bw", "-c UC", 65536),
    ("send-bw-ud", "ib_send_bw", "-c UD -s 1024", 1024),
    ("send-bw-srq", "ib_send_bw", "--use-srq", 65536),
    (
        "send-bw-srq-4-pairs",
        "ib_send_bw",
        "--use-srq -q 4 -s 4096",
        4096,
    ),
    ("send-bw-4-pairs", "ib_send_bw", "-q 4 -s 4096", 4096),
    ("send-bw-list", "ib_send_bw", "-l 8 -s 4096", 4096),
    ("write-lat", "ib_write_lat", "", 2),
    ("write-lat-uc", "ib_write_lat", "-c UC", 2),
    (
        "write-lat-old-post",
        "ib_write_lat",
        "--use_old_post_send",
        2,
    ),
    ("write-bw", "ib_write_bw", "", 65536),
    ("write-bw-uc", "ib_write_bw", "-c UC", 65536),
    ("write-bw-both-ways", "ib_write_bw", "-b", 65536),
    ("write-bw-4-pairs", "ib_write_bw", "-q 4 -s 4096", 4096),
    ("write-bw-list", "ib_write_bw", "-l 8 -s 4096", 4096),
    ("read-lat", "ib_read_lat", "", 2),
    ("read-lat-events", "ib_read_lat", "-e", 2),
    ("read-bw", "ib_read_bw", "", 65536),
    ("read-bw-events", "ib_read_bw", "-e", 65536),
    ("read-bw-4-pairs", "ib_read_bw", "-q 4 -s 4096", 4096),
    (
        "atomic-lat-fetch-add",
        "ib_atomic_lat",
        "-A FETCH_AND_ADD",
        8,
    ),
    (
        "atomic-lat-compare-swap",
        "ib_atomic_lat",
        "-A CMP_AND_SWAP",
        8,
    ),
    ("atomic-lat-events", "ib_atomic_lat", "-e", 8),
    ("atomic-bw", "ib_atomic_bw", "", 8),
    ("atomic-bw-both-ways", "ib_atomic_bw", "-b", 8),
];

/// Connected by the connection manager. Perftest connects twice, and its server listens anew in
/// between. It has no unreliable connections there.
const CONNECTED: &[Row] = &[
    ("send-lat-cm", "ib_send_lat", "-R", 2),
    ("send-lat-cm-ud", "ib_send_lat", "-R -c UD", 2),
    ("send-bw-cm", "ib_send_bw", "-R -s 4096", 4096),
    ("write-lat-cm", "ib_write_lat", "-R", 2),
    ("write-bw-cm", "ib_write_bw", "-R -s 4096", 4096),
    (
        "write-bw-cm-4-pairs",
        "ib_write_bw",
        "-R -q 4 -s 4096",
        4096,
    ),
    ("read-lat-cm", "ib_read_lat", "-R", 2),
    ("read-bw-cm", "ib_read_bw", "-R -s 4096", 4096),
    ("atomic-lat-cm", "ib_atomic_lat", "-R", 8),
    ("atomic-bw-cm", "ib_atomic_bw", "-R", 8),
];

/// Cases that run once more over this project's librdmacm: those of [`CONNECTED`].
pub const BY_CM: &[&str] = &[
    "send-lat-cm",
    "send-lat-cm-ud",
    "send-bw-cm",
    "write-lat-cm",
    "write-bw-cm",
    "write-bw-cm-4-pairs",
    "read-lat-cm",
    "read-bw-cm",
    "atomic-lat-cm",
    "atomic-bw-cm",
];

/// Each service, operation and way of posting and waiting once, for a second provider.
pub const AGAIN: &[&str] = &[
    "send-lat",
    "send-lat-64k",
    "send-lat-uc",
    "send-lat-ud-events",
    "send-lat-srq",
    "send-lat-inline",
    "send-lat-old-post",
    "send-lat-cm-ud",
    "send-bw-both-ways",
    "send-bw-srq-4-pairs",
    "send-bw-list",
    "write-lat-cm",
    "write-bw-uc",
    "read-bw-4-pairs",
    "read-lat-events",
    "atomic-lat-compare-swap",
    "atomic-bw-both-ways",
    "xrc",
];

/// Runs over every size from 2 bytes to 8 MiB; few exchanges, for they add up to 16 MiB each. For
/// each size perftest finds out once more how fast the processor's clock is, for latencies twice as
/// long.
const ALL_SIZES: &[(&str, &str)] = &[
    ("send-bw-all", "ib_send_bw"),
    ("write-bw-all", "ib_write_bw"),
    ("read-bw-all", "ib_read_bw"),
];

const REFUSED: &[(&str, &str)] = &[
    ("xrc", "ib_send_lat -c XRC"),
    ("srd", "ib_send_lat -c SRD"),
    ("on-demand-paging", "ib_write_bw --odp"),
];

pub fn cases(target: &Target) -> Vec<Case> {
    let mut cases = table(target, &[]);
    cases.extend(refused(target, REFUSED));
    cases
}

/// Features that the device lacks: name, program and options.
pub fn refused(target: &Target, lines: &[(&str, &str)]) -> Vec<Case> {
    let mut cases = Vec::new();
    for ((name, line), port) in lines.iter().zip(21900..) {
        let line = format!("{line} {} -n 100", common(target));
        cases.push(pair(target, name, &line, port, Vec::new()).may_refuse());
    }
    cases
}

/// The rows that any device can run, and these.
pub fn table(target: &Target, more: &[Row]) -> Vec<Case> {
    let rows: Vec<_> = ROWS
        .iter()
        .chain(more)
        .filter(|(_, _, options, _)| !target.faults || reliable(options))
        .copied()
        .collect();
    let mut cases = self::rows(target, &rows, 21000);
    if target.connection_manager {
        cases.extend(connected(target, 21700));
    }
    let common = common(target);
    for ((name, program), port) in ALL_SIZES.iter().zip(21800..) {
        let line = format!("{program} {common} -n 5 --all");
        let sizes = (1..=23).map(|power| 1 << power).collect();
        cases.push(pair(target, name, &line, port, sizes));
    }
    cases
}

/// The rows of connections, with ports from this one on.
pub fn connected(target: &Target, port: u16) -> Vec<Case> {
    rows(target, CONNECTED, port)
}

/// These rows, with ports from this one on.
pub fn rows(target: &Target, rows: &[Row], port: u16) -> Vec<Case> {
    let common = common(target);
    let case = |((name, program, options, size), port): (&Row, u16)| {
        // A multiple of the longest list of work requests.
        let line = format!("{program} {common} -n 96 {options}");
        pair(target, name, &line, port, vec![*size])
    };
    rows.iter().zip(port..).map(case).collect()
}

fn common(target: &Target) -> String {
    format!("-d {} -x {} -F", target.device, target.gid)
}

/// With -R the exchange of parameters itself goes over the connection manager.
fn over_cm(options: &str) -> bool {
    options.split_whitespace().any(|word| word == "-R")
}

/// Whether lost packets are sent again.
fn reliable(options: &str) -> bool {
    !["-c UC", "-c UD"].iter().any(|kind| options.contains(kind))
}

fn pair(target: &Target, name: &str, line: &str, port: u16, sizes: Vec<u64>) -> Case {
    let server = format!("{line} -p {port}");
    let client = format!("{server} {}", target.address);
    let ready = if over_cm(line) {
        Ready::RdmaCm
    } else {
        Ready::Tcp(port)
    };
    Case::pair(name, &server, ready, &client).check(Check::PerftestRows(sizes))
}
