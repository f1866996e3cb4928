//! Messages between two ends of this make leave in packets of equal length.

use super::*;
use crate::wire::{ImmDt, Packet};

const FROM: u64 = 0x10000;
const TO: u64 = 0x40000;
/// Behind the AckReq bit: parts of any length are understood, and bytes that mean nothing.
const EQUAL: u8 = 0x10;
const FILLED: u8 = 0x08;
/// The byte of a BTH with the AckReq bit.
const FLAGS: usize = 8;

const WRITE: Request = Request::Write(Remote {
    address: BASE + TO,
    rkey: ALL,
});

fn of_mtu(mtu: Mtu, faults: Faults, seed: u64) -> World {
    let setup = Setup {
        mtu,
        timeout: 16,
        ..Setup::new(Service::Rc)
    };
    World::new(&setup, faults, seed)
}

/// A message each way, so that the ends know each other.
fn acquaint(mut world: World) -> World {
    for side in [0, 1] {
        world.post(side, wr(0, Request::Write(remote(0)), 0, 8));
    }
    world.rest();
    for end in &mut world.ends {
        end.host.completions.clear();
    }
    world
}

impl World {
    /// Takes all packets from the link, as they are. Returns where to, and the bytes.
    fn take_all(&mut self) -> Vec<(usize, Vec<u8>)> {
        let end_of_time = Time::from_nanos(u64::MAX);
        std::iter::from_fn(|| self.link.receive(end_of_time)).collect()
    }

    /// Runs on, and returns all packets that were under way. `change` may change their bytes before
    /// the ICRC, which is then right again.
    fn watch(&mut self, change: impl Fn(&mut [u8])) -> Vec<(usize, Vec<u8>)> {
        let mut seen = Vec::new();
        loop {
            self.pump();
            let packets = self.take_all();
            if packets.is_empty() {
                return seen;
            }
            for (to, bytes) in packets {
                let mut bytes = bytes[..bytes.len() - 4].to_vec();
                change(&mut bytes);
                let bytes = seal(bytes, 1 - to);
                self.deliver(to, &bytes);
                seen.push((to, bytes));
            }
        }
    }
}

/// The packets with payload.
fn loaded(packets: &[(usize, Vec<u8>)]) -> Vec<&[u8]> {
    let packets = packets.iter().map(|(_, bytes)| &bytes[..]);
    let has_payload = |bytes: &&[u8]| {
        let packet = Packet::parse(bytes).expect("well formed");
        !packet.payload.is_empty()
    };
    packets.filter(has_payload).collect()
}

#[test]
fn several_messages_leave_in_packets_of_one_length() {
    let immediate = ImmDt { data: 7 };
    let cases: [(Request, u32, usize); 5] = [
        (Request::Send, 8256, 9),
        (Request::SendImm(immediate), 8256, 9),
        (WRITE, 8256, 9),
        (WRITE, 65000, 64),
        (Request::Read(remote(TO)), 65536, 64),
    ];
    for (request, length, packets) in cases {
        let mut world = acquaint(of_mtu(Mtu::B1024, Faults::default(), 1));
        for id in 0..3 {
            if request.takes_receive() {
                world.post_receive(1, 10 + id, TO, length);
            }
            world.post(0, wr(id, request.clone(), FROM, length));
        }
        let seen = world.watch(|_| ());
        let loaded = loaded(&seen);
        assert_eq!(loaded.len(), 3 * packets, "{request:?}");
        let first = loaded[0].len();
        let equal = loaded.iter().all(|bytes| bytes.len() == first);
        assert!(equal, "{request:?}");
        let all: usize = loaded.iter().map(|bytes| bytes.len()).sum();
        let payload = 3 * usize::try_from(length).expect("small");
        assert!(all * 100 <= payload * 104, "{request:?}: {all}");
        let done: Vec<(u64, Status)> = (0..3).map(|id| (id, Status::Success)).collect();
        assert_eq!(world.statuses(0), done);
        assert!(world.same((0, FROM), (1, TO), length));
    }
}

