//! Two streams with a channel of messages between them, which keeps their order and delays them at
//! random. Either side may end, die, or stop reading at any step.

use crate::{
    Buffer, CONTROL_PLACES, ConnectData, Limits, MAX_WRITE, Payload, Piece, Sge, Stream,
    TARGET_ENTRIES, TargetSgl, Write,
};
use proptest::prelude::*;
use std::collections::VecDeque;

const SGL_AT: u64 = 0x1000;
const RING_AT: u64 = 0x10_0000;
const KEY: u32 = 77;

/// Entries written by the peer.
#[derive(Default)]
struct Table([Sge; TARGET_ENTRIES as usize]);

impl TargetSgl for Table {
    fn take(&mut self, index: u32) -> Option<Sge> {
        let entry = &mut self.0[usize::try_from(index).unwrap()];
        (entry.length != 0).then(|| std::mem::take(entry))
    }
}

/// A write in flight, with its bytes.
struct Flying {
    write: Write,
    bytes: Vec<u8>,
}

struct Side {
    stream: Stream,
    table: Table,
    send_buffer: Vec<u8>,
    ring: Vec<u8>,
    control: [Vec<u8>; CONTROL_PLACES as usize],
    /// Receive requests that are posted.
    requests: usize,
    /// To the peer, in order.
    flying: VecDeque<Flying>,
    /// Completions that this side has not polled yet.
    completed: VecDeque<u64>,
    next_sent: u8,
    next_expected: u8,
    sent: usize,
    received: usize,
}

#[derive(Clone, Copy, Debug)]
struct Sizes {
    send_places: u16,
    requests: u16,
    inline: usize,
    send_buffer: usize,
    half: usize,
    sends: bool,
}

fn limits(sizes: Sizes) -> Limits {
    Limits {
        send_places: sizes.send_places,
        receive_requests: sizes.requests,
        inline: sizes.inline,
        send_buffer: sizes.send_buffer,
        receive_buffer: Sge {
            address: RING_AT,
            key: KEY,
            length: u32::try_from(2 * sizes.half).unwrap(),
        },
        message_is_send: sizes.sends,
    }
}

fn peer_data(sizes: Sizes) -> ConnectData {
    ConnectData {
        big_endian: ConnectData::NATIVE,
        credits: sizes.requests,
        iomap_size: 0,
        target_sgl: Buffer {
            address: SGL_AT,
            key: KEY,
            length: TARGET_ENTRIES,
        },
        data: Buffer {
            address: RING_AT,
            key: KEY,
            length: u32::try_from(sizes.half).unwrap(),
        },
    }
}

impl Side {
    fn new(own: Sizes, peer: Sizes) -> Self {
        Self {
            stream: Stream::new(limits(own), &peer_data(peer)),
            table: Table::default(),
            send_buffer: vec![0; own.send_buffer],
            ring: vec![0; 2 * own.half],
            control: Default::default(),
            requests: own.requests.into(),
            flying: VecDeque::new(),
            completed: VecDeque::new(),
            next_sent: 0,
            next_expected: 0,
            sent: 0,
            received: 0,
        }
    }

    fn next_bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length)
            .map(|_| {
                self.next_sent = self.next_sent.wrapping_add(1);
                self.next_sent
            })
            .collect()
    }

    fn post(&mut self, write: Write) {
        let copy = |buffer: &mut Vec<u8>, bytes: &[u8], pieces: [Piece; 2]| {
            let mut rest = bytes;
            for piece in pieces {
                let (now, later) = rest.split_at(piece.length);
                buffer[piece.offset..piece.offset + piece.length].copy_from_slice(now);
                rest = later;
            }
        };
        // Bytes in the ring are read when the write arrives, as a device may.
        let bytes = match write.payload {
            Payload::Empty => Vec::new(),
            Payload::Inline(length) => self.next_bytes(length),
            Payload::Ring(pieces) => {
                let bytes = self.next_bytes(pieces[0].length + pieces[1].length);
                copy(&mut self.send_buffer, &bytes, pieces);
                Vec::new()
            }
            Payload::Entry(bytes, length) => bytes[..length].to_vec(),
            Payload::ControlEntry(bytes, length, place) => {
                self.control[place] = bytes[..length].to_vec();
                Vec::new()
            }
            Payload::RingEntry(bytes, pieces) => {
                copy(&mut self.send_buffer, &bytes, pieces);
                Vec::new()
            }
        };
        if let Payload::Inline(length) = write.payload {
            self.sent += length;
        }
        if let Payload::Ring(pieces) = write.payload {
            self.sent += pieces[0].length + pieces[1].length;
        }
        self.flying.push_back(Flying { write, bytes });
    }

    fn post_control(&mut self) {
        while let Some(write) = self.stream.next_control() {
            self.post(write);
        }
    }

    fn send(&mut self, length: usize) {
        if let Some(write) = self.stream.send(length, MAX_WRITE) {
            self.post(write);
        }
        self.post_control();
    }

    fn read(&mut self, length: usize) {
        for piece in self.stream.take(length) {
            for byte in &self.ring[piece.offset..piece.offset + piece.length] {
                self.next_expected = self.next_expected.wrapping_add(1);
                assert_eq!(*byte, self.next_expected);
            }
            self.received += piece.length;
        }
        self.post_control();
    }

    fn poll(&mut self) {
        while let Some(id) = self.completed.pop_front() {
            self.stream.sent(id, true);
        }
        self.post_control();
    }

    fn bytes_of(&self, flying: &Flying) -> Vec<u8> {
        let ring = |pieces: [Piece; 2]| {
            let bytes = pieces
                .iter()
                .flat_map(|piece| &self.send_buffer[piece.offset..piece.offset + piece.length]);
            bytes.copied().collect()
        };
        match flying.write.payload {
            Payload::Ring(pieces) | Payload::RingEntry(_, pieces) => ring(pieces),
            Payload::ControlEntry(_, _, place) => self.control[place].clone(),
            _ => flying.bytes.clone(),
        }
    }
}

