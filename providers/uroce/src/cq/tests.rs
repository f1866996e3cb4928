use super::*;
use crate::channel::Kind;
use kit::sys::ready::is_readable;
use proptest::prelude::*;
use std::os::fd::{AsFd, OwnedFd};
use uroce_engine::wire::ImmDt;
use uroce_engine::work::{Completion, CompletionOpcode, Network, Status};

const QUEUE: Token = Token(77);

struct World {
    cq: Cq,
    channel: OwnedFd,
    events: OwnedFd,
}

fn world(entries: u32, ignore_overrun: bool) -> World {
    let (channel, channel_fd) = Records::new(Kind::Completions).expect("made");
    let (events, events_fd) = Records::new(Kind::Asynchronous).expect("made");
    let channel = Some(Arc::new(channel));
    let cq = Cq::new(QUEUE, entries, channel, Arc::new(events), ignore_overrun);
    World {
        cq: cq.expect("made"),
        channel: channel_fd,
        events: events_fd,
    }
}

fn entry(id: u64, status: Status, solicited: bool) -> Entry {
    let mut completion = Completion::new(id, status, CompletionOpcode::Receive);
    completion.solicited = solicited;
    Entry::new(completion, 0x1234)
}

fn good(id: u64) -> Entry {
    entry(id, Status::Success, false)
}

/// Reads all records that there are.
fn drain(fd: &OwnedFd) -> usize {
    let mut count = 0;
    while is_readable(fd.as_fd()).expect("asked") {
        let mut record = [0; 16];
        let length = rustix::io::read(fd, &mut record).expect("a record");
        assert!(length > 0, "the end");
        assert_eq!(record[..8], QUEUE.0.to_ne_bytes());
        count += 1;
    }
    count
}

fn room(entries: usize) -> Vec<ibv_wc> {
    vec![good(u64::MAX).wc(); entries]
}

fn ids(cq: &Cq, most: usize) -> Vec<u64> {
    let mut room = room(most);
    let count = cq.poll(&mut room);
    room.truncate(count);
    room.iter().map(|wc| wc.wr_id).collect()
}

