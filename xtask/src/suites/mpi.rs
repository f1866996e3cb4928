//! OpenMPI over UCX: two ranks that exchange and compare data.
#![forbid(unsafe_code)]

use super::{Case, Check, Target, ucx};

/// The exchanges of `exchange.py`.
pub const EXCHANGES: &[&str] = &["pingpong", "collectives", "one-sided"];

/// Messages and one-sided operations by UCX alone.
pub const OPTIONS: &str =
    "--allow-run-as-root --mca pml ucx --mca btl ^vader,tcp,openib --mca osc ucx";

/// UCX's use of a provider is in the suite of UCX; MPI adds many processes at once.
pub const AGAIN: &[&str] = &["rc-collectives"];

pub fn cases(target: &Target) -> Vec<Case> {
    let mut cases = Vec::new();
    for (transport, layers) in ucx::TRANSPORTS {
        for exchange in EXCHANGES {
            let case = case(target, transport, OPTIONS, exchange);
            cases.push(ucx::environment(case, target, layers));
        }
    }
    cases
}

/// The same, and a program of another project. It would take minutes in emulation.
pub fn cases_here(target: &Target) -> Vec<Case> {
    let mut cases = cases(target);
    for (transport, layers) in ucx::TRANSPORTS {
        let line = format!(
            "{}/hpc-challenge 2x2 {OPTIONS} --mca mpi_yield_when_idle 1",
            target.helpers.display()
        );
        let case = Case::single(format!("{transport}-hpc-challenge"), &line)
            .users(4)
            .check(Check::Says("End of HPC Challenge tests."));
        // A rank writes to itself, too.
        cases.push(ucx::environment(case, target, &format!("{layers},self")));
    }
    cases
}

/// An exchange between two ranks.
pub fn case(target: &Target, name: &str, options: &str, exchange: &str) -> Case {
    let line = format!(
        "mpirun {options} -n 2 --oversubscribe /usr/bin/python3 -B {}/exchange.py {exchange}",
        target.helpers.display()
    );
    Case::single(format!("{name}-{exchange}"), &line)
        .users(2)
        .check(Check::Says("2 ranks agree"))
}
