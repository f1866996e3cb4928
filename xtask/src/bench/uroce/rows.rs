//! The rows: what runs, what it is held against, and the bound.
#![forbid(unsafe_code)]

/// What ours may be of the peer's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    pub fn is_met(self, ratio: f64) -> bool {
        match self {
            Self::AtMost(most) => ratio <= most,
            Self::AtLeast(least) => ratio >= least,
        }
    }
}

/// Where a row is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// This machine, both processes on `lo`.
    Loopback,
    /// The virtual machine, across a pair of Ethernet interfaces.
    Guest,
    /// By the test `scale`.
    Scale,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// One way.
    Microseconds,
    /// Millions of messages a second.
    Messages,
    /// Mebibytes a second.
    Mebibytes,
    Bytes,
}

/// How uroce's packets travel (`UROCE_CARRIER`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    Udp,
}

impl Carrier {
    pub fn word(self) -> &'static str {
        match self {
            Self::Udp => "udp",
        }
    }
}

/// A program of perftest over some device.
#[derive(Clone, Copy, Debug)]
pub struct Perftest {
    pub program: &'static str,
    pub options: &'static str,
    /// The field of the table's row that is the figure.
    pub field: usize,
}

/// perftest's fields.
pub const TYPICAL: usize = 4;
pub const AVERAGE: usize = 5;
pub const BANDWIDTH: usize = 3;
pub const RATE: usize = 4;

/// What runs.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// perftest over uroce.
    Uroce(Perftest, Carrier),
    /// perftest over the kernel's soft-RoCE.
    Rxe(Perftest),
    /// qperf: the test, the message size.
    Tcp(&'static str, u32),
    /// Nothing of that kind is known.
    Nothing,
}

pub struct Row {
    pub name: &'static str,
    pub against: &'static str,
    pub place: Place,
    pub unit: Unit,
    pub bound: Bound,
    pub ours: Work,
    pub peer: Work,
}

const fn udp(program: &'static str, options: &'static str, field: usize) -> Work {
    let perftest = Perftest {
        program,
        options,
        field,
    };
    Work::Uroce(perftest, Carrier::Udp)
}

const fn rxe(program: &'static str, options: &'static str, field: usize) -> Work {
    Work::Rxe(Perftest {
        program,
        options,
        field,
    })
}

const TCP_LAT: &str = "TCP on lo, qperf tcp_lat 8 B";
const TCP_BW: &str = "TCP on lo, qperf tcp_bw 64 KiB";
const RXE: &str = "kernel soft-RoCE over an Ethernet pair alike";

pub const MEMORY: &str = "memory per idle RC queue pair, 10000 connected in one process";

const LAT: &str = "-s 8 -n 10000";
const BW: &str = "-s 65536 -n 10000";
const GUEST_LAT: &str = "-s 8 -n 500";
const GUEST_BW: &str = "-s 65536 -n 300";

pub const ROWS: &[Row] = &[
    Row {
        name: "ib_send_lat 8 B, UDP on lo",
        against: TCP_LAT,
        place: Place::Loopback,
        unit: Unit::Microseconds,
        bound: Bound::AtMost(1.2),
        ours: udp("ib_send_lat", LAT, AVERAGE),
        peer: Work::Tcp("tcp_lat", 8),
    },
    Row {
        name: "ib_write_lat 8 B, UDP on lo",
        against: TCP_LAT,
        place: Place::Loopback,
        unit: Unit::Microseconds,
        bound: Bound::AtMost(1.2),
        ours: udp("ib_write_lat", LAT, AVERAGE),
        peer: Work::Tcp("tcp_lat", 8),
    },
    Row {
        name: "ib_send_bw 64 KiB, UDP on lo",
        against: TCP_BW,
        place: Place::Loopback,
        unit: Unit::Mebibytes,
        bound: Bound::AtLeast(1.0),
        ours: udp("ib_send_bw", BW, BANDWIDTH),
        peer: Work::Tcp("tcp_bw", 65536),
    },
    Row {
        name: "ib_write_bw 64 KiB, UDP on lo",
        against: TCP_BW,
        place: Place::Loopback,
        unit: Unit::Mebibytes,
        bound: Bound::AtLeast(1.0),
        ours: udp("ib_write_bw", BW, BANDWIDTH),
        peer: Work::Tcp("tcp_bw", 65536),
    },
    Row {
        name: "ib_send_lat 8 B, UDP between hosts",
        against: RXE,
        place: Place::Guest,
        unit: Unit::Microseconds,
        bound: Bound::AtMost(1.0),
        ours: udp("ib_send_lat", GUEST_LAT, TYPICAL),
        peer: rxe("ib_send_lat", GUEST_LAT, TYPICAL),
    },
    Row {
        name: "ib_write_lat 8 B, UDP between hosts",
        against: RXE,
        place: Place::Guest,
        unit: Unit::Microseconds,
        bound: Bound::AtMost(1.0),
        ours: udp("ib_write_lat", GUEST_LAT, TYPICAL),
        peer: rxe("ib_write_lat", GUEST_LAT, TYPICAL),
    },
    Row {
        name: "ib_send_bw 64 KiB, UDP between hosts",
        against: RXE,
        place: Place::Guest,
        unit: Unit::Mebibytes,
        bound: Bound::AtLeast(2.0),
        ours: udp("ib_send_bw", GUEST_BW, BANDWIDTH),
        peer: rxe("ib_send_bw", GUEST_BW, BANDWIDTH),
    },
    Row {
        name: "ib_write_bw 64 KiB, UDP between hosts",
        against: RXE,
        place: Place::Guest,
        unit: Unit::Mebibytes,
        bound: Bound::AtLeast(2.0),
        ours: udp("ib_write_bw", GUEST_BW, BANDWIDTH),
        peer: rxe("ib_write_bw", GUEST_BW, BANDWIDTH),
    },
    Row {
        name: MEMORY,
        against: "16 KiB",
        place: Place::Scale,
        unit: Unit::Bytes,
        bound: Bound::AtMost(1.0),
        ours: Work::Nothing,
        peer: Work::Nothing,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_names_of_their_own() {
        let names: std::collections::HashSet<_> = ROWS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), ROWS.len());
        assert!(ROWS.iter().all(|row| !row.name.contains('\t')));
    }

    #[test]
    fn bounds_are_met_at_their_edge() {
        assert!(Bound::AtMost(1.2).is_met(1.2));
        assert!(!Bound::AtMost(1.2).is_met(1.21));
        assert!(Bound::AtLeast(0.95).is_met(0.95));
        assert!(!Bound::AtLeast(0.95).is_met(0.94));
    }
}
