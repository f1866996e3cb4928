#![forbid(unsafe_code)]
//! The protocols of indices and of flags under loom, which tries every order of events.

use super::super::index::{Consumer, Producer};
use super::super::owner::{Flag, hand_over};

super::super::index::index!(loom::sync::atomic::AtomicU32);

/// Memory that the two sides share under loom, which finds every entry that both may access at
/// once.
struct Shared {
    producer: loom::sync::atomic::AtomicU32,
    consumer: loom::sync::atomic::AtomicU32,
    entries: [loom::cell::Cell<u32>; 2],
}

const COUNT: u32 = 3;

/// Three values go through a ring of one; `consume` takes some of them and returns the one to be
/// taken next.
fn every_interleaving(consume: fn(&mut Consumer, &Shared, u32) -> u32) {
    loom::model(move || {
        let shared = loom::sync::Arc::new(Shared {
            producer: loom::sync::atomic::AtomicU32::new(0),
            consumer: loom::sync::atomic::AtomicU32::new(0),
            entries: std::array::from_fn(|_| loom::cell::Cell::new(0)),
        });
        let theirs = loom::sync::Arc::clone(&shared);
        let writer = loom::thread::spawn(move || {
            let mut index = Producer::new(&theirs.producer, &theirs.consumer, 1).expect("inside");
            for value in 1..=COUNT {
                while !index.has_room(&theirs.consumer).expect("inside") {
                    loom::thread::yield_now();
                }
                theirs.entries[index.at() as usize].set(value);
                index.step();
                index.publish(&theirs.producer);
            }
        });
        let mut index = Consumer::new(&shared.producer, &shared.consumer, 1).expect("inside");
        let mut value = 1;
        while value <= COUNT {
            value = consume(&mut index, &shared, value);
        }
        writer.join().expect("ends well");
    });
}

#[test]
fn every_interleaving_hands_entries_over() {
    every_interleaving(|index, shared, value| {
        while !index.has_entry(&shared.producer).expect("inside") {
            loom::thread::yield_now();
        }
        assert_eq!(shared.entries[index.at() as usize].get(), value);
        index.step();
        index.release(&shared.consumer);
        value + 1
    });
}

#[test]
fn every_interleaving_hands_over_all_that_is_there() {
    every_interleaving(|index, shared, value| {
        let end = index.look(&shared.producer).expect("inside");
        let (mut at, mut value) = (index.at(), value);
        if at == end {
            loom::thread::yield_now();
            return value;
        }
        while at != end {
            assert_eq!(shared.entries[at as usize].get(), value);
            (at, value) = (index.after(at), value + 1);
        }
        index.go_to(at);
        index.release(&shared.consumer);
        value
    });
}

impl Flag for loom::sync::atomic::AtomicU16 {
    type Value = u16;

    fn look(&self) -> u16 {
        // loom models an atomic of this order as a separate barrier.
        loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
        self.load(loom::sync::atomic::Ordering::Acquire)
    }

    fn set(&self, value: u16) {
        self.store(value, loom::sync::atomic::Ordering::Release);
        loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
    }
}

/// Entries with flags under loom, and a bell that wakes the consumer.
struct Flagged {
    flags: [loom::sync::atomic::AtomicU16; 3],
    entries: [loom::cell::Cell<u32>; 3],
    bell: loom::sync::Notify,
}

/// The producer rings only when [`hand_over`] returns true; the consumer reads the queue only after
/// the doorbell, until it finds no entry.
#[test]
fn no_entry_is_left_without_a_bell() {
    loom::model(|| {
        let shared = loom::sync::Arc::new(Flagged {
            flags: std::array::from_fn(|_| loom::sync::atomic::AtomicU16::new(0)),
            entries: std::array::from_fn(|_| loom::cell::Cell::new(0)),
            bell: loom::sync::Notify::new(),
        });
        let theirs = loom::sync::Arc::clone(&shared);
        let writer = loom::thread::spawn(move || {
            for (at, before) in [(0, 2), (1, 0)] {
                theirs.entries[at].set(7);
                if hand_over(&theirs.flags[at], 1, &theirs.flags[before], 1) {
                    theirs.bell.notify();
                }
            }
        });
        let mut next = 0;
        while next < 2 {
            shared.bell.wait();
            while next < 2 && shared.flags[next].look() != 0 {
                assert_eq!(shared.entries[next].get(), 7);
                shared.flags[next].set(0);
                next += 1;
            }
        }
        writer.join().expect("ends well");
    });
}
