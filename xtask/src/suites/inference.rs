//! Libraries by which language model servers pass results to each other: Mooncake and NIXL.
#![forbid(unsafe_code)]

use super::{Case, Check, Target, ucx};
use crate::pip::Package;

pub const MOONCAKE: &str = "mooncake";
pub const NIXL: &str = "nixl";

/// The build without graphics cards. Its other dependencies are clients of HTTP.
const MOONCAKE_PACKAGE: Package = Package {
    names: &["mooncake-transfer-engine-non-cuda==0.3.13.post1"],
    variant: "",
    with_others: false,
    sources: &[],
};

/// Its other dependency is PyTorch, for names of types.
const NIXL_PACKAGE: Package = Package {
    names: &["nixl-cu12==1.5.1", "numpy==2.4.6"],
    variant: "",
    with_others: false,
    sources: &[],
};

/// The source of a suite's programs, if it is not Debian's packages.
pub fn package(suite: &str) -> Option<&'static Package> {
    match suite {
        MOONCAKE => Some(&MOONCAKE_PACKAGE),
        NIXL => Some(&NIXL_PACKAGE),
        _ => None,
    }
}

pub fn mooncake(target: &Target) -> Vec<Case> {
    let helpers = target.helpers.display();
    let line = |what| {
        let (address, device) = (target.address, target.device);
        format!("{helpers}/kv-transfer {address} {device} {what}")
    };
    // Without the device it would go by TCP.
    let transfers = Case::single("transfers", &line("transfers"))
        .users(2)
        .check(Check::Says("installTransport, type=rdma"))
        .check(Check::Says("transfers: the same bytes"));
    let store = Case::single("store", &line("store"))
        .users(2)
        .check(Check::Says("store: the same objects"));
    vec![transfers, store]
}

/// NIXL contains a UCX and a libibverbs, so the library under test is loaded before all others.
pub fn nixl(target: &Target) -> Vec<Case> {
    let line = format!("{}/kv-agents initiator", target.helpers.display());
    ucx::TRANSPORTS
        .iter()
        .map(|(name, layers)| {
            let case = Case::single(format!("agents-{name}"), &line)
                .users(2)
                .env("LD_PRELOAD", "libibverbs.so.1")
                .check(Check::Says("agents: the same bytes"));
            // An agent sends to itself, too, to see whether it can.
            ucx::environment(case, target, &format!("{layers},self"))
        })
        .collect()
}
