//! The suites of the user-space device `uroce_lo`, which needs no RDMA in the kernel.
#![forbid(unsafe_code)]

use std::path::Path;

use super::{
    Case, Check, Kind, PYVERBS_56, PYVERBS_65, Pyverbs, Ready, Target, ceph, clients, crates, dapl,
    gloo, inference, intel_mpi, libfabric, memcheck, mpi, mpi4py, mpich, openshmem, perftest,
    pingpong, ucx, uroce_hosts, uroce_rdmacm,
    uroce_ways::{IN_SYSFS, target},
};
use crate::chroot::{SID, TRIXIE};

pub struct Suite {
    pub name: &'static str,
    pub kind: Kind,
    /// Run a second time on a bad network, with the cases that can be expected to end there.
    pub with_faults: bool,
    /// Run by packets alone, too.
    pub by_udp: bool,
    pub around: Around,
}

impl Suite {
    /// Whether its programs run over this project's librdmacm: rdma-core's has no connection
    /// manager for uroce.
    pub fn connects(&self) -> bool {
        match self.kind {
            Kind::Pyverbs(Pyverbs::ConnectionManager | Pyverbs::Of(_)) => true,
            _ => [uroce_rdmacm::NAME, intel_mpi::NAME].contains(&self.name),
        }
    }
}

/// The surroundings of a suite, beside a separate network namespace.
#[derive(Clone, Copy, PartialEq)]
pub enum Around {
    Nothing,
    /// Its programs see the device where the kernel shows its own.
    Sysfs,
    /// Four hosts on one Ethernet.
    Hosts,
}

/// The script that makes four hosts.
const FOUR_HOSTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/guest/four-hosts");

impl Around {
    /// The script that a program is started by so that it has these surroundings.
    pub fn script(self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::Sysfs => Some(IN_SYSFS),
            Self::Hosts => Some(FOUR_HOSTS),
        }
    }

    /// The setting that makes only the suite's device.
    pub fn devices(self) -> (&'static str, &'static str) {
        match self {
            Self::Nothing | Self::Sysfs => DEVICES,
            Self::Hosts => uroce_hosts::DEVICES,
        }
    }

    /// Where that is.
    pub fn place(self) -> &'static str {
        match self {
            Self::Nothing | Self::Sysfs => "on lo",
            Self::Hosts => "between four hosts",
        }
    }

    /// The device.
    pub fn target(self, helpers: &Path, faults: bool) -> Target {
        match self {
            Self::Nothing | Self::Sysfs => target(helpers, faults),
            Self::Hosts => uroce_hosts::target(helpers),
        }
    }
}

