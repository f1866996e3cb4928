//! The rows: the work, its reference, and the bound.
#![forbid(unsafe_code)]

/// The bound of the ratio of ours to the peer's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    AtMost(f64),
    AtLeast(f64),
    /// Anything: the row is there to compare others with.
    Any,
}

impl Bound {
    pub fn is_met(self, ratio: f64) -> bool {
        match self {
            Self::AtMost(most) => ratio <= most,
            Self::AtLeast(least) => ratio >= least,
            Self::Any => true,
        }
    }
}

/// Where a row is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
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

impl Unit {
    /// The figure as a cost: less is better.
    pub fn cost(self, figure: f64) -> f64 {
        match self {
            Self::Microseconds | Self::Bytes => figure,
            Self::Messages | Self::Mebibytes => figure.recip(),
        }
    }
}

/// How uroce's packets travel (`UROCE_CARRIER`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    Udp,
    Shm,
}

impl Carrier {
    pub fn word(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Shm => "shm",
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

/// The figure that is taken from the output of `raw`, which is in nanoseconds for one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// The median of groups, as microseconds.
    Time,
    /// The mean, as mebibytes a second.
    Bandwidth,
}

/// perftest's fields.
pub const TYPICAL: usize = 4;
pub const AVERAGE: usize = 5;
pub const BANDWIDTH: usize = 3;
pub const RATE: usize = 4;
/// ucx_perftest's fields, behind `Final:`.
pub const UCX_MEDIAN: usize = 1;
pub const UCX_RATE: usize = 7;

/// The work of a row.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// perftest over uroce.
    Uroce(Perftest, Carrier),
    /// The same, with a file of shared memory as each side's buffer.
    UroceShared(Perftest),
    /// perftest over uroce by UDP, while both sides lose packets (`UROCE_FAULTS`).
    Lossy(Perftest, &'static str),
    /// The bytes that this sends over `lo`.
    OnTheWire(Perftest, &'static str),
    /// Nothing is measured: the figure itself.
    Fixed(f64),
    /// ucx_perftest over shared memory: the test, bytes, how often, the field that is the figure.
    Ucx(&'static str, u32, u32, usize),
    /// The program `raw`: kind, bytes, rounds, and the wanted figure.
    Raw(&'static str, u32, u32, Quantity),
    /// The program `raw` by UDP sockets between the hosts: bytes, how often.
    Sockets(u32, u32),
    /// perftest over the kernel's soft-RoCE.
    Rxe(Perftest),
    /// qperf: the test, the message size.
    Tcp(&'static str, u32),
    /// Nothing of that kind is known.
    Nothing,
}

impl Work {
    /// Whether the library is what does the work.
    pub fn runs_uroce(self) -> bool {
        match self {
            Self::Uroce(..) | Self::UroceShared(_) | Self::Lossy(..) | Self::OnTheWire(..) => true,
            Self::Fixed(_)
            | Self::Ucx(..)
            | Self::Raw(..)
            | Self::Sockets(..)
            | Self::Rxe(_)
            | Self::Tcp(..)
            | Self::Nothing => false,
        }
    }
}

pub struct Row {
    pub name: &'static str,
    pub against: &'static str,
    pub place: Location,
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

const fn shm(program: &'static str, options: &'static str, field: usize) -> Work {
    let perftest = Perftest {
        program,
        options,
        field,
    };
    Work::Uroce(perftest, Carrier::Shm)
}

/// A row of bandwidth over shared memory, against a system call alone.
const fn bandwidth(
    name: &'static str,
    against: &'static str,
    [program, call]: [&'static str; 2],
    options: &'static str,
    (size, count): (u32, u32),
) -> Row {
    Row {
        name,
        against,
        place: Location::Loopback,
        unit: Unit::Mebibytes,
        bound: Bound::AtLeast(0.95),
        ours: shm(program, options, BANDWIDTH),
        peer: Work::Raw(call, size, count, Quantity::Bandwidth),
    }
}

/// A row of messages a second, against the same on one queue pair.
const fn many_pairs(name: &'static str, ours: Work, peer: Work) -> Row {
    Row {
        name,
        against: "the same on one queue pair",
        place: Location::Loopback,
        unit: Unit::Messages,
        bound: Bound::AtLeast(0.8),
        ours,
        peer,
    }
}

/// A row of 64 KiB messages by UDP while packets are lost, against the same without loss.
const fn lossy(name: &'static str, program: &'static str, faults: &'static str, least: f64) -> Row {
    let perftest = Perftest {
        program,
        options: BW,
        field: BANDWIDTH,
    };
    Row {
        name,
        against: "the same without loss",
        place: Location::Loopback,
        unit: Unit::Mebibytes,
        bound: Bound::AtLeast(least),
        ours: Work::Lossy(perftest, faults),
        peer: Work::Uroce(perftest, Carrier::Udp),
    }
}

/// A row of the bytes that 64 KiB messages take on the wire at a loss of 1 %.
const fn on_the_wire(name: &'static str, program: &'static str) -> Row {
    let perftest = Perftest {
        program,
        options: BW,
        field: BANDWIDTH,
    };
    Row {
        name,
        against: "their payload",
        place: Location::Loopback,
        unit: Unit::Bytes,
        bound: Bound::AtMost(1.1),
        ours: Work::OnTheWire(perftest, MUCH_LOSS),
        peer: Work::Fixed(65536.0 * 10000.0),
    }
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

const WRITEV: &str = "process_vm_writev alone";
const READV: &str = "process_vm_readv alone";
const WRITES: [&str; 2] = ["ib_write_bw", "writev"];
const READS: [&str; 2] = ["ib_read_bw", "readv"];
const SHM_LAT: &str = "-s 8 -n 100000";
const SMALL: (u32, u32) = (65536, 10000);
const LARGE: (u32, u32) = (1 << 20, 1000);

const LAT: &str = "-s 8 -n 10000";
const BW: &str = "-s 65536 -n 10000";
const SMALL_MESSAGES: &str = "-s 64 -n 500000";
/// Without the peak (`-N`), whose computation takes perftest the square of the messages, but which
/// it leaves out by itself where there are many messages a queue pair.
const SMALL_MESSAGES_OF_64: &str = "-s 64 -n 10000 -q 64 -N";
const SMALL_MESSAGES_OF_1024: &str = "-s 64 -n 1000 -q 1024 -N";
const LITTLE_LOSS: &str = "loss=0.1%,seed=3";
const MUCH_LOSS: &str = "loss=1%,seed=3";
const GUEST_LAT: &str = "-s 8 -n 500";
/// More than some: a program's code is translated by the emulator when it first runs, which the
/// kernel's has been for long.
const GUEST_BW: &str = "-s 65536 -n 1000";

pub const ROWS: &[Row] = &[
    Row {
        name: "ib_send_lat 8 B, shm",
        against: "UCX posix tag_lat 8 B",
        place: Location::Loopback,
        unit: Unit::Microseconds,
        bound: Bound::AtMost(1.0),
        ours: shm("ib_send_lat", SHM_LAT, TYPICAL),
        peer: Work::Ucx("tag_lat", 8, 100_000, UCX_MEDIAN),
    },
    Row {
        name: "ib_write_lat 8 B, shm, private memory",
        against: "process_vm_writev of 8 B alone",
        place: Location::Loopback,
        unit: Unit::Microseconds,
        bound: Bound::AtMost(1.3),
        ours: shm("ib_write_lat", SHM_LAT, TYPICAL),
        peer: Work::Raw("writev", 8, 100_000, Quantity::Time),
    },
    Row {
        name: "ib_write_lat 8 B, shm, shared-memory region",
        against: "a cache line from core to core",
        place: Location::Loopback,
        unit: Unit::Microseconds,
        bound: Bound::AtMost(3.0),
        ours: Work::UroceShared(Perftest {
            program: "ib_write_lat",
            options: SHM_LAT,
            field: TYPICAL,
        }),
        peer: Work::Raw("line", 8, 1_000_000, Quantity::Time),
    },
    Row {
        name: "ib_send_bw 8 B, shm",
        against: "UCX posix tag_bw 8 B",
        place: Location::Loopback,
        unit: Unit::Messages,
        bound: Bound::AtLeast(0.8),
        ours: shm("ib_send_bw", "-s 8 -n 500000", RATE),
        peer: Work::Ucx("tag_bw", 8, 2_000_000, UCX_RATE),
    },
    bandwidth(
        "ib_write_bw 64 KiB, shm",
        WRITEV,
        WRITES,
        "-s 65536 -n 10000",
        SMALL,
    ),
    bandwidth(
        "ib_write_bw 1 MiB, shm",
        WRITEV,
        WRITES,
        "-s 1048576 -n 1000",
        LARGE,
    ),
    bandwidth(
        "ib_read_bw 64 KiB, shm",
        READV,
        READS,
        "-s 65536 -n 10000",
        SMALL,
    ),
    bandwidth(
        "ib_read_bw 1 MiB, shm",
        READV,
        READS,
        "-s 1048576 -n 1000",
        LARGE,
    ),
    Row {
        name: "ib_send_lat 8 B, UDP on lo",
        against: TCP_LAT,
        place: Location::Loopback,
        unit: Unit::Microseconds,
        bound: Bound::AtMost(1.2),
        ours: udp("ib_send_lat", LAT, AVERAGE),
        peer: Work::Tcp("tcp_lat", 8),
    },
    Row {
        name: "ib_write_lat 8 B, UDP on lo",
        against: TCP_LAT,
        place: Location::Loopback,
        unit: Unit::Microseconds,
        bound: Bound::AtMost(1.2),
        ours: udp("ib_write_lat", LAT, AVERAGE),
        peer: Work::Tcp("tcp_lat", 8),
    },
    Row {
        name: "ib_send_bw 64 KiB, UDP on lo",
        against: TCP_BW,
        place: Location::Loopback,
        unit: Unit::Mebibytes,
        bound: Bound::AtLeast(1.0),
        ours: udp("ib_send_bw", BW, BANDWIDTH),
        peer: Work::Tcp("tcp_bw", 65536),
    },
    Row {
        name: "ib_write_bw 64 KiB, UDP on lo",
        against: TCP_BW,
        place: Location::Loopback,
        unit: Unit::Mebibytes,
        bound: Bound::AtLeast(1.0),
        ours: udp("ib_write_bw", BW, BANDWIDTH),
        peer: Work::Tcp("tcp_bw", 65536),
    },
    many_pairs(
        "ib_send_bw 64 B, shm, 64 queue pairs",
        shm("ib_send_bw", SMALL_MESSAGES_OF_64, RATE),
        shm("ib_send_bw", SMALL_MESSAGES, RATE),
    ),
    many_pairs(
        "ib_send_bw 64 B, shm, 1024 queue pairs",
        shm("ib_send_bw", SMALL_MESSAGES_OF_1024, RATE),
        shm("ib_send_bw", SMALL_MESSAGES, RATE),
    ),
    Row {
        name: "ib_send_bw 64 B, UDP on lo",
        against: "a million messages a second",
        place: Location::Loopback,
        unit: Unit::Messages,
        bound: Bound::AtLeast(1.0),
        ours: udp("ib_send_bw", "-s 64 -n 200000", RATE),
        peer: Work::Fixed(1.0),
    },
    many_pairs(
        "ib_send_bw 64 B, UDP on lo, 64 queue pairs",
        udp("ib_send_bw", "-s 64 -n 3000 -q 64 -N", RATE),
        udp("ib_send_bw", "-s 64 -n 200000", RATE),
    ),
    lossy(
        "ib_send_bw 64 KiB, UDP on lo, loss 0.1 %",
        "ib_send_bw",
        LITTLE_LOSS,
        0.8,
    ),
    lossy(
        "ib_write_bw 64 KiB, UDP on lo, loss 0.1 %",
        "ib_write_bw",
        LITTLE_LOSS,
        0.8,
    ),
    lossy(
        "ib_read_bw 64 KiB, UDP on lo, loss 0.1 %",
        "ib_read_bw",
        LITTLE_LOSS,
        0.8,
    ),
    lossy(
        "ib_send_bw 64 KiB, UDP on lo, loss 1 %",
        "ib_send_bw",
        MUCH_LOSS,
        0.5,
    ),
    lossy(
        "ib_write_bw 64 KiB, UDP on lo, loss 1 %",
        "ib_write_bw",
        MUCH_LOSS,
        0.5,
    ),
    lossy(
        "ib_read_bw 64 KiB, UDP on lo, loss 1 %",
        "ib_read_bw",
        MUCH_LOSS,
        0.5,
    ),
    on_the_wire(
        "bytes on lo, ib_write_bw 64 KiB by UDP, loss 1 %",
        "ib_write_bw",
    ),
    on_the_wire(
        "bytes on lo, ib_read_bw 64 KiB by UDP, loss 1 %",
        "ib_read_bw",
    ),
    Row {
        name: "ib_send_lat 8 B, UDP between hosts",
        against: RXE,
        place: Location::Guest,
        unit: Unit::Microseconds,
        bound: Bound::AtMost(1.0),
        ours: udp("ib_send_lat", GUEST_LAT, TYPICAL),
        peer: rxe("ib_send_lat", GUEST_LAT, TYPICAL),
    },
    Row {
        name: "ib_write_lat 8 B, UDP between hosts",
        against: RXE,
        place: Location::Guest,
        unit: Unit::Microseconds,
        bound: Bound::AtMost(1.0),
        ours: udp("ib_write_lat", GUEST_LAT, TYPICAL),
        peer: rxe("ib_write_lat", GUEST_LAT, TYPICAL),
    },
    Row {
        name: "a datagram by UDP sockets alone, between hosts",
        against: "kernel soft-RoCE, ib_send_lat 8 B",
        place: Location::Guest,
        unit: Unit::Microseconds,
        bound: Bound::Any,
        // As long as the packet of such a send.
        ours: Work::Sockets(24, 2000),
        peer: rxe("ib_send_lat", GUEST_LAT, TYPICAL),
    },
    Row {
        name: "ib_send_bw 64 KiB, UDP between hosts",
        against: RXE,
        place: Location::Guest,
        unit: Unit::Mebibytes,
        bound: Bound::AtLeast(2.0),
        ours: udp("ib_send_bw", GUEST_BW, BANDWIDTH),
        peer: rxe("ib_send_bw", GUEST_BW, BANDWIDTH),
    },
    Row {
        name: "ib_write_bw 64 KiB, UDP between hosts",
        against: RXE,
        place: Location::Guest,
        unit: Unit::Mebibytes,
        bound: Bound::AtLeast(2.0),
        ours: udp("ib_write_bw", GUEST_BW, BANDWIDTH),
        peer: rxe("ib_write_bw", GUEST_BW, BANDWIDTH),
    },
    Row {
        name: MEMORY,
        against: "16 KiB",
        place: Location::Scale,
        unit: Unit::Bytes,
        bound: Bound::AtMost(1.0),
        ours: Work::Nothing,
        peer: Work::Nothing,
    },
];

/// The rows of a place.
pub fn rows_of(place: Location) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(move |row| row.place == place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_unique_names() {
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
        assert!(Bound::Any.is_met(7.0));
    }
}
