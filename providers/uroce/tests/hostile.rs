//! Packets that violate the protocol, each whole and with the right ICRC, at a port where two ends
//! are at work.
//!
//! `UROCE_HOSTILE_PACKETS` makes it longer.
#![allow(
    clippy::expect_used,
    reason = "a test ends where something is not as expected"
)]
#![allow(clippy::cast_possible_truncation, reason = "of random numbers")]

mod alone;
mod ends;

#[test]
fn in_a_namespace() {
    alone::in_a_namespace();
}

mod inside {
    use super::alone::{Dice, rounds, there};
    use super::ends::{End, connect, pair};
    use kit::abi::*;
    use std::net::{Ipv4Addr, UdpSocket};
    use uroce_engine::psn::Psn;
    use uroce_engine::wire::icrc::{Icrc, Network, Route};
    use uroce_engine::wire::{
        Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Filler, Headers, ICRC_LEN, Ieth, ImmDt, Opcode,
        Packet, Piggyback, Reth, XrcEth,
    };

    const PORT: u16 = 4791;
    /// An address that the ends do not know, and the address that each takes for the other's.
    const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 7, 7, 7);
    const PEER: Ipv4Addr = Ipv4Addr::LOCALHOST;
    /// Where no message of the ends reaches.
    const UNTOUCHED: u32 = 100_000;
    const BURST: u64 = 32;

    /// The knowledge of a sender of forged packets.
    struct Target {
        numbers: Vec<u32>,
        address: u64,
        rkey: u32,
        /// Whether it knows the key, and the sequence numbers.
        knows: bool,
    }

    /// A packet of any opcode with fields that may mean something.
    fn packet(dice: &mut Dice, target: &Target) -> Vec<u8> {
        let opcode = loop {
            if let Some(opcode) = Opcode::parse(dice.next() as u8) {
                break opcode;
            }
        };
        let psn = if target.knows {
            // Near the expected number.
            dice.below(4096) as u32
        } else {
            // Far from it: a sender that knows the numbers, too, can end a connection.
            0x40_0000 + dice.below(0x80_0000) as u32
        };
        let bth = Bth {
            opcode: 0,
            solicited: dice.below(2) == 0,
            migrated: dice.below(2) == 0,
            pad: 0,
            pkey: if dice.below(8) == 0 { 1 } else { 0xffff },
            fecn: dice.below(8) == 0,
            becn: dice.below(8) == 0,
            destination: match dice.below(16) {
                0 => dice.next() as u32 & 0x00ff_ffff,
                1 => 0x00ff_ffff,
                // No queue pair yet, of a process that is there.
                2 => target.numbers[0] + 1 + dice.below(16_000) as u32,
                _ => target.numbers[dice.below(target.numbers.len() as u64) as usize],
            },
            ack_request: dice.below(2) == 0,
            selective: dice.below(2) == 0,
            piggyback: dice.below(2) == 0,
            equal: dice.below(2) == 0,
            filled: dice.below(2) == 0,
            psn: Psn::new(psn),
        };
        let rkey = if target.knows {
            target.rkey
        } else {
            (dice.next() as u32) ^ target.rkey | 0x8000_0000
        };
        let address = target.address + u64::from(UNTOUCHED) + dice.below(4096);
        let mut headers = Headers::new(opcode, bth);
        headers.reth = Some(Reth {
            address,
            rkey,
            length: [0, 8, 1024, 20_000, u32::MAX][dice.below(5) as usize],
        });
        headers.atomic_eth = Some(AtomicEth {
            address: address & !7,
            rkey,
            swap_add: dice.next(),
            compare: 0,
        });
        headers.aeth = Some(Aeth {
            syndrome: dice.next() as u8,
            msn: dice.next() as u32 & 0x00ff_ffff,
        });
        headers.piggyback = Some(Piggyback {
            syndrome: dice.next() as u8,
            msn: dice.next() as u32 & 0x00ff_ffff,
            psn: dice.next() as u32 & 0x00ff_ffff,
        });
        headers.filler = Filler::of(4 + dice.below(64) as u32);
        headers.atomic_ack_eth = Some(AtomicAckEth {
            original: dice.next(),
        });
        headers.deth = Some(Deth {
            qkey: dice.next() as u32 | 0x8000_0000,
            source: dice.next() as u32 & 0x00ff_ffff,
        });
        headers.xrceth = Some(XrcEth {
            srqn: dice.below(8) as u32,
        });
        headers.imm_dt = Some(ImmDt {
            data: dice.next() as u32,
        });
        headers.ieth = Some(Ieth { rkey });
        let emitted = headers.emit();
        let mut bytes = emitted.as_slice().to_vec();
        let payload = [0, 0, 8, 64, 1000, 1024, 1028][dice.below(7) as usize];
        bytes.resize(bytes.len() + payload, 0x5a);
        if dice.below(4) == 0 {
            bend(dice, &mut bytes, target.knows);
        }
        bytes
    }

    /// Changes bits, or the length; but for a sender that does not know it, not the sequence
    /// number, whose place follows the QP number's.
    fn bend(dice: &mut Dice, bytes: &mut Vec<u8>, anything: bool) {
        for _ in 0..=dice.below(3) {
            let at = dice.below(bytes.len() as u64) as usize;
            let keyed = (9..44).contains(&at) && !anything;
            if !keyed {
                bytes[at] ^= 1 << dice.below(8);
            }
        }
        if dice.below(3) == 0 {
            let most = bytes.len() as u64;
            bytes.truncate(dice.below(most + 1) as usize);
        }
    }

    fn seal(bytes: &mut Vec<u8>, source: Ipv4Addr, source_port: u16) {
        let route = Route {
            network: Network::V4 {
                source: source.octets(),
                destination: PEER.octets(),
                identification: 0,
                dont_fragment: true,
            },
            source_port,
            destination_port: PORT,
        };
        let icrc = Icrc::begin(&route, bytes, bytes.len() + ICRC_LEN).finish();
        bytes.extend_from_slice(&icrc);
    }

    /// Sends packets while two ends work, and checks the ends and their memory.
    fn stream(source: Ipv4Addr, knows: bool, packets: u64, seed: u64) {
        let [a, b] = pair(IBV_QPT_RC);
        let unconnected = [End::new(IBV_QPT_UD), End::new(IBV_QPT_UC)];
        connect(&unconnected[0], 0);
        for id in 0..8 {
            unconnected[0].post_recv(id, UNTOUCHED, 4096);
        }
        let target = Target {
            numbers: [&a, &b, &unconnected[0], &unconnected[1]]
                .map(|end| end.number())
                .to_vec(),
            address: b.address(0),
            rkey: b.rkey(),
            knows,
        };
        a.fill(1);
        b.fill(2);
        let untouched = [&a, &b].map(|end| end.bytes(UNTOUCHED, 8192));
        let others = unconnected.each_ref().map(|end| end.bytes(0, 120_000));
        let socket = UdpSocket::bind((source, 0)).expect("a socket");
        let port = socket.local_addr().expect("an address").port();
        let mut dice = Dice(seed);
        let (mut sent, mut whole, mut works) = (0, 0u64, 0u64);
        while sent < packets {
            let length = 1 + dice.below(6000) as u32;
            b.post_recv(7, 0, 8192);
            a.post_send(works, IBV_WR_SEND, 0, length, 0, 0);
            a.post_send(works, IBV_WR_RDMA_READ, 40_000, 3000, 20_000, b.rkey());
            for _ in 0..BURST {
                let mut bytes = packet(&mut dice, &target);
                seal(&mut bytes, source, port);
                whole += u64::from(Packet::parse(&bytes).is_ok());
                // A full queue loses it.
                let _ = socket.send_to(&bytes, (PEER, PORT));
                sent += 1;
            }
            for _ in 0..2 {
                let done = a.completion();
                assert_eq!((done.status, done.wr_id), (IBV_WC_SUCCESS, works));
            }
            let got = b.completion();
            assert_eq!((got.status, got.byte_len), (IBV_WC_SUCCESS, length));
            assert!(b.bytes(0, length) == a.bytes(0, length));
            assert!(a.bytes(40_000, 3000) == b.bytes(20_000, 3000));
            works += 1;
        }
        for end in [&a, &b, &unconnected[0], &unconnected[1]] {
            assert!(end.poll().is_empty());
        }
        for (end, before) in [&a, &b].into_iter().zip(untouched) {
            assert!(end.bytes(UNTOUCHED, 8192) == before);
            assert_eq!(end.state(), IBV_QPS_RTS);
        }
        for (end, before) in unconnected.iter().zip(others) {
            assert!(end.bytes(0, 120_000) == before);
        }
        eprintln!("{sent} packets from {source}, {whole} well formed; {works} rounds of work");
        assert!(whole * 3 > sent, "most are to get past the first checks");
    }

    /// A stranger that knows everything but is not the peer.
    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn a_stranger_changes_nothing() {
        if there() {
            let packets = rounds("UROCE_HOSTILE_PACKETS", 20_000);
            stream(STRANGER, true, packets, 0x57a9);
        }
    }

    /// From the peer's own address, by a sender that does not know keys and sequence numbers.
    #[test]
    #[ignore = "in_a_namespace runs it"]
    fn guessed_packets_change_nothing() {
        if there() {
            let packets = rounds("UROCE_HOSTILE_PACKETS", 20_000);
            stream(PEER, false, packets, 0x9e55);
        }
    }
}
