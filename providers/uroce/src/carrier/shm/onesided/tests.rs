//! Tables, with threads in the place of processes.

use super::*;
use std::os::fd::AsFd;

const KEY: Key = Key {
    tag: 7,
    access: 6,
    pd: Some(3),
    qpn: None,
    base: 0x1000,
    length: 0x100,
    address: 0x7000_0000,
};

impl PeerSegment {
    fn key(&self, key: u32) -> Option<Key> {
        self.read_key(key).map(|(key, _)| key)
    }

    fn gate(&self, index: u32) -> Option<Gate> {
        self.read_gate(index).map(|(gate, _)| gate)
    }
}

#[test]
fn keys_are_shown_and_taken_away() {
    let (segment, fd) = Segment::create(5, 9).expect("a segment");
    let seen = PeerSegment::map(fd.as_fd(), 5, 9).expect("mapped");
    assert_eq!(seen.key(1 << 8 | 7), None);
    segment.show_key(1, Some(KEY));
    assert_eq!(seen.key(1 << 8 | 7), Some(KEY));
    assert_eq!(seen.key(1 << 8 | 8), None);
    assert_eq!(seen.key(2 << 8 | 7), None);
    let window = Key {
        pd: None,
        qpn: Some(77),
        ..KEY
    };
    segment.show_key(1, Some(window));
    assert_eq!(seen.key(1 << 8 | 7), Some(window));
    segment.show_key(1, None);
    assert_eq!(seen.key(1 << 8 | 7), None);
    // More than are shown.
    segment.show_key(u32::MAX, Some(KEY));
    assert_eq!(seen.key(u32::MAX), None);
}

const GATE: Gate = Gate {
    peer: 0x00ab_cdef,
    generation: u64::MAX,
    pd: 4,
    pkey: 0xffff,
    write: true,
    read: false,
    awaits_use: true,
    credits: true,
};

#[test]
fn a_read_copy_is_valid_until_gate_or_key_is_changed() {
    let (segment, fd) = Segment::create(5, 9).expect("a segment");
    let seen = PeerSegment::map(fd.as_fd(), 5, 9).expect("mapped");
    assert!(seen.shown(3, 1 << 8 | 7).is_none());
    segment.show_gate(3, Some(GATE));
    assert!(seen.shown(3, 1 << 8 | 7).is_none());
    segment.show_key(1, Some(KEY));
    let first = seen.shown(3, 1 << 8 | 7).expect("shown");
    assert_eq!((first.gate, first.key), (GATE, KEY));
    assert!(first.is_of(3, 1 << 8 | 7) && seen.still_shows(&first));
    assert!(!first.is_of(4, 1 << 8 | 7) && !first.is_of(3, 1 << 8 | 8));
    // Others do not matter.
    segment.show_gate(4, Some(GATE));
    segment.show_key(2, Some(KEY));
    assert!(seen.still_shows(&first));
    segment.show_gate(3, Some(GATE));
    assert!(!seen.still_shows(&first));
    let second = seen.shown(3, 1 << 8 | 7).expect("shown");
    assert!(seen.still_shows(&second) && second.has_key_of(&first));
    segment.show_key(1, None);
    segment.show_key(1, Some(KEY));
    assert!(!seen.still_shows(&second));
    let third = seen.shown(3, 1 << 8 | 7).expect("shown");
    assert!(seen.still_shows(&third) && !third.has_key_of(&first));
}

#[test]
fn gates_are_shown_and_taken_away() {
    let (segment, fd) = Segment::create(5, 9).expect("a segment");
    let seen = PeerSegment::map(fd.as_fd(), 5, 9).expect("mapped");
    let gate = GATE;
    assert_eq!(seen.gate(16_383), None);
    segment.show_gate(16_383, Some(gate));
    assert_eq!(seen.gate(16_383), Some(gate));
    assert!(gate.admits(Right::Write) && !gate.admits(Right::Read));
    segment.show_gate(16_383, None);
    assert_eq!(seen.gate(16_383), None);
    segment.show_gate(16_384, Some(gate));
    assert_eq!(seen.gate(16_384), None);
    // The first key is not behind the last gate's back.
    assert_eq!(seen.key(7), None);
}

#[test]
fn a_key_leads_to_its_own_bytes_only() {
    let place = |pd, qpn, access, range| KEY.place(pd, qpn, access, range);
    assert_eq!(place(3, 1, 2, (0x1000, 0x100)), Some(0x7000_0000));
    assert_eq!(place(3, 1, 6, (0x10ff, 1)), Some(0x7000_00ff));
    assert_eq!(place(3, 1, 6, (0x10ff, 2)), None);
    assert_eq!(place(3, 1, 6, (0xfff, 1)), None);
    assert_eq!(place(3, 1, 6, (0x1001, u64::MAX)), None);
    assert_eq!(place(4, 1, 6, (0x1000, 1)), None);
    assert_eq!(place(3, 1, 8, (0x1000, 1)), None);
    let bound = Key {
        qpn: Some(1),
        ..KEY
    };
    assert!(bound.place(3, 1, 2, (0x1000, 1)).is_some());
    assert!(bound.place(3, 2, 2, (0x1000, 1)).is_none());
    let wild = Key {
        address: u64::MAX - 4,
        ..KEY
    };
    assert!(wild.place(3, 1, 2, (0x1000, 8)).is_none());
}
