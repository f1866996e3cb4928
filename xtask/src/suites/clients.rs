//! Packages of Python's index that call libibverbs themselves: bindings, and engines and a store
//! that move results of language model servers.
#![forbid(unsafe_code)]

use super::{Case, Check, Target};
use crate::pip::Package;

pub const NAME: &str = "clients";

/// Its other dependencies are servers of HTTP and PyTorch, which are not used here.
const PACKAGE: Package = Package {
    names: &[
        "ibverbs==2026.10.22",
        "peercache==0.8.4",
        "dlslime==0.1.23",
        "infinistore==0.2.35",
        "numpy==2.4.6",
        // infinistore contains a libuv, which works on the loops of this release only.
        "uvloop==0.21.0",
    ],
    variant: "-clients",
    with_others: false,
    sources: &[],
};

pub fn package(suite: &str) -> Option<&'static Package> {
    (suite == NAME).then_some(&PACKAGE)
}

/// The client, and its last message.
const CLIENTS: &[(&str, &str)] = &[
    ("bindings", "bindings: the same bytes"),
    ("peercache", "peercache: the same bytes"),
    ("slime", "slime: the same bytes"),
    ("infinistore", "infinistore: the same bytes"),
];

pub fn cases(target: &Target) -> Vec<Case> {
    let helpers = target.helpers.display();
    let case = |(name, end): &(&str, &'static str)| {
        let (device, address) = (target.device, target.address);
        let line = format!("{helpers}/verbs-clients {name} {device} {address}");
        Case::single(*name, &line).check(Check::Says(end))
    };
    CLIENTS.iter().map(case).collect()
}
