//! Two hosts on this machine, an Ethernet pair between them: beside TCP and plain UDP sockets.
#![forbid(unsafe_code)]

use crate::bench::uroce::row::{
    Addressing, BANDWIDTH, Bound, Datagrams, Location, Row, TYPICAL, Unit, Work, udp,
};

const TCP_SMALL: &str = "TCP on the same pair, qperf tcp_bw 64 KiB";
const TCP_LARGE: &str = "TCP on the same pair, qperf tcp_bw 1 MiB";
const SOCKETS: &str = "a datagram by UDP sockets alone";
const LAT: &str = "-s 8 -n 10000";
const BW: &str = "-s 65536 -n 5000";
const LARGE_BW: &str = "-s 1048576 -n 300";

const fn small(name: &'static str, program: &'static str, mtu: u32) -> Row {
    bandwidth(name, TCP_SMALL, mtu, udp(program, BW, BANDWIDTH), 65536)
}

const fn large(name: &'static str, program: &'static str, mtu: u32) -> Row {
    let ours = udp(program, LARGE_BW, BANDWIDTH);
    bandwidth(name, TCP_LARGE, mtu, ours, 1 << 20)
}

const fn bandwidth(
    name: &'static str,
    against: &'static str,
    mtu: u32,
    ours: Work,
    size: u32,
) -> Row {
    Row {
        name,
        against,
        place: Location::Pair(mtu),
        unit: Unit::Mebibytes,
        bound: Bound::AtLeast(1.0),
        ours,
        peer: Work::Tcp("tcp_bw", size),
    }
}

const fn latency(name: &'static str, program: &'static str) -> Row {
    Row {
        name,
        against: SOCKETS,
        place: Location::Pair(1500),
        unit: Unit::Microseconds,
        bound: Bound::AtMost(1.3),
        ours: udp(program, LAT, TYPICAL),
        // As long as the packet of such a message.
        peer: Work::Sockets(Addressing::Connected, 24, 10000),
    }
}

/// What the kernel and the processors allow to anything that sends datagrams as long as packets.
const fn limit(name: &'static str, mtu: u32, payload: u32) -> Row {
    let stream = Datagrams {
        size: 65536,
        count: 50000,
        payload,
        checked: false,
    };
    Row {
        bound: Bound::Any,
        ..bandwidth(name, TCP_SMALL, mtu, Work::Datagrams(stream), 65536)
    }
}

pub const ROWS: &[Row] = &[
    latency("ib_send_lat 8 B, pair", "ib_send_lat"),
    latency("ib_write_lat 8 B, pair", "ib_write_lat"),
    Row {
        name: "a datagram by UDP sockets that each call addresses, pair",
        against: SOCKETS,
        place: Location::Pair(1500),
        unit: Unit::Microseconds,
        bound: Bound::Any,
        ours: Work::Sockets(Addressing::EachCall, 24, 10000),
        peer: Work::Sockets(Addressing::Connected, 24, 10000),
    },
    small("ib_write_bw 64 KiB, pair, MTU 1500", "ib_write_bw", 1500),
    small("ib_read_bw 64 KiB, pair, MTU 1500", "ib_read_bw", 1500),
    small("ib_send_bw 64 KiB, pair, MTU 1500", "ib_send_bw", 1500),
    large("ib_write_bw 1 MiB, pair, MTU 1500", "ib_write_bw", 1500),
    large("ib_read_bw 1 MiB, pair, MTU 1500", "ib_read_bw", 1500),
    large("ib_send_bw 1 MiB, pair, MTU 1500", "ib_send_bw", 1500),
    small("ib_write_bw 64 KiB, pair, MTU 9000", "ib_write_bw", 9000),
    small("ib_read_bw 64 KiB, pair, MTU 9000", "ib_read_bw", 9000),
    small("ib_send_bw 64 KiB, pair, MTU 9000", "ib_send_bw", 9000),
    large("ib_write_bw 1 MiB, pair, MTU 9000", "ib_write_bw", 9000),
    large("ib_read_bw 1 MiB, pair, MTU 9000", "ib_read_bw", 9000),
    large("ib_send_bw 1 MiB, pair, MTU 9000", "ib_send_bw", 9000),
    limit("datagrams by UDP sockets alone, pair, MTU 1500", 1500, 1024),
    limit("datagrams by UDP sockets alone, pair, MTU 9000", 9000, 4096),
];
