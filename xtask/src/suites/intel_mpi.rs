//! Intel MPI, from Python's package index, on two hosts: by libfabric's connected endpoints, and by
//! psm3, whose reliable protocol uses datagrams alone.
#![forbid(unsafe_code)]

use super::{
    Case, Check, Target, mpi,
    uroce_hosts::{USERS_IN_SYSFS, on},
    uroce_ways::IN_SYSFS,
};
use crate::pip::Package;

pub const NAME: &str = "intel-mpi";

const PACKAGE: Package = Package {
    names: &["impi-rt==2021.18.1", "mpi4py==4.1.2"],
    variant: "",
    with_others: false,
    sources: &[],
};

/// The source of the suite's programs.
pub fn package(suite: &str) -> Option<&'static Package> {
    (suite == NAME).then_some(&PACKAGE)
}

/// Name in Intel MPI, and as libfabric reports it.
const PROVIDERS: &[(&str, &str)] = &[("verbs", "verbs;ofi_rxm"), ("psm3", "psm3")];

/// Messages of all sizes and all collective operations of the package's own benchmark.
const BENCHMARK: &str = "IMB-MPI1 -npmin 2 -iter 20 -time 1 -msglog 0:18";

pub fn cases(target: &Target) -> Vec<Case> {
    let mut cases = Vec::new();
    for (provider, reported) in PROVIDERS {
        for exchange in mpi::EXCHANGES {
            let program = format!(
                "python3 -B {}/exchange.py {exchange}",
                target.helpers.display()
            );
            let case = ranks(target, provider, exchange, &program);
            cases.push(case.check(Check::Says("2 ranks agree")));
        }
        let case = ranks(target, provider, "benchmark", BENCHMARK);
        let case = case.check(Check::Says("All processes entering MPI_Finalize"));
        // Otherwise it might be by another provider.
        cases.push(case.check(Check::Says(reported)));
    }
    cases
}

/// A program with a rank on each of two hosts, started on the first.
fn ranks(target: &Target, provider: &str, name: &str, program: &str) -> Case {
    let helpers = target.helpers.display();
    let line = format!(
        "{} {helpers}/intel-ranks {provider} {helpers}/on-host {IN_SYSFS} {program}",
        on(target, 1)
    );
    Case::single(format!("{provider}-{name}"), &line).users(2 * USERS_IN_SYSFS)
}
