//! Both processes on `lo`: perftest beside the system's calls, UCX's shared memory and TCP.
#![forbid(unsafe_code)]

use crate::bench::uroce::row::{
    AVERAGE, BANDWIDTH, Bound, Carrier, Location, MEMORY, Perftest, Quantity, RATE, Row,
    SharedFile, TYPICAL, Transports, UCX_BANDWIDTH, UCX_MEDIAN, UCX_RATE, UcxTest, Unit, WAKE_UPS,
    Work, shm, udp,
};

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

/// What the memory allows that so many queue pairs use, without queue pairs.
const fn queues(name: &'static str, queues: u32) -> Row {
    Row {
        name,
        against: "the same by one receive queue",
        place: Location::Loopback,
        unit: Unit::Messages,
        bound: Bound::Any,
        ours: Work::Queues(queues, 1_000_000),
        peer: Work::Queues(1, 1_000_000),
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

const TCP_LAT: &str = "TCP on lo, qperf tcp_lat 8 B";
const TCP_BW: &str = "TCP on lo, qperf tcp_bw 64 KiB";

const WRITEV: &str = "process_vm_writev alone";
const READV: &str = "process_vm_readv alone";
const WRITES: [&str; 2] = ["ib_write_bw", "writev"];
const READS: [&str; 2] = ["ib_read_bw", "readv"];
const TAG_LAT: UcxTest = UcxTest {
    test: "tag_lat",
    size: 8,
    count: 100_000,
    field: UCX_MEDIAN,
};
const PUT_LAT: UcxTest = UcxTest {
    test: "ucp_put_lat",
    ..TAG_LAT
};
const PUT_BW: UcxTest = UcxTest {
    test: "ucp_put_bw",
    size: 65536,
    count: 20_000,
    field: UCX_BANDWIDTH,
};
const WRITE_LAT: Perftest = Perftest {
    program: "ib_write_lat",
    options: SHM_LAT,
    field: TYPICAL,
};
const WRITE_BW: Perftest = Perftest {
    program: "ib_write_bw",
    options: "-s 65536 -n 20000",
    field: BANDWIDTH,
};
const TAG_BW: UcxTest = UcxTest {
    test: "tag_bw",
    size: 8,
    count: 2_000_000,
    field: UCX_RATE,
};
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

pub const ROWS: &[Row] = &[
    Row {
        name: "ib_send_lat 8 B, shm",
        against: "UCX posix tag_lat 8 B",
        place: Location::Loopback,
        unit: Unit::Microseconds,
        bound: Bound::AtMost(1.0),
        ours: shm("ib_send_lat", SHM_LAT, TYPICAL),
        peer: Work::Ucx(TAG_LAT, Transports::Named("posix,self")),
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
        ours: Work::UroceShared(WRITE_LAT, SharedFile::DevShm),
        peer: Work::Raw("line", 8, 1_000_000, Quantity::Time),
    },
    Row {
        name: "ib_write_lat 8 B, shm, sealed memfd",
        against: "UCX posix put_lat 8 B",
        place: Location::Loopback,
        unit: Unit::Microseconds,
        bound: Bound::AtMost(1.3),
        ours: Work::UroceShared(WRITE_LAT, SharedFile::SealedMemfd),
        peer: Work::Ucx(PUT_LAT, Transports::Named("posix,self")),
    },
    Row {
        name: "ib_write_bw 64 KiB, shm, sealed memfd",
        against: "UCX posix put_bw 64 KiB",
        place: Location::Loopback,
        unit: Unit::Mebibytes,
        bound: Bound::AtLeast(0.9),
        ours: Work::UroceShared(WRITE_BW, SharedFile::SealedMemfd),
        peer: Work::Ucx(PUT_BW, Transports::Named("posix,self")),
    },
    Row {
        name: "ib_send_bw 8 B, shm",
        against: "UCX posix tag_bw 8 B",
        place: Location::Loopback,
        unit: Unit::Messages,
        bound: Bound::AtLeast(0.8),
        ours: shm("ib_send_bw", "-s 8 -n 500000", RATE),
        peer: Work::Ucx(TAG_BW, Transports::Named("posix,self")),
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
    queues("64 B by a ring and 64 receive queues alone", 64),
    queues("64 B by a ring and 1024 receive queues alone", 1024),
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
        name: MEMORY,
        against: "4 KiB",
        place: Location::Scale,
        unit: Unit::Bytes,
        bound: Bound::AtMost(1.0),
        ours: Work::Nothing,
        peer: Work::Nothing,
    },
    Row {
        name: WAKE_UPS,
        against: "one",
        place: Location::Scale,
        unit: Unit::Times,
        bound: Bound::AtMost(0.0),
        ours: Work::Nothing,
        peer: Work::Nothing,
    },
];
