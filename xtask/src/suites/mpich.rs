//! MPICH, whose Debian package uses only UCX: ranks that exchange and compare data.
#![forbid(unsafe_code)]

use super::{Case, Check, Target, ucx};

pub fn cases(target: &Target) -> Vec<Case> {
    let mut cases = Vec::new();
    for (transport, layers) in ucx::TRANSPORTS {
        for (ranks, agree) in [(2, "2 ranks agree"), (4, "4 ranks agree")] {
            let line = format!("{}/mpich-ranks {ranks}", target.helpers.display());
            let case = Case::single(format!("{transport}-{ranks}-ranks"), &line)
                .users(ranks)
                .check(Check::Says(agree));
            // A rank sends to itself, too.
            cases.push(ucx::environment(case, target, &format!("{layers},self")));
        }
    }
    cases
}
