//! Mooncake, by which servers of language models hand each other what they have computed.
#![forbid(unsafe_code)]

use super::{Case, Check, Target};
use crate::pip::Package;

pub const NAME: &str = "mooncake";

/// The build that wants no graphics card. What else it asks for are clients of HTTP.
pub const PACKAGE: Package = Package {
    name: "mooncake-transfer-engine-non-cuda==0.3.13.post1",
    variant: "",
    with_others: false,
};

pub fn cases(target: &Target) -> Vec<Case> {
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
