//! Programs that connect by librdmacm over uroce: those of rdmacm-utils, perftest, qperf, fio, tgt,
//! UCX, libfabric, and, by librspreload, programs that know nothing of RDMA. Their librdmacm is
//! this project's.
#![forbid(unsafe_code)]

use super::{
    Case, Check, Ready, Target, applications, mpi, perftest, rdmacm, ucx, uroce_ways::IN_SYSFS,
};

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
        "rdma-xserver-xrc",
        "rdma_xserver -p PORT -c x",
        "rdma_xclient -s ADDRESS -p PORT -c x",
    ),
];

/// Datagram sockets: name, the server's address, and the client's options. Without an address the
/// server of udpong 44 binds to the first one that getaddrinfo(3) names, `::1`.
const DATAGRAMS: &[(&str, &str, &str)] = &[
    ("udpong", "127.0.0.1", "-S 512 -C 50"),
    ("udpong-blocking", "127.0.0.1", "-S 1000 -C 50 -T b"),
    ("udpong-nonblocking", "127.0.0.1", "-S 1000 -C 50 -T n"),
    ("udpong-echo", "127.0.0.1", "-S 1000 -C 50 -T e"),
    ("udpong-ipv6", "::1", "-S 512 -C 50"),
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

/// perftest connects twice, and its server listens anew in between. It has no unreliable
/// connections there.
const PERFTESTS: &[perftest::Row] = &[
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

/// UCX's demonstration of a server of reads and writes, which compares all bytes: name, options.
const UCX: &[(&str, &str)] = &[("tags", ""), ("active-messages", "-A")];

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
    cases.extend(perftest::rows(target, PERFTESTS, 22120));
    cases.push(applications::qperf(target));
    let verbs = ["write", "read", "send"];
    cases.extend(applications::fio_cases(target, &verbs, 22107));
    cases.extend(
        ["read", "write"]
            .iter()
            .zip(22111..)
            .map(|row| fio_memory(target, row)),
    );
    // libiscsi 1.19 reads the list of its connection before it writes it: without this its tests
    // end by a signal, depending on what the heap had there.
    cases.push(applications::iser(target).env("MALLOC_PERTURB_", "255"));
    cases.extend(UCX.iter().zip(22140..).map(|row| ucx_demo(target, row)));
    cases.extend(DATAGRAMS.iter().zip(22150..).map(datagrams));
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

/// Its connections are the connection manager's.
fn ucx_demo(target: &Target, ((name, options), port): (&(&str, &str), u16)) -> Case {
    let program = format!("{IN_SYSFS} io_demo -q -p {port} {options}");
    let client = format!("{program} -i 200 -w 16 -o read,write {}", target.address);
    let case = Case::pair(format!("ucx-{name}"), &program, Ready::RdmaCm, &client)
        .server_stays()
        .check(Check::NeverSays("ERROR"))
        .env("UCX_SOCKADDR_TLS_PRIORITY", "rdmacm");
    ucx::environment(case, target, "rc_verbs")
}

fn datagrams(((name, address, options), port): (&(&str, &str, &str), u16)) -> Case {
    let server = format!("udpong -b {address} -p {port}");
    let client = format!("udpong -s {address} -p {port} {options}");
    Case::pair(*name, &server, Ready::Udp(port), &client)
        .server_stays()
        // The row of the results.
        .check(Check::Says("custom"))
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
