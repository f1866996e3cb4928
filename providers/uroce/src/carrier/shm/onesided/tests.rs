//! Tables and claims, with threads in the place of processes.

use super::*;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64, fence};

const KEY: Key = Key {
    tag: 7,
    access: 6,
    pd: Some(3),
    qpn: None,
    base: 0x1000,
    length: 0x100,
    address: 0x7000_0000,
};

impl Segment {
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
    let seen = Segment::map(fd.as_fd(), 5, 9).expect("mapped");
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
fn what_was_read_holds_until_gate_or_key_is_changed() {
    let (segment, _fd) = Segment::create(5, 9).expect("a segment");
    assert!(segment.shown(3, 1 << 8 | 7).is_none());
    segment.show_gate(3, Some(GATE));
    assert!(segment.shown(3, 1 << 8 | 7).is_none());
    segment.show_key(1, Some(KEY));
    let first = segment.shown(3, 1 << 8 | 7).expect("shown");
    assert_eq!((first.gate, first.key), (GATE, KEY));
    assert!(first.is_of(3, 1 << 8 | 7) && segment.still_shows(&first));
    assert!(!first.is_of(4, 1 << 8 | 7) && !first.is_of(3, 1 << 8 | 8));
    // Others do not matter.
    segment.show_gate(4, Some(GATE));
    segment.show_key(2, Some(KEY));
    assert!(segment.still_shows(&first));
    segment.show_gate(3, Some(GATE));
    assert!(!segment.still_shows(&first));
    let second = segment.shown(3, 1 << 8 | 7).expect("shown");
    assert!(segment.still_shows(&second) && second.has_key_of(&first));
    segment.show_key(1, None);
    segment.show_key(1, Some(KEY));
    assert!(!segment.still_shows(&second));
    let third = segment.shown(3, 1 << 8 | 7).expect("shown");
    assert!(segment.still_shows(&third) && !third.has_key_of(&first));
}

#[test]
fn gates_are_shown_and_taken_away() {
    let (segment, _fd) = Segment::create(5, 9).expect("a segment");
    let gate = GATE;
    assert_eq!(segment.gate(16_383), None);
    segment.show_gate(16_383, Some(gate));
    assert_eq!(segment.gate(16_383), Some(gate));
    assert!(gate.admits(Right::Write) && !gate.admits(Right::Read));
    segment.show_gate(16_383, None);
    assert_eq!(segment.gate(16_383), None);
    segment.show_gate(16_384, Some(gate));
    assert_eq!(segment.gate(16_384), None);
    // The first key is not behind the last gate's back.
    assert_eq!(segment.key(7), None);
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

#[test]
fn claims_are_seen_until_they_are_dropped() {
    let (own, fd) = Segment::create(5, 9).expect("a segment");
    let seen = Segment::map(fd.as_fd(), 5, 9).expect("mapped");
    let claims = Claims::default();
    let held: Vec<_> = (0..70).map(|at| claims.claim(&own, 6, at, at)).collect();
    assert_eq!(held.iter().flatten().count(), 64);
    assert!(seen.claims(6, Use::Gate(63)) && seen.claims(6, Use::Key(0)));
    assert!(!seen.claims(7, Use::Key(0)) && !seen.claims(6, Use::Key(64)));
    drop(held);
    assert!(!seen.claims(6, Use::Gate(63)) && !seen.claims(6, Use::Key(0)));
}

/// The owner takes the key away and waits; then nobody may use what it stood for.
#[test]
fn nothing_is_used_after_it_was_taken_away() {
    let (target, _fd) = Segment::create(5, 9).expect("a segment");
    let (own, _fd) = Segment::create(6, 9).expect("another");
    let claims = Claims::default();
    // Odd: the bytes may be used.
    let state = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    let used = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(SeqCst) {
                    let claim = claims.claim(&own, 5, 0, 1).expect("a place");
                    if target.key(1 << 8 | 7).is_some() {
                        assert_eq!(state.load(SeqCst) & 1, 1);
                        used.fetch_add(1, SeqCst);
                        assert_eq!(state.load(SeqCst) & 1, 1);
                    }
                    drop(claim);
                }
            });
        }
        let mut round = 0;
        while round < 2000 || used.load(SeqCst) == 0 {
            state.fetch_add(1, SeqCst);
            target.show_key(1, Some(KEY));
            for _ in 0..round % 50 {
                std::hint::spin_loop();
            }
            target.show_key(1, None);
            fence(SeqCst);
            while own.claims(5, Use::Key(1)) {
                std::thread::yield_now();
            }
            state.fetch_add(1, SeqCst);
            round += 1;
        }
        done.store(true, SeqCst);
    });
}
