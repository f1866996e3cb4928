//! Two hosts in the virtual machine: beside the kernel's soft-RoCE, and beside TCP on paths with a
//! delay and with losses.
#![forbid(unsafe_code)]

use crate::bench::uroce::row::{
    Addressing, BANDWIDTH, Bound, Datagrams, Location, Perftest, Row, TYPICAL, Unit, Work, udp,
};

const fn rxe(program: &'static str, options: &'static str, field: usize) -> Work {
    Work::Rxe(Perftest {
        program,
        options,
        field,
    })
}

/// A row of 64 KiB messages by UDP against TCP on the same path.
const fn beside_tcp(
    name: &'static str,
    program: &'static str,
    netem: &'static str,
    least: f64,
) -> Row {
    on_path(name, (program, NETEM_BW), netem, least)
}

/// The same on a path with a delay.
const fn delayed(
    name: &'static str,
    program: &'static str,
    netem: &'static str,
    least: f64,
) -> Row {
    on_path(name, (program, DELAYED_BW), netem, least)
}

const fn on_path(
    name: &'static str,
    (program, options): (&'static str, &'static str),
    netem: &'static str,
    least: f64,
) -> Row {
    Row {
        name,
        against: TCP,
        place: Location::Netem(netem),
        unit: Unit::Mebibytes,
        bound: Bound::AtLeast(least),
        ours: udp(program, options, BANDWIDTH),
        peer: Work::Tcp("tcp_bw", 65536),
    }
}

/// What the emulated processors allow to anything that sends datagrams as long as packets.
const fn limit(name: &'static str, place: Location, checked: bool) -> Row {
    Row {
        name,
        against: TCP,
        place,
        unit: Unit::Mebibytes,
        bound: Bound::Any,
        ours: Work::Datagrams(Datagrams {
            size: 65536,
            count: 4000,
            payload: 1024,
            checked,
        }),
        peer: Work::Tcp("tcp_bw", 65536),
    }
}

const TCP: &str = "TCP (CUBIC) on the same path, qperf tcp_bw 64 KiB";
/// The queue holds what a fast path has in flight; by default it is 1000 packets.
const LEAST_LOSS: &str = "loss 0.01% limit 100000";
const LITTLE_LOSS: &str = "loss 0.1% limit 100000";
const MUCH_LOSS: &str = "loss 1% limit 100000";
const SHORT: &str = "delay 1ms limit 100000";
const SHORT_LOSSY: &str = "delay 1ms loss 0.1% limit 100000";
const LONG: &str = "delay 5ms limit 100000";
const LONG_LOSSY: &str = "delay 5ms loss 0.1% limit 100000";
const FAR: &str = "delay 20ms limit 100000";
const FAR_LOSSY: &str = "delay 20ms loss 0.1% limit 100000";
const NETEM_BW: &str = "-s 65536 -n 2000";
/// On paths with a delay: for seconds, as the peer.
const DELAYED_BW: &str = "-s 65536 -n 1000";

const RXE: &str = "kernel soft-RoCE over an Ethernet pair alike";
const GUEST_LAT: &str = "-s 8 -n 500";
/// More than some: a program's code is translated by the emulator when it first runs, which the
/// kernel's has been for long.
const GUEST_BW: &str = "-s 65536 -n 1000";

pub const ROWS: &[Row] = &[
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
        ours: Work::Sockets(Addressing::Connected, 24, 2000),
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
    limit(
        "datagrams by UDP sockets alone, between hosts",
        Location::Guest,
        false,
    ),
    limit(
        "datagrams by UDP sockets with CRC-32 and copies, between hosts",
        Location::Guest,
        true,
    ),
    limit(
        "datagrams by UDP sockets alone, hosts, loss 0.1 %",
        Location::Netem(LITTLE_LOSS),
        false,
    ),
    limit(
        "datagrams by UDP sockets alone, hosts, 1 ms each way",
        Location::Netem(SHORT),
        false,
    ),
    limit(
        "datagrams by UDP sockets alone, hosts, 5 ms each way",
        Location::Netem(LONG),
        false,
    ),
    beside_tcp(
        "ib_write_bw 64 KiB, hosts, loss 0.01 %",
        "ib_write_bw",
        LEAST_LOSS,
        1.0,
    ),
    beside_tcp(
        "ib_read_bw 64 KiB, hosts, loss 0.01 %",
        "ib_read_bw",
        LEAST_LOSS,
        1.0,
    ),
    beside_tcp(
        "ib_send_bw 64 KiB, hosts, loss 0.01 %",
        "ib_send_bw",
        LEAST_LOSS,
        1.0,
    ),
    beside_tcp(
        "ib_write_bw 64 KiB, hosts, loss 0.1 %",
        "ib_write_bw",
        LITTLE_LOSS,
        1.0,
    ),
    beside_tcp(
        "ib_read_bw 64 KiB, hosts, loss 0.1 %",
        "ib_read_bw",
        LITTLE_LOSS,
        1.0,
    ),
    beside_tcp(
        "ib_send_bw 64 KiB, hosts, loss 0.1 %",
        "ib_send_bw",
        LITTLE_LOSS,
        1.0,
    ),
    beside_tcp(
        "ib_write_bw 64 KiB, hosts, loss 1 %",
        "ib_write_bw",
        MUCH_LOSS,
        1.0,
    ),
    beside_tcp(
        "ib_read_bw 64 KiB, hosts, loss 1 %",
        "ib_read_bw",
        MUCH_LOSS,
        1.0,
    ),
    beside_tcp(
        "ib_send_bw 64 KiB, hosts, loss 1 %",
        "ib_send_bw",
        MUCH_LOSS,
        1.0,
    ),
    delayed(
        "ib_write_bw 64 KiB, hosts, 1 ms each way",
        "ib_write_bw",
        SHORT,
        0.9,
    ),
    delayed(
        "ib_read_bw 64 KiB, hosts, 1 ms each way",
        "ib_read_bw",
        SHORT,
        0.9,
    ),
    delayed(
        "ib_write_bw 64 KiB, hosts, 1 ms each way, loss 0.1 %",
        "ib_write_bw",
        SHORT_LOSSY,
        1.0,
    ),
    delayed(
        "ib_write_bw 64 KiB, hosts, 5 ms each way",
        "ib_write_bw",
        LONG,
        0.9,
    ),
    delayed(
        "ib_read_bw 64 KiB, hosts, 5 ms each way",
        "ib_read_bw",
        LONG,
        0.9,
    ),
    delayed(
        "ib_write_bw 64 KiB, hosts, 5 ms each way, loss 0.1 %",
        "ib_write_bw",
        LONG_LOSSY,
        1.0,
    ),
    delayed(
        "ib_write_bw 64 KiB, hosts, 20 ms each way",
        "ib_write_bw",
        FAR,
        0.9,
    ),
    delayed(
        "ib_read_bw 64 KiB, hosts, 20 ms each way",
        "ib_read_bw",
        FAR,
        0.9,
    ),
    delayed(
        "ib_write_bw 64 KiB, hosts, 20 ms each way, loss 0.1 %",
        "ib_write_bw",
        FAR_LOSSY,
        1.0,
    ),
];
