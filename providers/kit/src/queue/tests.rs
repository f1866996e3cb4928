#![forbid(unsafe_code)]
//! Rings in plain memory, with a test as the other side.

use super::owner::Flag;
use super::*;
use crate::errno::Errno;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::atomic::AtomicU16;
use std::thread;

// loom switches stacks by itself, which Miri does not support; and the code that it tests is safe.
#[cfg(not(miri))]
mod interleavings;

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
fn unpublished_entries_can_be_taken_back() {
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
    assert_eq!(SharedWord::new(region.share(), 64).err(), Some(Errno::IO));
    SharedWord::new(region.share(), 60).expect("inside").set(7);
    assert_eq!(region.number(60), Ok(7));
}
