#![forbid(unsafe_code)]
//! Rings in plain memory, with a test as the other side; the protocol of the indices under loom.

use super::index::{Consumer, Index, Producer};
use super::owner::{Flag, hand_over};
use super::*;
use crate::errno::Errno;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::atomic::AtomicU16;
use std::thread;

const SHAPE: Shape = Shape {
    producer: 0,
    consumer: 64,
    entries: 128,
    log2_entry: 4,
    mask: 3,
};
const LENGTH: usize = 128 + 4 * 16;

type Pair = (ProducerRing<16>, ConsumerRing<16>, Region);

fn pair() -> Pair {
    let region = Region::plain(LENGTH).expect("memory");
    let ring = |region: &Region| Ring::new(region.share(), &SHAPE).expect("fits");
    let producer = ProducerRing::new(ring(&region)).expect("empty");
    let consumer = ConsumerRing::new(ring(&region)).expect("empty");
    (producer, consumer, region)
}

fn put(producer: &mut ProducerRing<16>, value: u64) -> crate::errno::Result<()> {
    let mut entry = producer.free()?;
    entry.put::<0, u64>(value);
    entry.put_bytes(8, &(!value).to_ne_bytes())?;
    producer.step();
    Ok(())
}

fn take(consumer: &mut ConsumerRing<16>) -> crate::errno::Result<Option<u64>> {
    let Some(entry) = consumer.head()? else {
        return Ok(None);
    };
    let value = entry.get::<0, u64>();
    assert_eq!(entry.get::<8, u64>(), !value);
    consumer.step();
    Ok(Some(value))
}

#[test]
fn entries_come_out_in_order_once_they_are_published() {
    let (mut producer, mut consumer, _) = pair();
    for value in 0..3 {
        put(&mut producer, value).expect("room");
    }
    assert_eq!(take(&mut consumer), Ok(None));
    producer.publish();
    assert_eq!(put(&mut producer, 3), Err(Errno::NOMEM));
    assert_eq!(take(&mut consumer), Ok(Some(0)));
    assert_eq!(put(&mut producer, 3), Err(Errno::NOMEM));
    consumer.release();
    put(&mut producer, 3).expect("room");
    producer.publish();
    for value in 1..4 {
        assert_eq!(take(&mut consumer), Ok(Some(value)));
    }
    assert_eq!(take(&mut consumer), Ok(None));
}

#[test]
fn what_was_not_published_can_be_taken_back() {
    let (mut producer, mut consumer, _) = pair();
    put(&mut producer, 1).expect("room");
    let from = producer.at();
    put(&mut producer, 2).expect("room");
    producer.back_to(from);
    put(&mut producer, 3).expect("room");
    producer.publish();
    assert_eq!(take(&mut consumer), Ok(Some(1)));
    assert_eq!(take(&mut consumer), Ok(Some(3)));
    assert_eq!(take(&mut consumer), Ok(None));
}

#[test]
fn entries_are_taken_as_many_as_there_is_room_for() {
    let (mut producer, mut consumer, region) = pair();
    let mut room = [0; 2];
    let mut value = 0;
    for there in [0, 1, 2, 3, 3, 1] {
        for _ in 0..there {
            put(&mut producer, value).expect("room");
            value += 1;
        }
        producer.publish();
        let mut left: u32 = there;
        while left > 0 {
            let found = consumer.take(&mut room, |entry| entry.get::<0, u64>());
            let wanted = left.min(2);
            assert_eq!(found, Ok(wanted));
            let taken = room.iter().copied().take(wanted as usize);
            assert!(taken.eq(value - u64::from(left)..value - u64::from(left - wanted)));
            left -= wanted;
        }
        let found = consumer.take(&mut room, |entry| entry.get::<0, u64>());
        assert_eq!(found, Ok(0));
        assert_eq!(take(&mut consumer), Ok(None), "one by one, too");
    }
    put(&mut producer, value).expect("given back");
    producer.publish();
    assert_eq!(
        consumer.take(&mut [0; 0], |entry| entry.get::<0, u64>()),
        Ok(0)
    );
    assert_eq!(take(&mut consumer), Ok(Some(value)));
    region.set_number(SHAPE.producer, 4).expect("inside");
    let found = consumer.take(&mut room, |entry| entry.get::<0, u64>());
    assert_eq!(found, Err(Errno::IO));
}

