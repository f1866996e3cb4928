//! The four pingpong programs of ibverbs-utils.
#![forbid(unsafe_code)]

use super::{Case, Check, Ready, Target};

struct Program {
    name: &'static str,
    /// Whether lost packets are sent again.
    reliable: bool,
    sizes: &'static [u32],
    /// Knows `-N`, the work request functions of the extended queue pair.
    new_send: bool,
}

/// A datagram is at most the MTU, given as 0; the other transports cut into packets.
const PROGRAMS: &[Program] = &[
    Program {
        name: "rc",
        reliable: true,
        sizes: &[64, 1024, 4096, 65536],
        new_send: true,
    },
    Program {
        name: "uc",
        reliable: false,
        sizes: &[64, 1024, 4096, 65536],
        new_send: false,
    },
    Program {
        name: "ud",
        reliable: false,
        sizes: &[64, 512, 0],
        new_send: false,
    },
    Program {
        name: "srq",
        reliable: true,
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

pub fn cases(target: &Target) -> Vec<Case> {
    let mut cases = table(target, &[]);
    let refused = REFUSED
        .iter()
        .map(|(name, line)| Case::single(*name, line).may_refuse());
    cases.extend(refused);
    cases
}

/// The runs that any device can do, and these: program, name, options.
pub fn table(target: &Target, more: &[(&str, &str, &str)]) -> Vec<Case> {
    let mut ports = 20000..;
    let mut cases = Vec::new();
    for program in PROGRAMS.iter().filter(|p| p.reliable || !target.faults) {
        let own = more.iter().filter(|(name, _, _)| *name == program.name);
        let own = own.map(|(_, name, options)| {
            let options = format!("-g {} {options}", target.gid);
            ((*name).to_owned(), options)
        });
        for (name, options) in variants(target, program).into_iter().chain(own) {
            let port = ports.next().unwrap_or_default();
            cases.push(case(target, program, &name, &options, port));
        }
    }
    cases
}

fn variants(target: &Target, program: &Program) -> Vec<(String, String)> {
    let (gid, other) = (target.gid, target.other_gid);
    let mut variants = Vec::new();
    let sizes = program.sizes.iter().map(|size| match size {
        0 => target.mtu,
        size => *size,
    });
    let last = sizes.clone().next_back().unwrap_or(64);
    for (way, option) in [("poll", ""), ("events", " -e")] {
        for size in sizes.clone() {
            let options = format!("-g {gid} -s {size}{option}");
            variants.push((format!("{way}-{size}"), options));
        }
        let check = format!("-g {gid} -c -s {last}{option}");
        variants.push((format!("{way}-check"), check));
    }
    variants.push((format!("gid-{other}"), format!("-g {other} -c -s 512")));
    if program.new_send {
        variants.push(("new-send".into(), format!("-g {gid} -N -c")));
        variants.push(("new-send-events".into(), format!("-g {gid} -N -c -e")));
    }
    variants
}

fn case(target: &Target, program: &Program, name: &str, options: &str, port: u16) -> Case {
    // A shared receive queue serves sixteen pairs, each with its own exchanges.
    let rounds = if program.name == "srq" { 20 } else { 200 };
    let line = format!(
        "ibv_{}_pingpong -d {} -p {port} -n {rounds} {options}",
        program.name, target.device
    );
    let client = format!("{line} {}", target.address);
    Case::pair(
        format!("{}-{name}", program.name),
        &line,
        Ready::Tcp(port),
        &client,
    )
    .check(Check::Says("bytes in"))
    .check(Check::Says("iters in"))
    // The message of `-c` about a wrong byte, with exit status 0.
    .check(Check::NeverSays("invalid data"))
}