/// An end that reports missing packets, but knows nothing of equal ones; and one of another make.
#[test]
fn others_see_packets_of_the_usual_lengths() {
    for understood in [0x80 | 0x40 | 0x20, 0x80] {
        let mut world = of_mtu(Mtu::B1024, Faults::default(), 1);
        let change = |bytes: &mut [u8]| bytes[FLAGS] &= understood;
        for side in [0, 1] {
            world.post(side, wr(0, Request::Write(remote(0)), 0, 8));
        }
        world.watch(change);
        for id in 1..4 {
            world.post_receive(1, 10 + id, TO, 8256);
            world.post(0, wr(id, Request::Send, FROM, 8256));
            world.post(0, wr(id, WRITE, FROM, 65536));
            world.post(0, wr(id, Request::Read(remote(TO)), FROM, 65536));
        }
        let mut requests = 0;
        loop {
            world.pump();
            let packets = world.take_all();
            if packets.is_empty() {
                break;
            }
            for (to, bytes) in packets {
                let packet = Packet::parse(&bytes).expect("well formed");
                let operation = packet.headers.opcode.operation();
                assert_eq!(bytes[FLAGS] & FILLED, 0);
                if !operation.is_response() {
                    requests += 1;
                    assert_eq!(bytes[FLAGS] & EQUAL, 0);
                    let whole = operation.position().ends() || packet.payload.len() == 1024;
                    assert!(whole);
                }
                let mut bytes = bytes[..bytes.len() - 4].to_vec();
                change(&mut bytes);
                world.deliver(to, &seal(bytes, 1 - to));
            }
        }
        assert!(requests >= 3 * (9 + 64 + 1), "{requests}");
        assert_eq!(world.statuses(0).len(), 10);
        assert!(world.same((0, FROM), (1, TO), 65536));
    }
}

#[test]
fn equal_packets_arrive_whole_on_a_bad_network() {
    for seed in 0..6 {
        let faults = Faults {
            loss: 30,
            ..Faults::default()
        };
        let mut world = acquaint(of_mtu(Mtu::B512, faults, seed));
        let lengths = [8256, 4097, 5121, 513, 32768, 1023, 3000, 16384];
        let mut at = 0;
        for (length, id) in lengths.into_iter().zip(0..) {
            let target = remote(TO + at);
            let request = match id % 3 {
                0 => Request::Send,
                1 => Request::Write(target),
                _ => Request::WriteImm(target, ImmDt { data: 1 }),
            };
            if request.takes_receive() {
                world.post_receive(1, 10 + id, TO + at, length);
            }
            world.post(0, wr(id, request, FROM + at, length));
            at += u64::from(length);
        }
        world.rest();
        let done: Vec<(u64, Status)> = (0..8).map(|id| (id, Status::Success)).collect();
        assert_eq!(world.statuses(0), done);
        let all = u32::try_from(at).expect("small");
        assert!(world.same((0, FROM), (1, TO), all));
    }
}

/// A packet that claims more bytes behind its payload than there are is none.
#[test]
fn a_filler_beyond_the_packet_is_dropped() {
    let mut world = acquaint(of_mtu(Mtu::B1024, Faults::default(), 1));
    world.post(0, wr(1, WRITE, FROM, 8256));
    world.pump();
    let packets = world.take_all();
    let received = world.ends[1].qp.counters().packets_received;
    // The header of the last packet is behind its BTH.
    let (to, bytes) = &packets[8];
    assert_ne!(bytes[FLAGS] & FILLED, 0);
    for length in [1000, 1041, 0x7fff, 0xffff_u16] {
        let mut hostile = bytes[..bytes.len() - 4].to_vec();
        hostile[12..14].copy_from_slice(&length.to_be_bytes());
        world.deliver(*to, &seal(hostile, 1 - to));
    }
    assert_eq!(world.ends[1].qp.counters().packets_received, received);
    for (to, bytes) in &packets {
        world.deliver(*to, bytes);
    }
    world.rest();
    assert_eq!(world.statuses(0), [(1, Status::Success)]);
    assert!(world.same((0, FROM), (1, TO), 8256));
}
