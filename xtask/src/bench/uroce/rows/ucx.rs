//! UCX over uroce beside UCX over TCP and over shared memory, both processes on this machine.
#![forbid(unsafe_code)]

use crate::bench::uroce::row::{
    Bound, Carrier, Location, Quantity, Row, Transports, UCX_BANDWIDTH, UCX_MEDIAN, UCX_RATE,
    UcxTest, Unit, Work,
};

const TCP: Transports = Transports::Named("tcp,self");
const SHM: Transports = Transports::Named("posix,cma,self");

const LAT: UcxTest = test("tag_lat", 8, 50_000, UCX_MEDIAN);
const SMALL: UcxTest = test("tag_bw", 64, 500_000, UCX_RATE);
const MIDDLE: UcxTest = test("tag_bw", 8192, 50_000, UCX_BANDWIDTH);
const LARGE: UcxTest = test("tag_bw", 1 << 20, 1000, UCX_BANDWIDTH);
const PUT: UcxTest = test("ucp_put_bw", 65536, 10_000, UCX_BANDWIDTH);

const fn test(test: &'static str, size: u32, count: u32, field: usize) -> UcxTest {
    UcxTest {
        test,
        size,
        count,
        field,
    }
}

const fn row(name: &'static str, test: UcxTest, unit: Unit, carrier: Carrier, bound: Bound) -> Row {
    let (against, peer) = match carrier {
        Carrier::Udp => ("UCX tcp on lo", TCP),
        Carrier::Shm => ("UCX posix and cma", SHM),
    };
    Row {
        name,
        against,
        place: Location::Loopback,
        unit,
        bound,
        ours: Work::Ucx(test, Transports::Uroce(carrier)),
        peer: Work::Ucx(test, peer),
    }
}

const fn by_udp(name: &'static str, test: UcxTest, unit: Unit) -> Row {
    let bound = match unit {
        Unit::Microseconds => Bound::AtMost(1.0),
        _ => Bound::AtLeast(1.0),
    };
    row(name, test, unit, Carrier::Udp, bound)
}

const fn by_shm(name: &'static str, test: UcxTest, unit: Unit) -> Row {
    let bound = match unit {
        Unit::Microseconds => Bound::AtMost(1.3),
        _ => Bound::AtLeast(0.9),
    };
    row(name, test, unit, Carrier::Shm, bound)
}

/// What the calls alone take, with the same copies and nothing else, beside UCX over shared memory.
const fn alone(name: &'static str, ours: Work, test: UcxTest, unit: Unit) -> Row {
    Row {
        name,
        against: "UCX posix and cma",
        place: Location::Loopback,
        unit,
        bound: Bound::Any,
        ours,
        peer: Work::Ucx(test, SHM),
    }
}

pub const ROWS: &[Row] = &[
    by_udp("UCX tag_lat 8 B, UDP", LAT, Unit::Microseconds),
    by_udp("UCX tag_bw 64 B, UDP", SMALL, Unit::Messages),
    by_udp("UCX tag_bw 8 KiB, UDP", MIDDLE, Unit::Mebibytes),
    by_udp("UCX tag_bw 1 MiB, UDP", LARGE, Unit::Mebibytes),
    by_udp("UCX put_bw 64 KiB, UDP", PUT, Unit::Mebibytes),
    by_shm("UCX tag_lat 8 B, shm", LAT, Unit::Microseconds),
    by_shm("UCX tag_bw 64 B, shm", SMALL, Unit::Messages),
    by_shm("UCX tag_bw 8 KiB, shm", MIDDLE, Unit::Mebibytes),
    by_shm("UCX tag_bw 1 MiB, shm", LARGE, Unit::Mebibytes),
    by_shm("UCX put_bw 64 KiB, shm", PUT, Unit::Mebibytes),
    alone(
        "64 B by a ring and posted receives alone",
        Work::Raw("receive", 64, 2_000_000, Quantity::Rate),
        SMALL,
        Unit::Messages,
    ),
    alone(
        "8 KiB by a ring and posted receives alone",
        Work::Raw("receive", 8192, 100_000, Quantity::Bandwidth),
        MIDDLE,
        Unit::Mebibytes,
    ),
    alone(
        "64 KiB by process_vm_writev alone",
        Work::Raw("writev", 65536, 10_000, Quantity::Bandwidth),
        PUT,
        Unit::Mebibytes,
    ),
];
