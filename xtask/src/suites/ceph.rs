//! A cluster of Ceph whose messages use only RDMA.
#![forbid(unsafe_code)]

use super::{Case, Check, Target};

/// The GID of the loopback address, in Ceph's notation.
const GID: &str = "0000:0000:0000:0000:0000:ffff:7f00:0001";

pub fn cases(target: &Target) -> Vec<Case> {
    let line = format!(
        "{}/ceph-cluster {} {GID}",
        target.helpers.display(),
        target.device
    );
    // Two daemons, one of them twice, and their clients.
    let cluster = Case::single("cluster", &line)
        .users(10)
        .check(Check::Says("first: the same bytes came back"))
        .check(Check::Says("second: the same bytes came back"));
    vec![cluster]
}