/// The oldest write of a side reaches the other. False if there is none, or no receive request.
fn deliver(from: &mut Side, to: &mut Side, sizes: Sizes) -> bool {
    let Some(flying) = from.flying.front() else {
        return false;
    };
    let Write {
        target,
        message,
        id,
        ..
    } = flying.write;
    // Receiver not ready: the transport retries.
    if message.is_some() && to.requests == 0 {
        return false;
    }
    let bytes = from.bytes_of(flying);
    assert_eq!(bytes.len(), usize::try_from(target.length).unwrap());
    if !bytes.is_empty() {
        assert_eq!(target.key, KEY);
        if target.address < RING_AT {
            let index = usize::try_from((target.address - SGL_AT) / 16).unwrap();
            assert_eq!(
                to.table.0[index].length, 0,
                "an entry in use is overwritten"
            );
            to.table.0[index] = Sge::decode_native(bytes.first_chunk().unwrap());
        } else {
            let at = usize::try_from(target.address - RING_AT).unwrap();
            to.ring[at..at + bytes.len()].copy_from_slice(&bytes);
        }
    }
    let write = from.flying.pop_front().unwrap().write;
    from.completed.push_back(id);
    if sizes.sends && message.is_some() && target.length > 0 {
        from.completed.push_back(write.send_id());
    }
    if let Some(word) = message {
        // The request is posted again as soon as it is polled.
        to.stream.received(word, &mut to.table).unwrap();
        to.post_control();
    }
    true
}

#[derive(Clone, Debug)]
enum Step {
    Send(bool, usize),
    Read(bool, usize),
    Deliver(bool),
    Poll(bool),
    KeepAlive(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (any::<bool>(), 1_usize..9000).prop_map(|(side, length)| Step::Send(side, length)),
        (any::<bool>(), 1_usize..9000).prop_map(|(side, length)| Step::Read(side, length)),
        any::<bool>().prop_map(Step::Deliver),
        any::<bool>().prop_map(Step::Poll),
        any::<bool>().prop_map(Step::KeepAlive),
    ]
}

fn sizes(sends: bool) -> impl Strategy<Value = Sizes> {
    (
        16_u16..40,
        16_u16..40,
        0_usize..80,
        4096_usize..9000,
        100_usize..3000,
    )
        .prop_map(
            move |(send_places, requests, inline, send_buffer, half)| Sizes {
                send_places,
                requests,
                inline,
                send_buffer,
                half,
                sends,
            },
        )
}

struct World {
    sizes: Sizes,
    a: Side,
    b: Side,
}

impl World {
    fn new(sizes: (Sizes, Sizes)) -> Self {
        Self {
            sizes: sizes.0,
            a: Side::new(sizes.0, sizes.1),
            b: Side::new(sizes.1, sizes.0),
        }
    }

    fn pair(&mut self, first: bool) -> (&mut Side, &mut Side) {
        if first {
            (&mut self.a, &mut self.b)
        } else {
            (&mut self.b, &mut self.a)
        }
    }

