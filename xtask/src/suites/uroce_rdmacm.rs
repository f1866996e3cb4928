//! Programs that connect by librdmacm over uroce: those of rdmacm-utils. Their librdmacm is this
//! project's.
//!
//! Perftest with `-R` is left out: its server listens anew for its second connection, and a client
//! that is quicker is rejected.
#![forbid(unsafe_code)]

use super::{Case, Check, Ready, Target, rdmacm};

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
];

/// Name, server and client.
const ROWS: &[(&str, &str, &str)] = &[
    (
        "rping-ipv6",
        "rping -s -a ::1 -p 22101 -C 20 -V -v",
        "rping -c -a ::1 -p 22101 -C 20 -V -v",
    ),
    (
        "rping-any-address",
        "rping -s -p 22102 -C 20 -V -v",
        "rping -c -a 127.0.0.1 -p 22102 -C 20 -V -v",
    ),
    (
        "ucmatose-migrate",
        "ucmatose -p 22103 -c 3 -m",
        "ucmatose -s 127.0.0.1 -p 22103 -c 3 -m",
    ),
    (
        "ucmatose-many",
        "ucmatose -p 22104 -c 100 -C 2",
        "ucmatose -s 127.0.0.1 -p 22104 -c 100 -C 2",
    ),
];

pub fn cases(target: &Target) -> Vec<Case> {
    let mut cases = rdmacm::named(target, SAME, 22000);
    cases.extend(ROWS.iter().map(|(name, server, client)| {
        Case::pair(*name, server, Ready::RdmaCm, client)
            .check(Check::NeverSays("data mismatch"))
            .check(Check::NeverSays("failed"))
    }));
    cases.push(nobody_listens());
    cases
}

/// Refused at once, and not after a minute.
fn nobody_listens() -> Case {
    Case::single("nobody-listens", "rping -c -a 127.0.0.1 -p 22199 -C 1").may_refuse()
}
