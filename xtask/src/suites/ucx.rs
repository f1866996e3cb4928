//! UCX's own benchmark, over both of its plain verbs transports.
#![forbid(unsafe_code)]

use super::{Case, Check, Ready, Target};

/// Name and value of `UCX_TLS`; reliable connections need datagrams to be set up.
pub const TRANSPORTS: &[(&str, &str)] = &[("ud", "ud_verbs"), ("rc", "rc_verbs,ud_verbs:aux")];

/// Name, test and options.
const TESTS: &[(&str, &str)] = &[
    ("tag-lat", "tag_lat -s 64"),
    ("tag-lat-64k", "tag_lat -s 65536"),
    ("tag-bw", "tag_bw -s 8192"),
    ("tag-sync", "tag_sync_lat -s 64"),
    ("put-lat", "ucp_put_lat -s 64"),
    ("put-bw", "ucp_put_bw -s 8192"),
    ("get", "ucp_get -s 8192"),
    ("am-lat", "ucp_am_lat -s 64"),
    ("am-bw", "ucp_am_bw -s 8192"),
    ("stream-lat", "stream_lat -s 64"),
    ("stream-bw", "stream_bw -s 8192"),
    ("add", "ucp_add -s 8"),
    ("fadd", "ucp_fadd -s 8"),
    ("swap", "ucp_swap -s 8"),
    ("cswap", "ucp_cswap -s 8"),
];

/// Short and long messages, each operation with its way of posting once, for a second provider.
pub const AGAIN: &[&str] = &[
    "ud-tag-lat-64k",
    "ud-am-bw",
    "rc-tag-bw",
    "rc-put-bw",
    "rc-get",
    "rc-fadd",
];

/// UCX's demonstration of a server of reads and writes, which compares all bytes: name, options.
/// Its connections are the connection manager's.
const CONNECTED: &[(&str, &str)] = &[("io-demo-tags", ""), ("io-demo-active-messages", "-A")];

/// Cases that run once more over this project's librdmacm.
pub const BY_CM: &[&str] = &["io-demo-tags", "io-demo-active-messages"];

pub fn cases(target: &Target) -> Vec<Case> {
    let mut ports = 23000..;
    let mut cases = Vec::new();
    for (transport, layers) in TRANSPORTS {
        for (name, test) in TESTS {
            let port = ports.next().unwrap_or_default();
            let server = format!("ucx_perftest -p {port}");
            // Both ends poll without a pause: on two emulated processors a turn takes 10 ms.
            let client = format!("{server} {} -t {test} -n 20 -w 2", target.address);
            let name = format!("{transport}-{name}");
            let case = Case::pair(name, &server, Ready::Tcp(port), &client)
                // The last line of the table; without it the test did not end.
                .check(Check::Says("Final:"))
                .check(Check::NeverSays("ERROR"));
            cases.push(environment(case, target, layers));
        }
    }
    if target.connection_manager {
        cases.extend(connected(target, 23100));
    }
    cases
}

/// The demonstration, with ports from this one on.
pub fn connected(target: &Target, port: u16) -> Vec<Case> {
    let case = |((name, options), port): (&(&str, &str), u16)| {
        let server = format!("io_demo -q -p {port} {options}");
        let client = format!("{server} -i 200 -w 16 -o read,write {}", target.address);
        let case = Case::pair(*name, &server, Ready::RdmaCm, &client)
            .server_stays()
            .check(Check::NeverSays("ERROR"))
            .env("UCX_SOCKADDR_TLS_PRIORITY", "rdmacm");
        environment(case, target, "rc_verbs")
    };
    CONNECTED.iter().zip(port..).map(case).collect()
}

/// Points UCX at the device, and keeps it from giving up on a peer: a machine that shares its
/// processors with others can be away for longer than UCX's half minute.
pub fn environment(case: Case, target: &Target, layers: &str) -> Case {
    case.env("UCX_NET_DEVICES", &format!("{}:1", target.device))
        .env("UCX_IB_GID_INDEX", "0")
        .env("UCX_TLS", layers)
        .env("UCX_UD_VERBS_TIMEOUT", "3600s")
        .env("UCX_RC_VERBS_TIMEOUT", "10s")
}