#[test]
fn an_index_outside_of_the_ring_is_an_error() {
    let (mut producer, mut consumer, region) = pair();
    for bad in [4, 5, u32::MAX] {
        region.set_number(SHAPE.producer, bad).expect("inside");
        assert_eq!(take(&mut consumer), Err(Errno::IO));
    }
    for value in 0..3 {
        put(&mut producer, value).expect("room");
    }
    region.set_number(SHAPE.consumer, 4).expect("inside");
    assert_eq!(put(&mut producer, 3), Err(Errno::IO));
    let ring = || Ring::<16>::new(region.share(), &SHAPE).expect("fits");
    assert_eq!(ProducerRing::new(ring()).err(), Some(Errno::IO));
    assert_eq!(ConsumerRing::new(ring()).err(), Some(Errno::IO));
}

#[test]
fn a_shape_that_does_not_fit_is_refused() {
    let bad = [
        Shape { mask: 2, ..SHAPE },
        Shape { mask: 7, ..SHAPE },
        Shape {
            mask: u32::MAX,
            ..SHAPE
        },
        Shape {
            log2_entry: 3,
            ..SHAPE
        },
        Shape {
            log2_entry: 5,
            ..SHAPE
        },
        Shape {
            log2_entry: 64,
            ..SHAPE
        },
        Shape {
            producer: LENGTH,
            ..SHAPE
        },
        Shape {
            consumer: 2,
            ..SHAPE
        },
        Shape {
            entries: usize::MAX - 7,
            ..SHAPE
        },
        Shape {
            entries: 129,
            ..SHAPE
        },
    ];
    let region = Region::plain(LENGTH).expect("memory");
    for shape in bad {
        let ring = Ring::<16>::new(region.share(), &shape);
        assert_eq!(ring.err(), Some(Errno::IO), "{shape:?}");
    }
    assert_eq!(region.number(LENGTH), Err(Errno::IO));
    assert_eq!(region.number(LENGTH - 4), Ok(0));
}

#[test]
fn bytes_stay_in_their_entry() {
    let (mut producer, ..) = pair();
    let mut entry = producer.free().expect("room");
    assert_eq!(entry.put_bytes(8, &[1; 9]), Err(Errno::INVAL));
    assert_eq!(entry.put_bytes(17, &[]), Err(Errno::INVAL));
    assert_eq!(entry.put_bytes(usize::MAX, &[1]), Err(Errno::INVAL));
    assert_eq!(entry.put_bytes(16, &[]), Ok(()));
}

#[test]
fn a_lock_lets_one_in_at_a_time() {
    const MANY: u32 = if cfg!(miri) { 50 } else { 5_000 };
    let count = Lock::new([0u32; 2]);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..MANY {
                    let mut both = count.lock();
                    both[0] += 1;
                    assert_eq!(both[0], both[1] + 1);
                    both[1] += 1;
                }
            });
        }
    });
    let held = count.lock();
    assert_eq!(*held, [4 * MANY; 2]);
    assert!(count.try_lock().is_none());
    drop(held);
    assert!(count.try_lock().is_some());
}

