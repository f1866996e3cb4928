use super::super::link::{LINK, Link};
use super::super::wire::{
    FEW, Few, Front, Header, MESSAGE, MESSAGE_HEAD, NotPut, Out, Outcome, PACKET, Put, Room,
    SendUpdates, Wait,
};
use super::*;
use proptest::prelude::*;
use std::sync::atomic::Ordering::SeqCst;

fn ends() -> (Link, Producer, Consumer) {
    let (link, _fd) = Link::create().expect("memory");
    let place = RingOffset::new(true);
    (link, Producer::new(place), Consumer::new(place))
}

fn pattern(seed: usize, length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| u8::try_from((at * 7 + seed) % 251).expect("small"))
        .collect()
}

fn header(epoch: u32) -> Header {
    Header {
        source: 1,
        destination: 2,
        epoch,
        immediate: Some(7),
        solicited: true,
        completed: false,
    }
}

/// Whether a credit is good, of messages that do not go by one.
fn never() -> bool {
    unreachable!("it is not asked")
}

#[test]
fn a_ring_has_room_for_consumed_bytes() {
    let (link, mut producer, mut consumer) = ends();
    let memory = link.memory();
    assert_eq!(consumer.next(memory), Ok(None));
    for round in 0..3 {
        let mut count = 0;
        while producer.reserve(memory, 64).expect("right").is_some() {
            producer.publish(memory, 64, PACKET, 0, []).expect("right");
            count += 1;
        }
        assert_eq!(count, RING / 64, "{round}");
        for _ in 0..count {
            let record = consumer.next(memory).expect("right").expect("a record");
            consumer.advance(memory, &record).expect("right");
        }
        assert_eq!(consumer.next(memory), Ok(None));
        assert_eq!(producer.taken(memory), Ok(producer.released()));
        assert_eq!(consumer.report(memory), Ok(true));
        assert_eq!(consumer.report(memory), Ok(false));
        let taken = producer.taken(memory).expect("right");
        producer.release(taken);
    }
    assert_eq!(producer.reserve(memory, LONGEST + 1), Ok(None));
}

#[test]
fn a_refusal_is_found_and_the_messages_behind_it_too() {
    let (link, producer, mut consumer) = ends();
    let mut out = Out::new(producer);
    let memory = link.memory();
    let mut position = Vec::new();
    for _ in 0..4 {
        let mut fill = |room: &mut Room<'_>| room.put(b"abc");
        let sent = out.long(&link, &header(5), 3, &mut fill, never);
        position.push(sent.expect("right").expect("room").position);
    }
    for count in 0..4 {
        let record = consumer.next(memory).expect("right").expect("a record");
        assert_eq!(
            (record.kind(), record.length()),
            (MESSAGE, MESSAGE_HEAD + 3)
        );
        if count >= 2 {
            consumer.refuse(memory, &record, 6).expect("right");
        }
        consumer.advance(memory, &record).expect("right");
    }
    let mut updates = SendUpdates::default();
    out.collect(&link, &mut updates).expect("right");
    assert!(updates.outcomes.is_empty() && out.awaits());
    consumer.report(memory).expect("right");
    out.collect(&link, &mut updates).expect("right");
    let expected = [
        (1, Outcome::Taken(position[1])),
        (1, Outcome::Refused(position[2], 6)),
        (1, Outcome::Refused(position[3], 6)),
    ];
    assert_eq!(updates.outcomes, expected);
    assert!(!out.awaits());
}

/// Puts a message by credit, which is good or not.
fn put_completed(out: &mut Out, link: &Link, good: bool) -> Put {
    let header = Header {
        completed: true,
        ..header(5)
    };
    let put = out.short(link, &header, Few::default(), 8, || good);
    put.expect("right").expect("room")
}

/// Takes the next record; returns whether it is one by credit.
fn take(consumer: &mut Consumer, memory: &Shared) -> bool {
    let (record, words) = consumer
        .next_with_words(memory)
        .expect("right")
        .expect("a record");
    consumer.advance(memory, &record).expect("right");
    Front::new(words, record.flags()).header().completed
}

