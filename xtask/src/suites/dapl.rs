//! uDAPL's tests and its benchmark, over its provider that connects over sockets. `dtestx` is left
//! out: sometimes it takes half of its peer's message over the socket for the whole, and breaks the
//! connection.
#![forbid(unsafe_code)]

use super::{Case, Check, Ready, Target};

/// The adapter's name in `dat.conf`.
const ADAPTER: &str = "-P uroce";

/// Name, program, the port at which its server listens, the client's last message.
const TESTS: &[(&str, &str, u16, &str)] = &[
    (
        "dtest",
        "dtest -D -b 65536",
        15828,
        "DAPL Test Complete. PASSED",
    ),
    (
        "dtest-poll",
        "dtest -p -b 4096",
        15828,
        "DAPL Test Complete. PASSED",
    ),
    // An endpoint that waits for events of several kinds.
    (
        "dtest-cno",
        "dtest -c -b 4096",
        15828,
        "DAPL Test Complete. PASSED",
    ),
    ("dtestsrq", "dtestsrq", 46248, "DAPL RC SRQ Test Complete."),
    ("dtestcm", "dtestcm", 46248, "ALL 1000 CONNECTED"),
];

/// Transactions of four threads with eight endpoints each: messages, and one-sided operations both
/// ways.
const TRANSACTIONS: &str = "-i 200 -t 4 -w 8 client SR 1024 server SR 1024 \
                            client RW 4096 server RW 4096 client RR 4096 server RR 4096";

pub fn cases(target: &Target) -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, program, port, end) in TESTS {
        let server = format!("{program} {ADAPTER}");
        let client = format!("{server} -h {}", target.address);
        cases.push(Case::pair(*name, &server, Ready::Tcp(*port), &client).check(Check::Says(end)));
    }
    let client = format!(
        "dapltest -T T -s {} -D uroce {TRANSACTIONS}",
        target.address
    );
    let server = "dapltest -T S -D uroce";
    let transactions = Case::pair("dapltest", server, Ready::Tcp(63000), &client)
        .server_stays()
        .check(Check::Says("4 threads, 8 EPs"));
    cases.push(transactions);
    let list = target.helpers.join("dat.conf");
    let list = list.display().to_string();
    let around = |case: Case| {
        case.check(Check::NeverSays("FAILED"))
            .env("DAT_OVERRIDE", &list)
            .env("DAPL_SCM_NETDEV", "lo")
    };
    cases.into_iter().map(around).collect()
}