#[test]
fn completions_are_polled_in_order_as_verbs_show_them() {
    let world = world(4, false);
    let mut completion = Completion::new(9, Status::Success, CompletionOpcode::ReceiveWithImm);
    completion.length = 100;
    completion.immediate = Some(ImmDt { data: 0x0102_0304 });
    completion.source = 0x55;
    completion.grh = Some(Network::Ipv6);
    assert!(world.cq.push(Entry::new(completion, 0x1234)));
    let mut completion = Completion::new(10, Status::RemAccess, CompletionOpcode::Send);
    completion.invalidated = Some(0x99);
    assert!(world.cq.push(Entry::new(completion, 0x1235)));
    let mut room = room(4);
    assert_eq!(world.cq.poll(&mut room), 2);
    let wc = room[0];
    assert_eq!((wc.wr_id, wc.status, wc.opcode), (9, 0, 129));
    assert_eq!((wc.byte_len, wc.qp_num, wc.src_qp), (100, 0x1234, 0x55));
    assert_eq!(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
    assert_eq!((wc.vendor_err, wc.pkey_index, wc.slid), (0, 0, 0));
    let wc = room[1];
    assert_eq!(
        (wc.wr_id, wc.status, wc.opcode),
        (10, IBV_WC_REM_ACCESS_ERR, IBV_WC_SEND)
    );
    assert_eq!(wc.wc_flags, IBV_WC_WITH_INV);
    assert_eq!(world.cq.poll(&mut room), 0);
}

#[test]
fn the_service_level_shows_the_kind_of_network_header() {
    // UCX looks for its own address in the last 4 bytes of the header if the level's low three bits
    // are 2, in the last 16 if not, and drops the datagram that is not for it.
    let mut completion = Completion::new(9, Status::Success, CompletionOpcode::Receive);
    let level = |completion| {
        let wc = Entry::new(completion, 1).wc();
        (wc.wc_flags & IBV_WC_GRH != 0, wc.sl)
    };
    assert_eq!(level(completion), (false, 0));
    completion.grh = Some(Network::Ipv4);
    assert_eq!(level(completion), (true, 0b1010));
    completion.grh = Some(Network::Ipv6);
    assert_eq!(level(completion), (true, 0b1001));
}

#[test]
fn immediate_data_lies_in_memory_as_on_the_wire() {
    let mut completion = Completion::new(9, Status::Success, CompletionOpcode::Receive);
    assert_eq!(Entry::new(completion, 1).immediate(), (0, 0));
    completion.invalidated = Some(0x99);
    assert_eq!(
        Entry::new(completion, 1).immediate(),
        (0x99, IBV_WC_WITH_INV)
    );
    completion.immediate = Some(ImmDt { data: 0x0102_0304 });
    let (raw, flag) = Entry::new(completion, 1).immediate();
    assert_eq!((raw.to_ne_bytes(), flag), ([1, 2, 3, 4], IBV_WC_WITH_IMM));
}

#[test]
fn an_event_is_for_the_next_completion_after_arming() {
    let world = world(100, false);
    world.cq.arm(false);
    assert_eq!(drain(&world.channel), 0);
    world.cq.push(good(2));
    world.cq.push(good(3));
    assert_eq!(drain(&world.channel), 1, "one a request");
    assert_eq!(ids(&world.cq, 10), [2, 3]);
    world.cq.arm(false);
    world.cq.arm(false);
    world.cq.push(good(4));
    world.cq.push(good(5));
    assert_eq!(drain(&world.channel), 1, "requests do not add up");
}

#[test]
fn a_completion_before_arming_that_had_no_event_causes_one() {
    // A thread that polls an empty queue, arms it and sleeps, as UCX's do, is woken.
    let world = world(100, false);
    world.cq.push(good(1));
    assert_eq!(drain(&world.channel), 0, "not armed");
    world.cq.arm(false);
    assert_eq!(drain(&world.channel), 1);
    world.cq.arm(false);
    assert_eq!(drain(&world.channel), 0, "it had its event");
    world.cq.push(good(2));
    assert_eq!(drain(&world.channel), 1, "armed for the next one");
    assert_eq!(ids(&world.cq, 10), [1, 2]);
    world.cq.arm(false);
    assert_eq!(drain(&world.channel), 0, "empty");
    // An event uses up the request, the one at once too.
    world.cq.push(good(3));
    assert_eq!(ids(&world.cq, 10), [3]);
    drain(&world.channel);
    world.cq.push(good(4));
    world.cq.arm(false);
    world.cq.push(good(5));
    assert_eq!(drain(&world.channel), 1);
}

#[test]
fn arming_before_polling_causes_no_second_event() {
    // The manual's order: take the event, arm, poll.
    let world = world(100, false);
    world.cq.arm(false);
    world.cq.push(good(1));
    world.cq.push(good(2));
    assert_eq!(drain(&world.channel), 1);
    world.cq.arm(false);
    assert_eq!(drain(&world.channel), 0, "the program polls next");
    assert_eq!(ids(&world.cq, 1), [1]);
    world.cq.arm(false);
    assert_eq!(drain(&world.channel), 1, "2 had no event, and 1 is gone");
    assert_eq!(world.cq.poll_ex().map(|polled| polled.wc.wr_id), Some(2));
    world.cq.arm(false);
    assert_eq!(drain(&world.channel), 0);
}

#[test]
fn arming_for_solicited_ones_passes_over_others_that_wait() {
    let world = world(100, false);
    world.cq.push(good(1));
    world.cq.arm(true);
    assert_eq!(drain(&world.channel), 0);
    world.cq.arm(false);
    assert_eq!(drain(&world.channel), 1);
    assert_eq!(ids(&world.cq, 10), [1]);
    world.cq.push(entry(2, Status::Success, true));
    world.cq.push(good(3));
    world.cq.arm(true);
    assert_eq!(drain(&world.channel), 1);
    assert_eq!(ids(&world.cq, 1), [2]);
    world.cq.arm(true);
    assert_eq!(drain(&world.channel), 0, "3 is not solicited");
}

#[test]
fn completions_that_are_dropped_announce_nothing() {
    let world = world(100, false);
    let other = |id| Entry::new(entry(id, Status::Success, false).completion, 7);
    world.cq.arm(false);
    world.cq.push(good(1));
    world.cq.push(other(2));
    assert_eq!(drain(&world.channel), 1);
    world.cq.forget(0x1234);
    world.cq.arm(false);
    assert_eq!(drain(&world.channel), 1, "2 had no event");
    world.cq.forget(7);
    world.cq.arm(false);
    assert_eq!(drain(&world.channel), 0, "empty");
}

#[test]
fn a_solicited_request_waits_for_solicited_completions_and_errors() {
    let world = world(100, false);
    let cases = [
        (good(1), 0),
        (entry(2, Status::Success, true), 1),
        (entry(3, Status::WrFlush, false), 1),
    ];
    for (entry, events) in cases {
        world.cq.arm(true);
        world.cq.push(entry);
        assert_eq!(drain(&world.channel), events);
    }
}

#[test]
fn the_next_completion_overrides_solicited_only_and_never_the_other_way() {
    let world = world(100, false);
    world.cq.arm(true);
    world.cq.arm(false);
    world.cq.push(good(1));
    assert_eq!(drain(&world.channel), 1);
    world.cq.arm(false);
    world.cq.arm(true);
    world.cq.push(good(2));
    assert_eq!(drain(&world.channel), 1);
}

proptest! {
    #[test]
    fn events_are_those_of_the_rules(steps in proptest::collection::vec(0u8..6, 0..200)) {
        let world = world(1000, false);
        // (asked for any, asked for solicited)
        let mut asked = (false, false);
        // (solicited, had its event), of each that waits
        let mut waiting = std::collections::VecDeque::new();
        for step in steps {
            match step {
                0 | 1 => {
                    world.cq.arm(step == 1);
                    asked.0 |= step == 0;
                    asked.1 |= step == 1;
                }
                2 => {
                    let polled = ids(&world.cq, 3).len();
                    waiting.drain(..polled);
                    continue;
                }
                3 => assert!(world.cq.push(good(1))),
                4 => assert!(world.cq.push(entry(1, Status::Success, true))),
                _ => assert!(world.cq.push(entry(1, Status::RetryExc, false))),
            }
            let is_wanted = |solicited| asked.0 || asked.1 && solicited;
            let expected = if step > 2 {
                waiting.push_back((step > 3, is_wanted(step > 3)));
                is_wanted(step > 3)
            } else if waiting.iter().any(|(_, had)| *had) {
                false
            } else {
                let last = waiting.iter_mut().rfind(|(solicited, _)| is_wanted(*solicited));
                last.is_some_and(|(_, had)| {
                    *had = true;
                    true
                })
            };
            if expected {
                asked = (false, false);
            }
            prop_assert_eq!(drain(&world.channel), usize::from(expected));
        }
    }
}

#[test]
fn a_queue_that_overruns_reports_it_once_and_takes_no_more() {
    let world = world(2, false);
    world.cq.arm(false);
    assert!(world.cq.push(good(1)) && world.cq.push(good(2)));
    assert!(!world.cq.is_dead());
    assert_eq!(drain(&world.channel), 1);
    world.cq.arm(false);
    assert!(!world.cq.push(good(3)));
    assert!(!world.cq.push(good(4)));
    assert!(world.cq.is_dead());
    assert_eq!(drain(&world.events), 1);
    assert_eq!(drain(&world.channel), 0);
    assert_eq!(ids(&world.cq, 10), [1, 2]);
    assert!(!world.cq.push(good(5)));
    assert!(world.cq.is_empty());
    let reported = ReportedEvents {
        completion: 1,
        asynchronous: 1,
    };
    assert_eq!(world.cq.reported(), reported);
}

#[test]
fn an_overrun_that_is_ignored_loses_the_oldest() {
    let world = world(2, true);
    for id in 1..=5 {
        assert!(world.cq.push(good(id)));
    }
    assert_eq!(ids(&world.cq, 10), [4, 5]);
    assert_eq!(drain(&world.events), 0);
}

#[test]
fn the_largest_queue_can_be_filled() {
    let world = world(MAX_ENTRIES, false);
    for id in 0..u64::from(MAX_ENTRIES) {
        assert!(world.cq.push(good(id)));
    }
    assert!(!world.cq.push(good(0)));
    let too_many = world.cq.resize(MAX_ENTRIES + 1);
    assert_eq!(too_many, Err(Errno::INVAL));
}

#[test]
fn resizing_keeps_the_completions() {
    let world = world(3, false);
    for id in 1..=3 {
        world.cq.push(good(id));
    }
    assert_eq!(world.cq.resize(2), Err(Errno::INVAL));
    assert_eq!(world.cq.resize(0), Err(Errno::INVAL));
    assert_eq!(world.cq.resize(5), Ok(()));
    assert!(world.cq.push(good(4)) && world.cq.push(good(5)));
    assert_eq!(ids(&world.cq, 2), [1, 2]);
    assert_eq!(world.cq.resize(3), Ok(()));
    assert_eq!(ids(&world.cq, 10), [3, 4, 5]);
}

#[test]
fn resizing_under_load_loses_nothing() {
    const ALL: u64 = 20_000;
    let world = world(64, false);
    let cq = &world.cq;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for id in 0..ALL {
                // As a queue pair would: no more under way than there is room for.
                while cq.length.load(Ordering::Acquire) >= 32 {
                    std::thread::yield_now();
                }
                assert!(cq.push(good(id)));
            }
        });
        scope.spawn(move || {
            for entries in (0..2000).map(|n| 32 + n % 64) {
                cq.resize(entries).expect("room for 32");
            }
        });
        let mut seen = Vec::new();
        while seen.len() < usize::try_from(ALL).expect("small") {
            seen.extend(ids(cq, 7));
        }
        assert_eq!(seen, (0..ALL).collect::<Vec<_>>());
    });
}