#[test]
fn two_threads_lose_nothing() {
    const MANY: u64 = if cfg!(miri) { 100 } else { 20_000 };
    let (mut producer, mut consumer, _) = pair();
    let writes = thread::spawn(move || {
        let mut value = 0;
        while value < MANY {
            match put(&mut producer, value) {
                Ok(()) => value += 1,
                Err(Errno::NOMEM) => thread::yield_now(),
                Err(e) => panic!("{e:?}"),
            }
            producer.publish();
        }
    });
    for value in 0..MANY {
        let found = loop {
            match take(&mut consumer).expect("inside") {
                Some(found) => break found,
                None => thread::yield_now(),
            }
        };
        consumer.release();
        assert_eq!(found, value);
    }
    writes.join().expect("ends well");
}

proptest! {
    #[test]
    fn a_ring_is_a_queue_of_three(steps in proptest::collection::vec(any::<Option<u64>>(), 0..200)) {
        let (mut producer, mut consumer, _) = pair();
        let mut model = VecDeque::new();
        for step in steps {
            match step {
                Some(value) if model.len() < 3 => {
                    prop_assert_eq!(put(&mut producer, value), Ok(()));
                    producer.publish();
                    model.push_back(value);
                }
                Some(value) => prop_assert_eq!(put(&mut producer, value), Err(Errno::NOMEM)),
                None => {
                    prop_assert_eq!(take(&mut consumer), Ok(model.pop_front()));
                    consumer.release();
                }
            }
        }
    }

    #[test]
    fn no_index_leads_out_of_the_ring(indices in proptest::collection::vec(any::<(u32, u32)>(), 0..50)) {
        let (mut producer, mut consumer, region) = pair();
        for (ours, theirs) in indices {
            region.set_number(SHAPE.producer, ours % 8).expect("inside");
            region.set_number(SHAPE.consumer, theirs % 8).expect("inside");
            let _ = consumer.head().map(|entry| entry.map(|entry| entry.get::<0, u64>()));
            consumer.step();
            if let Ok(mut entry) = producer.free() {
                entry.put::<8, u64>(1);
                producer.step();
            }
        }
    }
}

impl Index for loom::sync::atomic::AtomicU32 {
    fn acquire(&self) -> u32 {
        self.load(loom::sync::atomic::Ordering::Acquire)
    }

    fn release(&self, value: u32) {
        self.store(value, loom::sync::atomic::Ordering::Release);
    }
}

/// What the two sides share under loom, which finds every entry that both may touch at once.
struct Shared {
    producer: loom::sync::atomic::AtomicU32,
    consumer: loom::sync::atomic::AtomicU32,
    entries: [loom::cell::Cell<u32>; 2],
}

const COUNT: u32 = 3;

/// Three values go through a ring of one; `consume` takes some of them and answers the one to be
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

#[test]
fn slots_stay_in_their_region() {
    type Small = Slots<16, 8, AtomicU16>;
    let region = Region::plain(4 * 16).expect("memory");
    for count in [0, 3, 5, 8, 1 << 31, u32::MAX] {
        let slots = Small::new(region.share(), count);
        assert_eq!(slots.err(), Some(Errno::IO), "{count}");
    }
    let mut slots = Small::new(region.share(), 4).expect("fits");
    assert_eq!((slots.count(), Small::bytes(4)), (4, Ok(64)));
    for index in [0, 3, 4, 6, u32::MAX] {
        slots.entry(index).put::<0, u64>(index.into());
        slots.flag(index).set(0xfff0);
        let other = Small::new(region.share(), 4).expect("fits");
        assert_eq!(other.flag(index % 4).look(), 0xfff0);
        assert_eq!(region.number((index % 4) as usize * 16), Ok(index));
    }
    assert_eq!(Word::new(region.share(), 64).err(), Some(Errno::IO));
    Word::new(region.share(), 60).expect("inside").set(7);
    assert_eq!(region.number(60), Ok(7));
}

impl Flag for loom::sync::atomic::AtomicU16 {
    type Value = u16;

    fn look(&self) -> u16 {
        // What an atomic does in this order, as far as loom has it: a barrier of its own.
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

/// The producer rings only where [`hand_over`] says so; the consumer looks at the queue only after
/// the bell, until it finds nothing.
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
