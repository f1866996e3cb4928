//! Programs that connect by librdmacm over uroce: those of rdmacm-utils, perftest, qperf, fio, tgt,
//! UCX, libfabric, and, by librspreload, programs that know nothing of RDMA. Their librdmacm is
//! this project's.
#![forbid(unsafe_code)]

use super::{Case, Check, Target, applications, mpi, perftest, rdmacm, ucx, uroce_ways::IN_SYSFS};

/// The name of the suite.
pub const NAME: &str = "rdmacm";

/// Of the cases that run over a device of the kernel, by name.
const SAME: &[&str] = &[
    "rping",
    "rping-own-queue-pair",
    "rping-64k",
    "ucmatose",
    "udaddy",
    "cmtime",
    "rping-any-address",
    "ucmatose-migrate",
    "ucmatose-many",
    "rdma-server",
    "rdma-xserver-rc",
    "rstream",
    "rstream-blocking",
    "rstream-nonblocking",
    "riostream",
];

/// Cases of this suite alone.
const ROWS: &[rdmacm::Row] = &[
    (
        "rping-ipv6",
        "rping -s -a ::1 -p PORT -C 20 -V -v",
        "rping -c -a ::1 -p PORT -C 20 -V -v",
    ),
    (
        "rdma-xserver-xrc",
        "rdma_xserver -p PORT -c x",
        "rdma_xclient -s ADDRESS -p PORT -c x",
    ),
];

/// Unmodified programs, by librspreload: arguments of the script.
const SOCKETS: &[&str] = &[
    "http",
    "forks",
    "nginx_alone",
    "nginx_workers",
    "iperf",
    "redis",
    "calls",
];

/// libfabric's endpoints that connect, and those on top of them: name, options of fi_pingpong.
const ENDPOINTS: &[(&str, &str)] = &[
    ("msg-64", "-p verbs -e msg -S 64"),
    ("msg-1m", "-p verbs -e msg -S 1048576"),
    (
        "rxm-64k-tagged",
        "-p verbs;ofi_rxm -e rdm -S 65536 -m tagged",
    ),
];

pub fn cases(target: &Target) -> Vec<Case> {
    let mut cases = rdmacm::named(target, SAME, 22000);
    cases.extend(rdmacm::rows(target, ROWS.iter(), 22101));
    cases.push(rdmacm::copy(target, 22106));
    cases.push(rdmacm::multicast(target));
    cases.extend(perftest::connected(target, 22120));
    cases.push(applications::qperf(target));
    let verbs = ["write", "read", "send"];
    cases.extend(applications::fio_cases(target, &verbs, 22107));
    cases.extend(
        ["read", "write"]
            .iter()
            .zip(22111..)
            .map(|row| fio_memory(target, row)),
    );
    cases.push(applications::iser(target));
    let demonstrations = ucx::connected(target, 22140).into_iter();
    cases.extend(demonstrations.map(|case| case.client_and_server_by(IN_SYSFS)));
    cases.extend(rdmacm::datagrams(target, 22150));
    cases.push(rdmacm::datagram(
        "udpong-ipv6",
        "::1",
        "-S 512 -C 50",
        22154,
    ));
    cases.extend(SOCKETS.iter().zip(22160..).map(|row| sockets(target, row)));
    for hosts in ["one", "two"] {
        cases.extend(ENDPOINTS.iter().map(|row| libfabric(target, hosts, row)));
    }
    cases.extend(mpi::EXCHANGES.iter().map(|exchange| mpi(target, exchange)));
    cases.push(without_listener());
    cases
}

/// The memory of both sides has the bytes that were read or written.
fn fio_memory(target: &Target, (verb, port): (&&str, u16)) -> Case {
    let line = format!("{}/fio-memory {verb} {port}", target.helpers.display());
    Case::single(format!("fio-{verb}-memory"), &line)
        .users(2)
        .check(Check::Says("the same bytes"))
}

/// Each has a separate port: connections of TCP that have ended keep it for a minute.
fn sockets(target: &Target, (what, port): (&&str, u16)) -> Case {
    let line = format!("{}/sockets-by-rdma {what} {port}", target.helpers.display());
    Case::single(format!("sockets-{}", what.replace('_', "-")), &line)
        .check(Check::Says("no byte by TCP"))
}

/// On one host, or on two.
fn libfabric(target: &Target, hosts: &str, (name, options): &(&str, &str)) -> Case {
    let helpers = target.helpers.display();
    let line = format!("{helpers}/fabric-by-rdma {hosts} {options}");
    let case = Case::single(format!("libfabric-{name}-{hosts}"), &line).users(2);
    // All that was sent was answered, and had the right bytes.
    case.check(Check::Says("=20"))
}

/// OpenMPI by the same endpoints.
fn mpi(target: &Target, exchange: &str) -> Case {
    let helpers = target.helpers.display();
    let line = format!("{helpers}/mpi-by-fabric {exchange} --allow-run-as-root");
    Case::single(format!("libfabric-mpi-{exchange}"), &line)
        .users(2)
        .check(Check::Says("2 ranks agree"))
}

/// Refused at once, and not after a minute.
fn without_listener() -> Case {
    Case::single("nobody-listens", "rping -c -a 127.0.0.1 -p 22199 -C 1").may_refuse()
}
