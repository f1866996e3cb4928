//! The four pingpong programs of ibverbs-utils.
#![forbid(unsafe_code)]

use std::path::Path;

use super::{Case, Check, Ready};

struct Program {
    name: &'static str,
    sizes: &'static [u32],
    /// Knows `-N`, the work request functions of the extended queue pair.
    new_send: bool,
}

/// A datagram is at most the MTU, 1024 bytes here; the other transports cut into packets.
const PROGRAMS: &[Program] = &[
    Program {
        name: "rc",
        sizes: &[64, 1024, 4096, 65536],
        new_send: true,
    },
    Program {
        name: "uc",
        sizes: &[64, 1024, 4096, 65536],
        new_send: false,
    },
    Program {
        name: "ud",
        sizes: &[64, 512, 1024],
        new_send: false,
    },
    Program {
        name: "srq",
        sizes: &[64, 1024, 4096, 65536],
        new_send: false,
    },
];

/// Options that rxe cannot serve; the answer is an error message and its errno.
const REFUSED: &[(&str, &str)] = &[
    ("rc-timestamps", "ibv_rc_pingpong -d rxe0 -t"),
    ("rc-on-demand-paging", "ibv_rc_pingpong -d rxe0 -o"),
    ("rc-device-memory", "ibv_rc_pingpong -d rxe0 -j"),
    ("rc-no-such-device", "ibv_rc_pingpong -d rxe7"),
    (
        "rc-no-such-port",
        "ibv_rc_pingpong -d rxe0 -i 2 -g 1 10.9.0.1",
    ),
    ("ud-over-mtu", "ibv_ud_pingpong -d rxe0 -g 1 -s 2048"),
    ("srq-on-demand-paging", "ibv_srq_pingpong -d rxe0 -o"),
    ("xsrq", "ibv_xsrq_pingpong -d rxe0 -g 1"),
];

pub fn cases(_: &Path) -> Vec<Case> {
    let mut ports = 20000..;
    let mut cases = Vec::new();
    for program in PROGRAMS {
        for (name, options) in variants(program) {
            let port = ports.next().unwrap_or_default();
            cases.push(case(program, &name, &options, port));
        }
    }
    let refused = REFUSED
        .iter()
        .map(|(name, line)| Case::single(*name, line).may_refuse());
    cases.extend(refused);
    cases
}

fn variants(program: &Program) -> Vec<(String, String)> {
    let mut variants = Vec::new();
    for (way, option) in [("poll", ""), ("events", " -e")] {
        for size in program.sizes {
            variants.push((format!("{way}-{size}"), format!("-g 1 -s {size}{option}")));
        }
        let check = format!("-g 1 -c -s {}{option}", program.sizes.last().unwrap_or(&64));
        variants.push((format!("{way}-check"), check));
    }
    variants.push(("gid-0".into(), "-g 0 -c -s 512".into()));
    if program.new_send {
        variants.push(("new-send".into(), "-g 1 -N -c".into()));
        variants.push(("new-send-events".into(), "-g 1 -N -c -e".into()));
    }
    variants
}

fn case(program: &Program, name: &str, options: &str, port: u16) -> Case {
    // A shared receive queue serves sixteen pairs, each with its own exchanges.
    let rounds = if program.name == "srq" { 20 } else { 200 };
    let line = format!(
        "ibv_{}_pingpong -d rxe0 -p {port} -n {rounds} {options}",
        program.name
    );
    let client = format!("{line} 10.9.0.1");
    Case::pair(
        format!("{}-{name}", program.name),
        &line,
        Ready::Tcp(port),
        &client,
    )
    .check(Check::Says("bytes in"))
    .check(Check::Says("iters in"))
    // What `-c` prints about a wrong byte, with exit status 0.
    .check(Check::NeverSays("invalid data"))
}
