//! libfabric's benchmark, which compares the received data: over the layer that makes datagrams
//! reliable, and, if the kernel's connection manager knows the device, over connections.
#![forbid(unsafe_code)]

use super::{Case, Check, Ready, Target, mpi};

/// A provider of libfabric, its kind of endpoint, and the suffix of its domain's name.
struct Endpoint {
    name: &'static str,
    provider: &'static str,
    endpoint: &'static str,
    domain: &'static str,
}

const DATAGRAMS: Endpoint = Endpoint {
    name: "rxd",
    provider: "verbs;ofi_rxd",
    endpoint: "rdm",
    domain: "-dgram",
};
const CONNECTIONS: Endpoint = Endpoint {
    name: "msg",
    provider: "verbs",
    endpoint: "msg",
    domain: "",
};

/// Endpoint, name of the test, and its options.
const TESTS: &[(Endpoint, &str, &str)] = &[
    (DATAGRAMS, "64", "-S 64"),
    (DATAGRAMS, "4k", "-S 4096"),
    (DATAGRAMS, "64k", "-S 65536"),
    (DATAGRAMS, "64k-tagged", "-S 65536 -m tagged"),
    (CONNECTIONS, "64", "-S 64"),
    (CONNECTIONS, "64k", "-S 65536"),
];

/// Long messages, once each way, for a second provider.
pub const AGAIN: &[&str] = &["rxd-64k", "msg-64k"];

/// The endpoints that the connection manager connects.
pub const BY_CM: &[&str] = &["msg-64", "msg-64k"];

/// OpenMPI with libfabric's matching of messages, and nothing else.
const OPENMPI: &str = "--allow-run-as-root --mca pml cm --mca mtl ofi \
                       --mca mtl_ofi_provider_include verbs;ofi_rxd --mca osc pt2pt,rdma";

pub fn cases(target: &Target) -> Vec<Case> {
    let Endpoint {
        provider, domain, ..
    } = DATAGRAMS;
    let list = format!("fi_info -p {provider} -d {}{domain}", target.device);
    let mut cases = vec![Case::single("list", &list).check(Check::Says("FI_PROTO_RXD"))];
    for ((over, test, options), port) in TESTS.iter().zip(23400..) {
        if over.endpoint == CONNECTIONS.endpoint && !target.connection_manager {
            continue;
        }
        let line = format!(
            "fi_pingpong -c -I 20 {options} -p {} -e {} -d {}{}",
            over.provider, over.endpoint, target.device, over.domain
        );
        let server = format!("{line} -B {port}");
        let client = format!("{line} -P {port} {}", target.address);
        let name = format!("{}-{test}", over.name);
        // All that was sent was answered, and had the right bytes.
        let case = Case::pair(name, &server, Ready::Tcp(port), &client).check(Check::Says("=20"));
        cases.push(case);
    }
    // In emulation that would take minutes, and ask nothing new of the device.
    if !target.connection_manager {
        let exchanges = mpi::EXCHANGES.iter();
        cases.extend(exchanges.map(|exchange| mpi::case(target, "mpi", OPENMPI, exchange)));
    }
    let gid = target.gid.to_string();
    let around = |case: Case| case.env("FI_VERBS_GID_IDX", &gid);
    cases.into_iter().map(around).collect()
}