    fn run(&mut self, step: &Step) {
        let sizes = self.sizes;
        match *step {
            Step::Send(side, length) => self.pair(side).0.send(length),
            Step::Read(side, length) => self.pair(side).0.read(length),
            Step::Poll(side) => self.pair(side).0.poll(),
            Step::Deliver(side) => {
                let (from, to) = self.pair(side);
                deliver(from, to, sizes);
            }
            Step::KeepAlive(side) => {
                let (side, _) = self.pair(side);
                if let Some(write) = side.stream.keep_alive() {
                    side.post(write);
                }
            }
        }
    }

    /// Delivers and reads everything in flight.
    fn settle(&mut self) {
        let sizes = self.sizes;
        loop {
            let mut moved = deliver(&mut self.a, &mut self.b, sizes);
            moved |= deliver(&mut self.b, &mut self.a, sizes);
            for side in [&mut self.a, &mut self.b] {
                moved |= !side.completed.is_empty() || side.stream.unread() > 0;
                side.poll();
                side.read(usize::MAX);
                moved |= !side.flying.is_empty();
            }
            if !moved {
                return;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Each byte arrives once and in order, nothing is overwritten, and when both sides read, both
    /// can send again.
    #[test]
    fn bytes_arrive_in_order(
        (first, second) in any::<bool>().prop_flat_map(|sends| (sizes(sends), sizes(sends))),
        steps in prop::collection::vec(step(), 0..400),
    ) {
        let mut world = World::new((first, second));
        for step in &steps {
            world.run(step);
        }
        world.settle();
        prop_assert_eq!(world.a.sent, world.b.received);
        prop_assert_eq!(world.b.sent, world.a.received);
        for side in [&world.a, &world.b] {
            prop_assert!(side.stream.can_send() && side.stream.is_all_sent());
        }
    }

    /// A side that ends at any step is read to its end, and learns when everything was sent.
    #[test]
    fn bytes_sent_before_the_end_are_read(
        both in sizes(false),
        steps in prop::collection::vec(step(), 0..200),
        how in 0_u8..3,
    ) {
        let mut world = World::new((both, both));
        for step in &steps {
            world.run(step);
        }
        world.a.stream.shut_down(how == 1, how != 1);
        if how == 2 {
            world.a.stream.shut_down(true, true);
        }
        world.a.post_control();
        world.settle();
        prop_assert_eq!(world.a.sent, world.b.received);
        prop_assert!(world.a.stream.is_all_sent());
        let (a, b) = (&world.a.stream, &world.b.stream);
        match how {
            0 => {
                prop_assert!(a.is_connected() && a.is_readable() && !a.is_writable());
                prop_assert!(b.is_connected() && !b.is_readable() && b.is_writable());
                prop_assert!(b.can_send());
            }
            1 => prop_assert!(a.is_connected() && !a.is_readable() && b.can_send()),
            _ => {
                prop_assert!(!a.is_connected() && !b.is_connected());
                prop_assert!(!b.can_send() && !a.can_send());
                prop_assert!(!a.has_failed() && !b.has_failed());
            }
        }
    }

    /// The peer dies at any step: its last writes may be lost. The other side fails, reads the data
    /// that had arrived, and sends nothing more.
    #[test]
    fn the_death_of_the_peer_ends_a_side(
        both in sizes(false),
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let mut world = World::new((both, both));
        for step in &steps {
            world.run(step);
        }
        let lost: Vec<u64> = world.a.flying.drain(..).map(|flying| flying.write.id).collect();
        for id in lost {
            world.a.stream.sent(id, false);
        }
        world.a.stream.failed();
        world.a.poll();
        prop_assert!(world.a.stream.has_failed() && !world.a.stream.can_send());
        prop_assert!(world.a.stream.is_all_sent());
        world.a.read(usize::MAX);
        prop_assert_eq!(world.a.stream.unread(), 0);
        prop_assert!(world.a.flying.is_empty());
        prop_assert!(world.a.stream.keep_alive().is_none());
    }

    /// Untrusted numbers of a peer cause no panic, and no byte outside of the ring is read.
    #[test]
    fn a_hostile_peer_ends_the_connection_at_worst(
        both in sizes(false),
        words in prop::collection::vec((any::<u32>(), any::<u64>(), any::<u32>()), 0..100),
    ) {
        let mut side = Side::new(both, both);
        for (word, address, length) in words {
            side.table.0[usize::from(address % 2 == 1)] = Sge { address, key: 0, length };
            let _ = side.stream.received(word, &mut side.table);
            for piece in side.stream.peek(0, usize::MAX) {
                prop_assert!(piece.offset + piece.length <= side.ring.len());
            }
            side.stream.take(100);
            let _ = side.stream.send(5000, MAX_WRITE);
            while side.stream.next_control().is_some() {}
            side.stream.sent(word.into(), true);
        }
    }
}
