//! OpenSHMEM, as OpenMPI has it over UCX: processing elements that write to each other's memory and
//! read it.
#![forbid(unsafe_code)]

use super::{Case, Check, Target, ucx};

pub fn cases(target: &Target) -> Vec<Case> {
    let mut cases = Vec::new();
    for (transport, layers) in ucx::TRANSPORTS {
        for (elements, agree) in [
            (2, "2 processing elements agree"),
            (4, "4 processing elements agree"),
        ] {
            let helpers = target.helpers.display();
            let line = format!("{helpers}/openshmem-elements {elements}");
            let case = Case::single(format!("{transport}-{elements}-elements"), &line)
                .users(elements)
                .check(Check::Says(agree));
            // An element writes to itself, too.
            cases.push(ucx::environment(case, target, &format!("{layers},self")));
        }
    }
    cases
}