#[test]
fn extended_polling_reports_the_times() {
    let world = world(4, false);
    let before = clock::device(clock::now());
    world.cq.push(good(1));
    world.cq.push(good(2));
    let after = clock::device(clock::now());
    let first = world.cq.poll_ex().expect("the first");
    let second = world.cq.poll_ex().expect("the second");
    assert_eq!((first.wc.wr_id, second.wc.wr_id), (1, 2));
    assert!(before <= first.timestamp && first.timestamp <= second.timestamp);
    assert!(second.timestamp <= after);
    let day = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970");
    let age = day.as_nanos() - u128::from(first.wallclock);
    assert!(age < 60_000_000_000);
    let early = Time::from_nanos(123);
    world.cq.push(good(3).at(early));
    let seen = world.cq.poll_ex().map(|polled| polled.timestamp);
    assert_eq!(seen, Some(clock::device(early)));
    assert!(world.cq.poll_ex().is_none());
}

#[test]
fn a_queue_without_a_channel_can_be_armed() {
    let (cq, _events) = without_channel(4, false);
    cq.arm(false);
    assert_eq!(cq.moderate(4, 4), Ok(()));
    assert!(cq.push(good(1)));
    assert_eq!(cq.reported(), ReportedEvents::default());
    let (events, _fd) = Records::new(Kind::Asynchronous).expect("made");
    let none = Cq::new(QUEUE, 0, None, Arc::new(events), false);
    assert_eq!(none.err(), Some(Errno::INVAL));
}