pub const SUITES: &[Suite] = &[
    // Takes longest: whatever begins last leaves a processor idle.
    Suite {
        name: "hosts",
        kind: Kind::Cases(uroce_hosts::cases),
        with_faults: false,
        by_udp: false,
        around: Around::Hosts,
    },
    Suite {
        name: "pingpong",
        kind: Kind::Cases(pingpongs),
        with_faults: true,
        by_udp: true,
        around: Around::Nothing,
    },
    Suite {
        name: "perftest",
        kind: Kind::Cases(perftests),
        with_faults: true,
        by_udp: false,
        around: Around::Nothing,
    },
    Suite {
        name: "pyverbs",
        kind: Kind::Pyverbs(Pyverbs::AnyDevice),
        with_faults: false,
        by_udp: true,
        around: Around::Nothing,
    },
    Suite {
        name: "pyverbs-cm",
        kind: Kind::Pyverbs(Pyverbs::ConnectionManager),
        with_faults: false,
        by_udp: true,
        around: Around::Sysfs,
    },
    Suite {
        name: PYVERBS_56,
        kind: Kind::Pyverbs(Pyverbs::Of(TRIXIE)),
        with_faults: false,
        by_udp: true,
        around: Around::Nothing,
    },
    Suite {
        name: PYVERBS_65,
        kind: Kind::Pyverbs(Pyverbs::Of(SID)),
        with_faults: false,
        by_udp: true,
        around: Around::Nothing,
    },
    Suite {
        name: "ucx",
        kind: Kind::Cases(ucx::cases),
        with_faults: false,
        by_udp: false,
        around: Around::Sysfs,
    },
    Suite {
        name: "libfabric",
        kind: Kind::Cases(libfabric::cases),
        with_faults: false,
        by_udp: true,
        around: Around::Nothing,
    },
    Suite {
        name: uroce_rdmacm::NAME,
        kind: Kind::Cases(uroce_rdmacm::cases),
        with_faults: false,
        by_udp: true,
        around: Around::Nothing,
    },
    Suite {
        name: "dapl",
        kind: Kind::Cases(dapl::cases),
        with_faults: false,
        by_udp: true,
        around: Around::Nothing,
    },
    Suite {
        name: "gloo",
        kind: Kind::Cases(gloo::cases),
        with_faults: false,
        by_udp: true,
        around: Around::Nothing,
    },
    Suite {
        name: "mpich",
        kind: Kind::Cases(mpich::cases),
        with_faults: false,
        by_udp: false,
        around: Around::Sysfs,
    },
    Suite {
        name: mpi4py::NAME,
        kind: Kind::Cases(mpi4py::cases),
        with_faults: false,
        by_udp: false,
        around: Around::Sysfs,
    },
    Suite {
        name: intel_mpi::NAME,
        kind: Kind::Cases(intel_mpi::cases),
        with_faults: false,
        by_udp: false,
        around: Around::Hosts,
    },
    Suite {
        name: "openshmem",
        kind: Kind::Cases(openshmem::cases),
        with_faults: false,
        by_udp: false,
        around: Around::Sysfs,
    },
    Suite {
        name: inference::MOONCAKE,
        kind: Kind::Cases(inference::mooncake),
        with_faults: false,
        by_udp: true,
        around: Around::Sysfs,
    },
    Suite {
        name: inference::NIXL,
        kind: Kind::Cases(inference::nixl),
        with_faults: false,
        by_udp: true,
        around: Around::Sysfs,
    },
    Suite {
        name: clients::NAME,
        kind: Kind::Cases(clients::cases),
        with_faults: false,
        by_udp: true,
        around: Around::Nothing,
    },
    Suite {
        name: crates::NAME,
        kind: Kind::Cases(crates::cases),
        with_faults: false,
        by_udp: true,
        around: Around::Sysfs,
    },
    Suite {
        name: "ceph",
        kind: Kind::Cases(ceph::cases),
        with_faults: false,
        by_udp: true,
        around: Around::Nothing,
    },
    Suite {
        name: "memcheck",
        kind: Kind::Cases(memcheck::cases),
        with_faults: false,
        by_udp: false,
        around: Around::Nothing,
    },
    Suite {
        name: "mpi",
        kind: Kind::Cases(mpi::cases_here),
        with_faults: false,
        by_udp: false,
        around: Around::Sysfs,
    },
];

/// The setting that makes only `lo` a device.
pub const DEVICES: (&str, &str) = ("UROCE_DEVICES", "lo");
/// Settings of `lo` in a new network, as words of ip(8). IPv6 multicast has no route over it, and
/// one of another type than `local` would drop sent packets.
pub const LOOPBACK: &[&str] = &[
    "link set lo up multicast on",
    "-6 route replace local ff00::/8 dev lo",
];
/// A network that loses and swaps packets, the same ones in each run.
pub const FAULTS: (&str, &str) = ("UROCE_FAULTS", SEEDS[0]);
const SEEDS: [&str; ATTEMPTS] = [
    "loss=1%,reorder=1%,seed=7",
    "loss=1%,reorder=1%,seed=8",
    "loss=1%,reorder=1%,seed=9",
];
/// How often a case is run at most on such a network.
pub const ATTEMPTS: usize = 3;

/// The environment of an attempt: another seed.
pub fn attempt(
    env: &[(&'static str, &'static str)],
    attempt: usize,
) -> Vec<(&'static str, &'static str)> {
    let seed = |(name, value)| match SEEDS.get(attempt) {
        Some(faults) if name == FAULTS.0 => (name, *faults),
        _ => (name, value),
    };
    env.iter().copied().map(seed).collect()
}