#[test]
fn reports_are_rare_while_the_producer_has_credits() {
    let (link, producer, mut consumer) = ends();
    let mut out = Out::new(producer);
    let memory = link.memory();
    let mut reported = 0;
    let count = 4 * SIZE / 64;
    for _ in 0..count {
        assert!(put_completed(&mut out, &link, true).completed && !out.awaits());
        assert!(take(&mut consumer, memory));
        reported += u64::from(consumer.report(memory).expect("right"));
    }
    assert_eq!(reported, 4 * SIZE / MUCH);
    let mut updates = SendUpdates::default();
    out.collect(&link, &mut updates).expect("right");
    assert!(updates.outcomes.is_empty());
    // To one that waits it is reported at once, of those before it, too.
    let mut fill = |_: &mut Room<'_>| Ok(());
    put_completed(&mut out, &link, true);
    let sent = out.long(&link, &header(5), 8, &mut fill, never);
    assert!(sent.is_ok_and(|put| put.is_ok_and(|put| !put.completed)));
    assert!(take(&mut consumer, memory));
    assert_eq!(consumer.report(memory), Ok(false));
    assert!(!take(&mut consumer, memory));
    assert_eq!(consumer.report(memory), Ok(true));
    assert!(!consumer.has_some(memory));
}

#[test]
fn queue_pairs_that_wait_for_room_are_served_in_turn_as_far_as_there_is_some() {
    let (link, producer, mut consumer) = ends();
    let mut out = Out::new(producer);
    let memory = link.memory();
    let mut updates = SendUpdates::default();
    let count = SIZE / 64;
    for _ in 0..count {
        put_completed(&mut out, &link, true);
    }
    for index in 1..=5 {
        assert_eq!(out.wait_for_room(index), Some(SIZE - 1));
    }
    assert!(out.awaits() && !out.can_serve() && out.is_crowded());
    assert_eq!(out.collect(&link, &mut updates), Ok(false));
    assert!(updates.roomy.is_empty());
    // The producer does not ask, and hears of an eighth of the ring.
    while !consumer.report(memory).expect("right") {
        take(&mut consumer, memory);
    }
    out.collect(&link, &mut updates).expect("right");
    assert_eq!(updates.roomy, [1, 2], "each has its share");
    // They did not use it, and it is theirs no longer.
    assert!(out.can_serve() && out.awaits() && !out.is_crowded());
    out.collect(&link, &mut updates).expect("right");
    assert_eq!(updates.roomy, [1, 2, 3, 4]);
    updates.clear();
    out.lose(&mut updates);
    assert_eq!(updates.roomy, [5], "it learns that the peer is gone");
    assert!(!out.awaits() && out.wait_for_room(6).is_none());
}

#[test]
fn a_producer_hears_of_much_before_the_consumer_has_taken_all() {
    let (link, producer, mut consumer) = ends();
    let mut out = Out::new(producer);
    let memory = link.memory();
    for _ in 0..SIZE / 64 {
        put_completed(&mut out, &link, true);
    }
    let taken = || Producer::taken_word(RingOffset::new(true), memory);
    for count in 1..=SIZE / 64 {
        take(&mut consumer, memory);
        consumer.report_much(memory).expect("right");
        assert_eq!(taken(), count * 64 / MUCH * MUCH);
    }
    assert_eq!(consumer.report(memory), Ok(true), "of those before, too");
    assert_eq!(consumer.report(memory), Ok(false));
}

/// Bytes that were written for a message that was given up do not become a record.
#[test]
fn a_message_that_cannot_be_read_leaves_nothing_behind() {
    let (link, producer, mut consumer) = ends();
    let mut out = Out::new(producer);
    let memory = link.memory();
    let data = [0xff; 1000];
    let mut fails = |room: &mut Room<'_>| {
        room.put(&data)?;
        room.put(&data)
    };
    let sent = out.long(&link, &header(5), 1500, &mut fails, never);
    assert_eq!(sent, Ok(Err(NotPut::Unreadable)));
    let mut fill = |room: &mut Room<'_>| room.put(b"abc");
    let sent = out.long(&link, &header(5), 3, &mut fill, never);
    assert!(sent.is_ok_and(|put| put.is_ok()));
    let record = consumer.next(memory).expect("right").expect("a record");
    assert_eq!(record.length(), MESSAGE_HEAD + 3);
    consumer.advance(memory, &record).expect("right");
    assert_eq!(consumer.next(memory), Ok(None));
}

