//! Programs over uroce under valgrind's memcheck, both ends: no read of uninitialised bytes, none
//! beyond an allocation, and no leak. By packets alone, because memcheck's kernel has no
//! pidfd_open(2), without which there is no shared memory.
//!
//! Timeouts are those of slow peers: by `patiently` for the pingpongs, by an option of perftest.
#![forbid(unsafe_code)]

use super::{Case, Check, Ready, Target, uroce_ways::BY_UDP};

/// In fair turns: otherwise a spinning thread makes the progress thread wait for longer than a peer
/// does.
const MEMCHECK: &str = "valgrind -q --fair-sched=try --error-exitcode=99";
/// Memory that is lost at the end counts, too.
const LOST: &str = "--leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite";
/// perftest itself loses memory.
const NOT_LOST: &str = "--leak-check=no";
/// perftest's option for a local ACK timeout of 4 seconds.
const PATIENT: &str = "-u 20";

/// Pingpongs: name, program with options.
const PINGPONGS: &[(&str, &str)] = &[
    ("rc", "ibv_rc_pingpong -n 100 -c"),
    ("rc-events", "ibv_rc_pingpong -n 100 -e"),
    ("rc-new-send", "ibv_rc_pingpong -n 100 -N -t"),
    ("rc-on-demand-paging", "ibv_rc_pingpong -n 100 -o -c"),
    ("rc-device-memory", "ibv_rc_pingpong -n 100 -j -c"),
    ("uc", "ibv_uc_pingpong -n 100"),
    ("ud", "ibv_ud_pingpong -n 100 -s 1024"),
    ("srq", "ibv_srq_pingpong -n 100"),
    ("xsrq", "ibv_xsrq_pingpong -n 50"),
];

/// Those that measure bandwidth send memory that they have not written.
const PERFTESTS: &[(&str, &str)] = &[
    ("send-latency", "ib_send_lat -n 100 -s 64"),
    ("send-latency-events", "ib_send_lat -n 100 -s 64 -e"),
    ("write-latency", "ib_write_lat -n 100 -s 5000"),
    ("read-latency", "ib_read_lat -n 100 -s 5000"),
    ("atomic-latency", "ib_atomic_lat -n 100"),
];

/// The port of each case's server.
const PORT: u16 = 18600;

pub fn cases(target: &Target) -> Vec<Case> {
    let Target { device, gid, .. } = target;
    let patiently = format!("{}/patiently", target.helpers.display());
    let pingpong = |(name, program): &(&str, &str)| {
        let line = format!("{patiently} {MEMCHECK} {LOST} {program} -d {device} -g {gid}");
        (format!("pingpong-{name}"), line)
    };
    let perftest = |(name, program): &(&str, &str)| {
        let line = format!("{MEMCHECK} {NOT_LOST} {program} -d {device} -x {gid} -F {PATIENT}");
        (format!("perftest-{name}"), line)
    };
    let all = PINGPONGS.iter().map(pingpong);
    let all = all.chain(PERFTESTS.iter().map(perftest));
    (PORT..)
        .zip(all)
        .map(|(port, (name, line))| {
            let server = format!("{line} -p {port}");
            let client = format!("{server} {}", target.address);
            Case::pair(name, &server, Ready::Tcp(port), &client)
                .env(BY_UDP.0, BY_UDP.1)
                .check(Check::NeverSays("== "))
        })
        .collect()
}
