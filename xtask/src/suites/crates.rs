//! Rust's crates for verbs: `ibverbs`, and `sideway` with its tests and examples. They generate
//! bindings from this project's headers.
#![forbid(unsafe_code)]

use super::{Case, Check, Ready, Target};
use crate::crates::{Crate, Crates};

pub const NAME: &str = "crates";

pub const ALL: Crates = Crates(&[
    Crate {
        name: "ibverbs",
        version: "0.9.2",
        // They write and read GUIDs, without a library.
        left_out: &["lib"],
        // Its build script makes rdma-core, for the headers alone.
        env: &[("CMAKE", "true")],
    },
    Crate {
        name: "sideway",
        version: "0.4.3",
        // The first compiles code that must not compile, without a library. The others poll once,
        // some milliseconds after they posted: whether the other side had a processor by then is
        // chance.
        left_out: &["compiletest", "test_atomic", "test_post_send"],
        env: &[],
    },
]);

/// Files of tests, and how many are in each.
const TESTS: &[(&str, &str)] = &[
    ("sideway-lib", "ok. 59 passed; 0 failed"),
    ("sideway-test_cq", "ok. 1 passed; 0 failed"),
    ("sideway-test_mr_and_cq", "ok. 1 passed; 0 failed"),
    ("sideway-test_qp", "ok. 1 passed; 0 failed"),
];

/// Examples that play pingpong, with the calls of a completion queue as it was and as it became.
const PINGPONGS: &[(&str, &str)] = &[
    ("rc_pingpong", ""),
    ("rc_pingpong", "-s 70000 -m 4096 -n 200"),
    ("rc_pingpong", "-t"),
    ("rc_pingpong_split", ""),
    ("rc_pingpong_split", "-s 70000 -m 256 -n 200"),
    ("rc_pingpong_split", "-t"),
];

pub fn cases(target: &Target) -> Vec<Case> {
    let tests = TESTS.iter();
    let mut cases: Vec<_> = tests
        .map(|(name, passed)| Case::single(*name, name).check(Check::Says(passed)))
        .collect();
    let loopback = Case::single("ibverbs-loopback", "ibverbs-loopback");
    cases.push(loopback.check(Check::Says("received")));
    let list = Case::single("sideway-ibv_devinfo", "sideway-ibv_devinfo");
    cases.push(list.check(Check::Says(target.device)));
    let gids = Case::single("sideway-show_gids", "sideway-show_gids");
    cases.push(gids.check(Check::Says("RoCEv2")));
    for ((number, (program, options)), port) in PINGPONGS.iter().enumerate().zip(23600..) {
        let (device, gid) = (target.device, target.gid);
        let line = format!("sideway-{program} -d {device} -g {gid} -p {port} {options}");
        let client = format!("{line} {}", target.address);
        let case = Case::pair(
            format!("sideway-{program}-{number}"),
            &line,
            Ready::Tcp(port),
            &client,
        );
        cases.push(case.check(Check::Says("iters in")));
    }
    cases
}