fn without_channel(entries: u32, ignore_overrun: bool) -> (Cq, OwnedFd) {
    let (events, fd) = Records::new(Kind::Asynchronous).expect("made");
    let cq = Cq::new(QUEUE, entries, None, Arc::new(events), ignore_overrun);
    (cq.expect("made"), fd)
}

#[test]
fn completions_filled_in_later_come_in_order() {
    let (cq, events) = without_channel(4, false);
    assert!(cq.push(good(1)));
    let mut filling = cq.filling();
    assert!(filling.push_success(good(2).wc(), false));
    assert!(filling.push_success(good(3).wc(), true));
    drop(filling);
    assert_eq!(ids(&cq, 10), [1, 2, 3]);
    assert_eq!(drain(&events), 0);
}

#[test]
fn a_queue_that_overruns_while_it_is_filled_keeps_its_completions() {
    let (cq, events) = without_channel(2, false);
    let mut filling = cq.filling();
    let added: Vec<_> = (1..=4)
        .map(|id| filling.push_success(good(id).wc(), false))
        .collect();
    assert_eq!(added, [true, true, false, false]);
    drop(filling);
    assert!(cq.is_dead());
    assert_eq!(drain(&events), 1);
    assert_eq!(ids(&cq, 10), [1, 2]);
    assert!(!cq.filling().push_success(good(5).wc(), false));
    assert!(cq.is_empty());
}

#[test]
fn an_overrun_that_is_ignored_loses_the_oldest_of_those_filled_in_too() {
    let (cq, events) = without_channel(2, true);
    let mut filling = cq.filling();
    for id in 1..=5 {
        assert!(filling.push_success(good(id).wc(), false));
    }
    drop(filling);
    assert_eq!(ids(&cq, 10), [4, 5]);
    assert_eq!(drain(&events), 0);
}