#[test]
fn a_message_by_a_revoked_credit_is_reported() {
    for taken_first in [false, true] {
        let (link, producer, mut consumer) = ends();
        let mut out = Out::new(producer);
        let memory = link.memory();
        put_completed(&mut out, &link, true);
        let position = if taken_first {
            // Before its producer asks.
            let header = Header {
                completed: true,
                ..header(5)
            };
            let put = out.short(&link, &header, Few::default(), 8, || {
                take(&mut consumer, memory);
                take(&mut consumer, memory);
                assert_eq!(consumer.report(memory), Ok(false));
                false
            });
            put.expect("right").expect("room")
        } else {
            let put = put_completed(&mut out, &link, false);
            take(&mut consumer, memory);
            take(&mut consumer, memory);
            put
        };
        assert!(!position.completed && out.awaits());
        assert!(consumer.has_some(memory));
        assert_eq!(consumer.report(memory), Ok(true));
        assert!(!consumer.has_some(memory));
        let mut updates = SendUpdates::default();
        out.collect(&link, &mut updates).expect("right");
        assert_eq!(updates.outcomes, [(1, Outcome::Taken(position.position))]);
    }
}

#[test]
fn a_message_is_the_same_however_its_bytes_are_given() {
    let (link, producer, mut consumer) = ends();
    let mut out = Out::new(producer);
    let memory = link.memory();
    let bytes = pattern(3, FEW);
    let few: Few = bytemuck::pod_read_unaligned(&bytes);
    for length in 0..=FEW {
        let mut fill = |room: &mut Room<'_>| room.put(&bytes[..length]);
        for is_short in [false, true] {
            let sent = if is_short {
                out.short(&link, &header(5), few, length, never)
            } else {
                let sent = out.long(&link, &header(5), length, &mut fill, never);
                sent.map(Result::ok)
            };
            assert!(sent.expect("right").is_some());
            let record = consumer.next(memory).expect("right").expect("a record");
            let words = consumer.get(memory, &record).expect("right");
            let front = Front::new(words, record.flags());
            let mut read = vec![0; length];
            consumer
                .read(memory, &record, MESSAGE_HEAD, &mut read)
                .expect("right");
            assert_eq!(record.length(), MESSAGE_HEAD + length);
            assert_eq!(front.header(), header(5));
            assert_eq!(read, bytes[..length]);
            assert_eq!(front.few()[..length], bytes[..length]);
            consumer.advance(memory, &record).expect("right");
        }
    }
}

#[test]
fn packets_without_room_wait_in_order() {
    let (link, producer, mut consumer) = ends();
    let mut out = Out::new(producer);
    let memory = link.memory();
    for number in 0..200 {
        out.packet(&link, &pattern(number, 4000), false)
            .expect("right");
    }
    assert!(out.waits(9) && out.waits(9));
    let full = out.short(&link, &header(0), Few::default(), 0, never);
    assert_eq!(full, Ok(None));
    let mut updates = SendUpdates::default();
    for number in 0..200 {
        let record = consumer.next(memory).expect("right").expect("a record");
        let mut bytes = vec![0; record.length() - PREFIX];
        consumer
            .read(memory, &record, PREFIX, &mut bytes)
            .expect("inside");
        assert_eq!(bytes, pattern(number, 4000));
        consumer.advance(memory, &record).expect("right");
        consumer.report(memory).expect("right");
        out.collect(&link, &mut updates).expect("right");
    }
    assert_eq!(updates.ready, [9]);
    assert!(!out.waits(9));
}

#[test]
fn waits_for_room_become_rare_while_they_are_in_vain() {
    let (link, producer, mut consumer) = ends();
    let mut out = Out::new(producer);
    let memory = link.memory();
    let put = |out: &mut Out| out.short(&link, &header(0), Few::default(), 0, never);
    while put(&mut out).expect("right").is_some() {}
    let begin = |out: &mut Out| out.begin_wait(memory, 0).expect("right");
    for useless in [0, 1, 2, 4] {
        for _ in 0..useless {
            assert_eq!(begin(&mut out), Wait::Useless);
        }
        assert_eq!(begin(&mut out), Wait::Begins);
        out.end_wait(true);
    }
    let record = consumer.next(memory).expect("right").expect("a record");
    consumer.advance(memory, &record).expect("right");
    consumer.report(memory).expect("right");
    assert_eq!(begin(&mut out), Wait::Over);
    assert!(put(&mut out).expect("right").is_some());
    out.end_wait(false);
    assert_eq!(begin(&mut out), Wait::Begins);
    out.end_wait(false);
    // Room that comes is for the packet.
    let found = out.packet(&link, &pattern(1, 64), false).expect("right");
    assert!(!found);
    assert_eq!(begin(&mut out), Wait::Useless);
}