/// Beside those that any device supports: program, name, options.
const PINGPONGS: &[(&str, &str, &str)] = &[
    ("rc", "timestamps", "-t"),
    ("rc", "timestamps-new-send", "-t -N -c"),
    ("rc", "on-demand-paging", "-o -c"),
    ("rc", "on-demand-paging-events", "-o -c -e"),
    ("rc", "on-demand-paging-prefetch", "-o -P -c"),
    ("rc", "implicit-on-demand-paging", "-O -c"),
    ("rc", "device-memory", "-j -c"),
    ("rc", "device-memory-new-send", "-j -N -c -e"),
    ("rc", "one-byte", "-s 1 -c"),
    ("rc", "megabyte", "-s 1048576 -c"),
    ("rc", "odd-size", "-s 70001 -c -e"),
    ("rc", "few-receives", "-r 1 -c"),
    ("rc", "service-level", "-l 3 -c"),
    ("rc", "mtu-256", "-m 256 -s 20000 -c"),
    ("rc", "mtu-512", "-m 512 -s 20000 -c"),
    ("rc", "mtu-2048", "-m 2048 -s 20000 -c"),
    ("rc", "mtu-4096", "-m 4096 -s 20000 -c -e"),
    ("uc", "one-byte", "-s 1 -c"),
    ("uc", "mtu-256", "-m 256 -s 20000 -c"),
    ("uc", "mtu-4096", "-m 4096 -s 20000 -c -e"),
    ("ud", "one-byte", "-s 1 -c"),
    ("ud", "service-level", "-l 3 -c"),
    ("srq", "on-demand-paging", "-o -c"),
    ("srq", "one-pair", "-q 1 -c"),
    ("srq", "mtu-256", "-m 256 -s 20000 -c"),
    ("srq", "mtu-4096", "-m 4096 -s 20000 -c -e"),
];

/// ibv_xsrq_pingpong: name and options. It does not compare received data.
const XRC: &[(&str, &str)] = &[
    ("poll", ""),
    ("poll-64", "-s 64 -n 50"),
    ("poll-65536", "-s 65536 -n 50"),
    ("events", "-e"),
    ("events-65536", "-e -s 65536 -n 50"),
    ("on-demand-paging", "-o"),
    ("mtu-256", "-m 256 -s 20000"),
    ("mtu-4096", "-m 4096 -s 20000"),
];

const REFUSED: &[(&str, &str)] = &[
    ("rc-no-such-device", "ibv_rc_pingpong -d uroce_lo7"),
    (
        "rc-no-such-port",
        "ibv_rc_pingpong -d uroce_lo -i 2 -g 0 127.0.0.1",
    ),
    ("ud-over-mtu", "ibv_ud_pingpong -d uroce_lo -g 0 -s 4097"),
];

fn pingpongs(target: &Target) -> Vec<Case> {
    let mut cases = pingpong::table(target, PINGPONGS);
    let ports = 20900..;
    cases.extend(
        XRC.iter()
            .zip(ports)
            .map(|(row, port)| xrc(target, row, port)),
    );
    cases.push(two_clients(target));
    let refused = REFUSED
        .iter()
        .map(|(name, line)| Case::single(*name, line).may_refuse());
    cases.extend(refused);
    cases
}

fn xrc_line(target: &Target, port: u16, options: &str) -> String {
    let (device, gid) = (target.device, target.gid);
    format!("ibv_xsrq_pingpong -d {device} -g {gid} -p {port} {options}")
}

fn xrc(target: &Target, (name, options): &(&str, &str), port: u16) -> Case {
    let line = xrc_line(target, port, options);
    let client = format!("{line} {}", target.address);
    Case::pair(format!("xsrq-{name}"), &line, Ready::Tcp(port), &client)
        .check(Check::Says("success"))
}

/// One server, whose domain is shared by the queue pairs of two clients.
fn two_clients(target: &Target) -> Case {
    let port = 20999;
    let server = xrc_line(target, port, "-c 2");
    let client = xrc_line(target, port, target.address);
    let mut case = Case::pair("xsrq-two-clients", &server, Ready::Tcp(port), "sh -c");
    let both = format!("{client} & {client}; second=$?; wait $! && exit $second");
    case.client.push(both);
    case.check(Check::Says("success"))
}