#[test]
fn a_queue_with_a_channel_reports_while_it_is_filled() {
    let world = world(8, false);
    world.cq.arm(true);
    let mut filling = world.cq.filling();
    assert!(filling.push_success(good(1).wc(), false));
    assert_eq!(drain(&world.channel), 0);
    assert!(filling.push_success(good(2).wc(), true));
    // Nothing is locked: the completion of the event can be polled.
    assert_eq!(drain(&world.channel), 1);
    assert_eq!(ids(&world.cq, 10), [1, 2]);
    // No event is due for these.
    assert!(filling.push_success(good(3).wc(), true));
    assert!(filling.push_success(good(4).wc(), true));
    drop(filling);
    assert_eq!(drain(&world.channel), 0);
    assert_eq!(ids(&world.cq, 10), [3, 4]);
}

#[test]
fn reported_counts_the_records_read_and_takes_the_rest_back() {
    let world = world(10, false);
    for id in 0..3 {
        world.cq.arm(false);
        world.cq.push(good(id));
    }
    let mut record = [0; 8];
    assert_eq!(rustix::io::read(&world.channel, &mut record), Ok(8));
    assert_eq!(world.cq.reported().completion, 1);
    assert_eq!(drain(&world.channel), 0);
}

#[test]
fn a_turn_reports_a_queue_once() {
    let (world, other) = (world(10, false), self::world(10, false));
    let turn = Turn::begin();
    for id in 0..3 {
        world.cq.arm(false);
        world.cq.push(good(id));
    }
    other.cq.arm(false);
    {
        let _within = Turn::begin();
        other.cq.push(good(1));
    }
    assert_eq!((drain(&world.channel), drain(&other.channel)), (0, 0));
    drop(turn);
    assert_eq!((drain(&world.channel), drain(&other.channel)), (1, 1));
    world.cq.arm(false);
    world.cq.push(good(4));
    assert_eq!(drain(&world.channel), 1, "no turn is on");
}

#[test]
fn a_queue_that_ends_within_a_turn_is_not_reported() {
    let world = world(10, false);
    let turn = Turn::begin();
    world.cq.arm(false);
    world.cq.push(good(1));
    assert_eq!(world.cq.reported().completion, 0);
    drop(turn);
    assert_eq!(drain(&world.channel), 0);
}

#[test]
fn moderated_events_wait_for_the_count_or_the_period() {
    let world = world(100, false);
    let start = std::time::Instant::now();
    // The end of the longest period decides which events may have arrived already.
    let in_time = || start.elapsed() < std::time::Duration::from_micros(u16::MAX.into());
    assert_eq!(world.cq.moderate(3, u16::MAX), Ok(()));
    world.cq.arm(false);
    world.cq.push(good(1));
    world.cq.push(good(2));
    let early = drain(&world.channel);
    assert!(early == 0 || !in_time());
    world.cq.push(good(3));
    assert_eq!(early + drain(&world.channel), 1);
    world.cq.push(good(4));
    assert_eq!(drain(&world.channel), 0, "no event was requested");
    // The period ends the wait: a read blocks until then.
    let start = std::time::Instant::now();
    assert_eq!(world.cq.moderate(1000, 2000), Ok(()));
    world.cq.arm(true);
    world.cq.push(entry(5, Status::Success, true));
    let mut record = [0; 8];
    assert_eq!(rustix::io::read(&world.channel, &mut record), Ok(8));
    assert!(start.elapsed() >= std::time::Duration::from_millis(2));
    // Turning it off releases the waiting events.
    assert_eq!(world.cq.moderate(1000, u16::MAX), Ok(()));
    world.cq.arm(false);
    world.cq.push(good(6));
    assert_eq!(world.cq.moderate(0, 0), Ok(()));
    assert_eq!(drain(&world.channel), 1);
    assert_eq!(world.cq.reported().completion, 3);
}

#[test]
fn an_event_that_waits_goes_with_its_queue() {
    let world = world(100, false);
    assert_eq!(world.cq.moderate(1000, 1), Ok(()));
    for id in 0..50 {
        world.cq.arm(false);
        world.cq.push(good(id));
    }
    let reported = world.cq.reported().completion;
    assert_eq!(reported, 0, "none was read");
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(drain(&world.channel), 0);
}