#[test]
fn consumed_messages_are_not_read_again_after_a_lap() {
    let (link, producer, mut consumer) = ends();
    let mut out = Out::new(producer);
    let memory = link.memory();
    let mut updates = SendUpdates::default();
    let lengths = [0, 8, 48, 49, 120, 3000, 9000, 48, 30_000, 1, 64];
    for number in 0..9000 {
        // Data that looks like records.
        let word = first_word(64, PACKET, 0).to_ne_bytes();
        let at = usize::try_from(number).expect("small") % lengths.len();
        let data: Vec<u8> = word.into_iter().cycle().take(lengths[at]).collect();
        assert_eq!(out.packet(&link, &data, false), Ok(true));
        let record = consumer.next(memory).expect("right").expect("a record");
        assert_eq!(record.length(), PREFIX + data.len());
        consumer.advance(memory, &record).expect("right");
        assert!(!consumer.has_some(memory));
        assert_eq!(consumer.next(memory), Ok(None), "{number}");
        consumer.report(memory).expect("right");
        out.collect(&link, &mut updates).expect("right");
    }
    assert!(consumer.head / SIZE > 256);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn records_arrive_as_they_were(lengths in proptest::collection::vec(0usize..9000, 1..60)) {
        let (link, producer, mut consumer) = ends();
        let mut out = Out::new(producer);
        let memory = link.memory();
        let mut arrived = Vec::new();
        let mut updates = SendUpdates::default();
        for (at, length) in lengths.iter().enumerate() {
            out.packet(&link, &pattern(at, *length), false).expect("right");
            if at % 7 == 3 || at + 1 == lengths.len() {
                loop {
                    while let Some(record) = consumer.next(memory).expect("right") {
                        let mut bytes = vec![0; record.length() - PREFIX];
                        consumer.read(memory, &record, PREFIX, &mut bytes).expect("inside");
                        arrived.push(bytes);
                        consumer.advance(memory, &record).expect("right");
                    }
                    if !consumer.report(memory).expect("right") {
                        break;
                    }
                    out.collect(&link, &mut updates).expect("right");
                }
            }
        }
        let sent: Vec<_> = lengths.iter().enumerate().map(|(at, length)| pattern(at, *length)).collect();
        prop_assert_eq!(arrived, sent);
    }

    /// A peer that scribbles: nothing is read or written elsewhere, and it all ends.
    #[test]
    fn scribbles_do_no_harm(
        scribbles in proptest::collection::vec((0usize..LINK / 8, any::<u64>()), 1..30),
        words in proptest::collection::vec((0u32..200_000, any::<u8>(), any::<u8>()), 1..20),
    ) {
        let (link, producer, mut consumer) = ends();
        let mut out = Out::new(producer);
        let memory = link.memory();
        let mut updates = SendUpdates::default();
        let data = (super::super::link::HEAD * 2 + RING) / 8;
        for (index, value) in scribbles {
            // Also words that look like a record, where the next one begins.
            for (length, kind, flags) in &words {
                let first = WHOLE | u64::from(*flags) << 40 | u64::from(*kind % 4) << 32 | u64::from(*length);
                memory.words()[data].store(first, SeqCst);
                let mut room = vec![0; LONGEST];
                let next = match flags % 2 {
                    0 => consumer.next(memory),
                    _ => consumer
                        .next_with_words(memory)
                        .map(|next| next.map(|(record, _)| record)),
                };
                if let Ok(Some(record)) = next {
                    prop_assert!(record.length() <= LONGEST);
                    let _ = consumer.read(memory, &record, 0, &mut room);
                    let _ = consumer.get(memory, &record);
                    let _ = consumer.refuse(memory, &record, value);
                    let _ = consumer.advance(memory, &record);
                }
            }
            memory.words()[index].store(value, SeqCst);
            let _ = consumer.report(memory);
            let _ = out.packet(&link, &[1; 100], false);
            let _ = out.short(&link, &header(1), Few::default(), 8, never);
            let _ = out.collect(&link, &mut updates);
        }
    }
}
