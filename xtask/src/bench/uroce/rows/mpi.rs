//! OpenMPI over uroce beside OpenMPI over TCP, a rank on each of four hosts of this machine.
#![forbid(unsafe_code)]

use crate::bench::uroce::row::{Bound, Location, MpiTest, MpiTransport, Row, Unit, Work};

const fn row(name: &'static str, unit: Unit, test: &'static str, size: u32, count: u32) -> Row {
    let bound = match unit {
        Unit::Microseconds => Bound::AtMost(1.0),
        _ => Bound::AtLeast(1.0),
    };
    let test = MpiTest { test, size, count };
    with(name, unit, bound, test, MpiTransport::Uroce)
}

/// UCX's own share of a ratio: it has the same protocol of messages and pieces over TCP.
const fn of_ucx(name: &'static str, unit: Unit, test: &'static str, size: u32, count: u32) -> Row {
    let test = MpiTest { test, size, count };
    with(name, unit, Bound::Any, test, MpiTransport::UcxTcp)
}

const fn with(
    name: &'static str,
    unit: Unit,
    bound: Bound,
    test: MpiTest,
    over: MpiTransport,
) -> Row {
    Row {
        name,
        against: "OpenMPI over TCP",
        place: Location::FourHosts,
        unit,
        bound,
        ours: Work::Mpi(test, over),
        peer: Work::Mpi(test, MpiTransport::Tcp),
    }
}

const ALL: &str = "all-to-all";
const SUM: &str = "allreduce";
const BW: &str = "bandwidth";

pub const ROWS: &[Row] = &[
    row(
        "OpenMPI all-to-all 64 B, four hosts",
        Unit::Microseconds,
        ALL,
        64,
        1000,
    ),
    row(
        "OpenMPI all-to-all 64 KiB, four hosts",
        Unit::Microseconds,
        ALL,
        65536,
        300,
    ),
    row(
        "OpenMPI allreduce 8 B, four hosts",
        Unit::Microseconds,
        SUM,
        8,
        1000,
    ),
    row(
        "OpenMPI allreduce 1 MiB, four hosts",
        Unit::Microseconds,
        SUM,
        1 << 20,
        100,
    ),
    row(
        "OpenMPI bandwidth 64 KiB, four hosts",
        Unit::Mebibytes,
        BW,
        65536,
        3200,
    ),
    row(
        "OpenMPI bandwidth 1 MiB, four hosts",
        Unit::Mebibytes,
        BW,
        1 << 20,
        480,
    ),
    of_ucx(
        "OpenMPI over UCX's tcp, all-to-all 64 B, four hosts",
        Unit::Microseconds,
        ALL,
        64,
        1000,
    ),
    of_ucx(
        "OpenMPI over UCX's tcp, all-to-all 64 KiB, four hosts",
        Unit::Microseconds,
        ALL,
        65536,
        300,
    ),
    of_ucx(
        "OpenMPI over UCX's tcp, allreduce 8 B, four hosts",
        Unit::Microseconds,
        SUM,
        8,
        1000,
    ),
    of_ucx(
        "OpenMPI over UCX's tcp, allreduce 1 MiB, four hosts",
        Unit::Microseconds,
        SUM,
        1 << 20,
        100,
    ),
    of_ucx(
        "OpenMPI over UCX's tcp, bandwidth 64 KiB, four hosts",
        Unit::Mebibytes,
        BW,
        65536,
        3200,
    ),
    of_ucx(
        "OpenMPI over UCX's tcp, bandwidth 1 MiB, four hosts",
        Unit::Mebibytes,
        BW,
        1 << 20,
        480,
    ),
];