/// Beside those that any device supports: name, program, options, size of the row in the table.
/// perftest's multicast group is of IPv6, and so has to be the source; groups are written byte by
/// byte.
const PERFTESTS: &[perftest::Row] = &[
    ("send-lat-xrc", "ib_send_lat", "-c XRC", 2),
    ("send-lat-xrc-events", "ib_send_lat", "-c XRC -e", 2),
    ("send-bw-xrc", "ib_send_bw", "-c XRC", 65536),
    (
        "send-bw-xrc-4-pairs",
        "ib_send_bw",
        "-c XRC -q 4 -s 4096",
        4096,
    ),
    ("write-lat-xrc", "ib_write_lat", "-c XRC", 2),
    ("write-bw-xrc", "ib_write_bw", "-c XRC", 65536),
    ("read-lat-xrc", "ib_read_lat", "-c XRC", 2),
    ("read-bw-xrc", "ib_read_bw", "-c XRC", 65536),
    ("atomic-lat-xrc", "ib_atomic_lat", "-c XRC", 8),
    ("send-lat-multicast", "ib_send_lat", "-c UD -g -x 1", 2),
    (
        "send-bw-multicast",
        "ib_send_bw",
        "-c UD -g -x 1 -s 1024",
        1024,
    ),
    (
        "send-lat-multicast-ipv4",
        "ib_send_lat",
        "-c UD -g -M 0:0:0:0:0:0:0:0:0:0:255:255:239:1:1:1",
        2,
    ),
    (
        "send-bw-multicast-ipv4",
        "ib_send_bw",
        "-c UD -g -M 0:0:0:0:0:0:0:0:0:0:255:255:239:1:1:1 -s 1024",
        1024,
    ),
    ("write-bw-on-demand-paging", "ib_write_bw", "--odp", 65536),
    ("read-bw-on-demand-paging", "ib_read_bw", "--odp", 65536),
    ("send-lat-ud-mtu", "ib_send_lat", "-c UD -s 4096", 4096),
    ("write-bw-mtu-256", "ib_write_bw", "-m 256 -s 8192", 8192),
    ("read-bw-mtu-256", "ib_read_bw", "-m 256 -s 8192", 8192),
    ("write-bw-megabyte", "ib_write_bw", "-s 1048576", 1_048_576),
    ("read-bw-both-ways", "ib_read_bw", "-b", 65536),
    ("read-bw-one-at-a-time", "ib_read_bw", "-o 1", 65536),
    ("read-bw-sixteen-at-a-time", "ib_read_bw", "-o 16", 65536),
    ("write-bw-16-pairs", "ib_write_bw", "-q 16 -s 4096", 4096),
];

/// Features that the device lacks.
const NO_PERFTESTS: &[(&str, &str)] = &[("srd", "ib_send_lat -c SRD"), ("dc", "ib_send_lat -c DC")];

fn perftests(target: &Target) -> Vec<Case> {
    let mut cases = perftest::table(target, PERFTESTS);
    cases.extend(perftest::refused(target, NO_PERFTESTS));
    cases
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn names(suite: &Suite, faults: bool) -> Vec<String> {
        let Kind::Cases(cases) = suite.kind else {
            return Vec::new();
        };
        let cases = cases(&target(Path::new("/x"), faults));
        cases.into_iter().map(|case| case.name).collect()
    }

    #[test]
    fn names_of_cases_are_unique_and_fit_files() {
        for suite in SUITES {
            let names = names(suite, false);
            let unique: HashSet<_> = names.iter().collect();
            assert_eq!(unique.len(), names.len(), "{}", suite.name);
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            assert!(names.iter().all(|name| name.chars().all(plain)));
        }
    }

    #[test]
    fn only_reliable_transports_are_run_on_a_bad_network() {
        for suite in SUITES.iter().filter(|suite| suite.with_faults) {
            let names = names(suite, true);
            assert!(names.len() > 30, "{}: {}", suite.name, names.len());
            let lossy = |name: &String| name.starts_with("ud-") || name.starts_with("uc-");
            let bad = names
                .iter()
                .find(|name| lossy(name) && *name != "ud-over-mtu" || name.contains("multicast"));
            assert_eq!(bad, None);
        }
    }

    #[test]
    fn only_its_suite_asks_for_a_connection_manager() {
        for suite in SUITES {
            if suite.name == uroce_rdmacm::NAME {
                continue;
            }
            assert!(!names(suite, false).iter().any(|name| name.contains("-cm")));
        }
    }
}
