//! Packets that the kernel's soft-RoCE sent, read and written again.

#![allow(
    clippy::expect_used,
    reason = "a captured packet that cannot be read is a failed test"
)]
use uroce_engine::wire::icrc::{self, Icrc, Network, Route};
use uroce_engine::wire::{Operation, Packet, Transport, pad_of};

struct Captured {
    route: Route,
    datagram: Vec<u8>,
}

fn bytes(line: &str) -> Vec<u8> {
    (0..line.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&line[at..at + 2], 16).expect("hex"))
        .collect()
}

fn network(frame: &[u8]) -> (Network, usize) {
    if frame[0] >> 4 == 4 {
        let network = Network::V4 {
            source: frame[12..16].try_into().expect("4 bytes"),
            destination: frame[16..20].try_into().expect("4 bytes"),
            identification: u16::from_be_bytes([frame[4], frame[5]]),
            dont_fragment: frame[6] & 0x40 != 0,
        };
        return (network, 20);
    }
    let network = Network::V6 {
        source: frame[8..24].try_into().expect("16 bytes"),
        destination: frame[24..40].try_into().expect("16 bytes"),
    };
    (network, 40)
}

fn captured() -> Vec<Captured> {
    include_str!("captured/rxe.hex")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let frame = bytes(line);
            let (network, udp) = network(&frame);
            let port = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
            Captured {
                route: Route {
                    network,
                    source_port: port(udp),
                    destination_port: port(udp + 2),
                },
                datagram: frame[udp + 8..].to_vec(),
            }
        })
        .collect()
}

#[test]
fn the_kernels_icrc_is_ours() {
    let all = captured();
    assert_eq!(all.len(), 16);
    for Captured { route, datagram } in all {
        assert_eq!(route.destination_port, 4791);
        assert!(icrc::verify(&route, &datagram), "{:02x}", datagram[0]);
    }
}

#[test]
fn the_identification_is_found_in_the_kernels_packets() {
    let mut solved = 0;
    for Captured { route, datagram } in captured() {
        let Network::V4 {
            source,
            destination,
            identification,
            dont_fragment,
        } = route.network
        else {
            continue;
        };
        let unknown = Route {
            network: Network::V4 {
                source,
                destination,
                identification: 0,
                dont_fragment,
            },
            ..route
        };
        assert!(!icrc::verify(&unknown, &datagram));
        assert_eq!(icrc::identify(&unknown, &datagram), Some(identification));
        let mut damaged = datagram.clone();
        damaged[9] ^= 1;
        assert_ne!(icrc::identify(&unknown, &damaged), Some(identification));
        solved += 1;
    }
    assert_eq!(solved, 11);
}

#[test]
fn the_kernels_packets_are_read_and_written_alike() {
    for Captured { route, datagram } in captured() {
        let packet = Packet::parse(&datagram).expect("well formed");
        assert_eq!(packet.headers.bth.pad, pad_of(packet.payload.len()));
        let headers = packet.headers.emit();
        let mut written = headers.as_slice().to_vec();
        written.extend_from_slice(packet.payload);
        written.resize(written.len() + usize::from(packet.headers.bth.pad), 0);
        let mut crc = Icrc::begin(&route, headers.as_slice(), written.len() + 4);
        crc.update(&written[headers.as_slice().len()..]);
        written.extend(crc.finish());
        assert_eq!(written, datagram);
    }
}

#[test]
fn the_kernels_fields_are_where_we_look() {
    let all = captured();
    let parsed: Vec<Packet<'_>> = all
        .iter()
        .map(|captured| Packet::parse(&captured.datagram).expect("well formed"))
        .collect();
    let of = |transport, operation| {
        parsed
            .iter()
            .find(|packet| {
                let opcode = packet.headers.opcode;
                opcode.transport() == transport && opcode.operation() == operation
            })
            .expect("captured")
    };
    let send = of(Transport::Uc, Operation::SendLast);
    assert_eq!(send.payload.len(), 2999 - 2048);
    assert_eq!(send.headers.bth.pkey, 0xffff);
    let datagram = of(Transport::Ud, Operation::SendOnly);
    assert_eq!(datagram.payload.len(), 33);
    let deth = datagram.headers.deth.expect("DETH");
    assert_eq!((deth.qkey, deth.source), (0x1111_1111, 0x13));
    let read = of(Transport::Rc, Operation::ReadRequest);
    assert_eq!(read.headers.reth.expect("RETH").length, 2050);
    assert!(read.headers.bth.ack_request);
    let last = of(Transport::Rc, Operation::ReadResponseLast);
    assert_eq!(last.payload.len(), 2);
    assert_eq!(last.headers.aeth.expect("AETH").syndrome >> 5, 0);
    let write = of(Transport::Rc, Operation::WriteFirst);
    assert_eq!(write.headers.reth.expect("RETH").length, 2051);
    assert_eq!(write.payload.len(), 1024);
    let add = of(Transport::Rc, Operation::FetchAdd);
    assert_eq!(add.headers.atomic_eth.expect("AtomicETH").address % 8, 0);
}
