//! Long reads: cut into requests that fit the window, and no more sent again than was lost.

use super::*;
use crate::wire::{Operation, Reth};

const MTU: u32 = 1024;
/// Packets of a request, where four or more may be under way.
const PART: u32 = 64;

fn setup() -> Setup {
    Setup {
        mtu: Mtu::B1024,
        reads: 16,
        ..Setup::new(Service::Rc)
    }
}

/// A packet that an end hands out.
#[derive(Clone, Copy, Debug)]
struct Sent {
    side: usize,
    operation: Operation,
    psn: Psn,
    reth: Option<Reth>,
}

impl Sent {
    fn is_read(&self) -> bool {
        self.operation == Operation::ReadRequest
    }

    fn is_data(&self) -> bool {
        self.side == 1 && self.operation.is_response() && self.operation != Operation::Acknowledge
    }
}

/// Delivers the packets of both ends, except those that `keep` refuses. Returns all of them.
fn pump(world: &mut World, keep: &mut impl FnMut(&Sent) -> bool) -> Vec<Sent> {
    let mut all = Vec::new();
    for side in [0, 1] {
        loop {
            let end = &mut world.ends[side];
            let Some(outgoing) = end.qp.transmit(world.now, &mut end.host) else {
                break;
            };
            let headers = &outgoing.headers;
            let sent = Sent {
                side,
                operation: headers.opcode.operation(),
                psn: headers.bth.psn,
                reth: headers.reth,
            };
            let bytes = bytes_of(&outgoing, &end.host, side).expect("readable");
            if keep(&sent) {
                world.link.send(world.now, 1 - side, bytes);
            }
            all.push(sent);
        }
    }
    all
}

/// Runs to the end, and answers all that was sent.
fn run(world: &mut World, mut keep: impl FnMut(&Sent) -> bool) -> Vec<Sent> {
    let mut all = Vec::new();
    for _ in 0..STEPS {
        all.extend(pump(world, &mut keep));
        if !world.step() {
            return all;
        }
    }
    panic!("did not come to rest");
}

/// The requests of reads, in packets: where each begins, and how many it asks for.
fn requests(sent: &[Sent]) -> Vec<(u32, u32)> {
    let reads = sent.iter().filter(|sent| sent.is_read());
    reads
        .map(|sent| {
            let reth = sent.reth.expect("RETH");
            let bytes = u32::try_from(reth.address - BASE).expect("in memory");
            assert_eq!(bytes % MTU, 0);
            (bytes / MTU, reth.length.div_ceil(MTU))
        })
        .collect()
}

fn sized(setup: &Setup, faults: Faults, seed: u64, length: u32) -> World {
    let bytes = usize::try_from(length).expect("a size");
    World::sized(setup, faults, seed, bytes.next_multiple_of(8).max(64))
}

/// Reads so many bytes over a bad link. Returns the payload that the peer sent, in thousandths of
/// the bytes read.
fn read(setup: &Setup, faults: Faults, seed: u64, length: u32) -> u64 {
    let mut world = sized(setup, faults, seed, length);
    world.post(0, wr(1, Request::Read(remote(0)), 0, length));
    assert!(world.run(10 * STEPS), "came to rest");
    let done = [(1, Status::Success)];
    assert_eq!(world.statuses(0), done, "seed {seed}, {length} bytes");
    assert!(world.same((1, 0), (0, 0), length));
    let sent = world.ends[1].qp.counters().bytes_sent;
    sent * 1000 / u64::from(length.max(1))
}

#[test]
fn every_size_comes_over_a_bad_link() {
    let faults = Faults {
        loss: 10,
        duplicate: 5,
        reorder: 10,
        corrupt: 1,
    };
    let part = PART * MTU;
    let sizes = [0, 1, MTU - 1, MTU, MTU + 1, part - 1, part, part + 1];
    for reads in [1, 2, 4, 16] {
        let setup = Setup { reads, ..setup() };
        for (seed, length) in (0..).zip(sizes) {
            read(&setup, faults, seed, length);
        }
        read(&setup, faults, 99, 7 * part + 5);
    }
    let xrc = Setup {
        peer: Service::XrcTarget,
        service: Service::XrcInitiator,
        ..setup()
    };
    read(&xrc, faults, 1, 7 * part + 5);
}

#[test]
fn retransmissions_are_bounded() {
    let none = Faults::default();
    let cases = [
        (none, 1000),
        (Faults { loss: 1, ..none }, 1020),
        (Faults { loss: 10, ..none }, 1100),
        (Faults { loss: 50, ..none }, 1200),
        (
            Faults {
                reorder: 200,
                ..none
            },
            1500,
        ),
        (
            Faults {
                duplicate: 200,
                ..none
            },
            1100,
        ),
        (
            Faults {
                loss: 10,
                reorder: 200,
                duplicate: 50,
                corrupt: 5,
            },
            1500,
        ),
    ];
    for (seed, (faults, most)) in (0..).zip(cases) {
        for reads in [1, 16] {
            let ratio = read(&Setup { reads, ..setup() }, faults, seed, 1 << 20);
            assert!(ratio <= most, "{faults:?}, {reads} reads: {ratio}");
        }
    }
}

#[test]
fn a_long_read_is_cut_into_requests_that_follow_each_other() {
    let length = 5 * PART * MTU + 100;
    let mut world = sized(&setup(), Faults::default(), 1, length);
    world.post(0, wr(1, Request::Read(remote(0)), 0, length));
    // Four fill the window.
    let first = pump(&mut world, &mut |_| true);
    let four = [(0, 64), (64, 64), (128, 64), (192, 64)];
    assert_eq!(requests(&first), four);
    let psns: Vec<u32> = first
        .iter()
        .map(|sent| sent.psn.since(setup().psn))
        .collect();
    assert_eq!(psns, [0, 64, 128, 192]);
    let rest = run(&mut world, |_| true);
    assert_eq!(requests(&rest), [(256, 64), (320, 1)]);
    assert_eq!(world.statuses(0), [(1, Status::Success)]);
    assert_eq!(world.completion(0, 0).length, length);
}

#[test]
fn no_more_requests_are_under_way_than_the_peer_serves() {
    for reads in [1u8, 2, 3] {
        let length = 1 << 20;
        let setup = Setup { reads, ..setup() };
        let faults = Faults {
            loss: 20,
            reorder: 20,
            ..Faults::default()
        };
        let mut world = sized(&setup, faults, 3, length);
        world.post(0, wr(1, Request::Read(remote(0)), 0, length));
        // A responder that serves no more refuses further requests.
        assert_eq!(
            pump(&mut world, &mut |_| true).len(),
            usize::from(reads),
            "{reads}"
        );
        assert!(world.run(STEPS));
        assert_eq!(world.statuses(0), [(1, Status::Success)]);
        assert_eq!(world.ends[1].qp.counters().naks_sent, naks_of_gaps(&world));
    }
}

/// Refusals would have ended the connection.
fn naks_of_gaps(world: &World) -> u64 {
    assert_eq!(world.ends[1].qp.state(), State::Rts);
    world.ends[1].qp.counters().naks_sent
}

/// The kernel's soft-RoCE serves a repeated read only within the range of the latest request of the
/// same PSNs, from its beginning.
#[test]
fn a_repeated_read_never_goes_back() {
    for seed in 0..10 {
        let length = 10 * PART * MTU;
        let faults = Faults {
            loss: 50,
            reorder: 100,
            ..Faults::default()
        };
        let mut world = sized(&setup(), faults, seed, length);
        world.post(0, wr(1, Request::Read(remote(0)), 0, length));
        let sent = run(&mut world, |_| true);
        assert_eq!(world.statuses(0), [(1, Status::Success)]);
        let mut known: Vec<(u32, u32)> = Vec::new();
        let mut repeated = 0;
        for (begin, packets) in requests(&sent) {
            let end = begin + packets;
            let fits = |range: &&mut (u32, u32)| (range.0..range.1).contains(&begin);
            match known.iter_mut().find(fits) {
                Some(range) => {
                    assert!(end <= range.1, "{begin}..{end}, {range:?}");
                    range.0 = begin;
                    repeated += 1;
                }
                None => {
                    assert_eq!(known.last().map_or(0, |(_, end)| *end), begin);
                    known.push((begin, end));
                }
            }
        }
        assert!(repeated > 0);
    }
}

#[test]
fn only_missing_responses_are_requested_and_once() {
    let length = 2 * PART * MTU;
    let mut world = sized(&setup(), Faults::default(), 1, length);
    world.post(0, wr(1, Request::Read(remote(0)), 0, length));
    let lost = [3, 4, 70].map(|at| setup().psn.plus(at));
    let mut dropped = 0;
    let sent = run(&mut world, |sent| {
        let loses = sent.is_data() && lost.contains(&sent.psn) && dropped < 3;
        dropped += u32::from(loses);
        !loses
    });
    let parts = [(0, 64), (64, 64), (3, 2), (70, 1)];
    assert_eq!(requests(&sent), parts);
    let data = sent.iter().filter(|sent| sent.is_data()).count();
    assert_eq!(data, 128 + 3);
    assert_eq!(world.statuses(0), [(1, Status::Success)]);
    let counters = world.ends[0].qp.counters();
    assert_eq!((counters.retries, counters.timeouts), (0, 0));
}

#[test]
fn a_lost_repetition_is_repeated_without_a_timeout() {
    let length = PART * MTU;
    // 2 s.
    let setup = Setup {
        timeout: 19,
        ..setup()
    };
    let mut world = sized(&setup, Faults::default(), 1, length);
    world.post(0, wr(1, Request::Read(remote(0)), 0, length));
    let third = setup.psn.plus(3);
    let mut losses = 0;
    let sent = run(&mut world, |sent| {
        let loses = sent.is_data() && sent.psn == third && losses < 3;
        losses += u32::from(loses);
        !loses
    });
    assert_eq!(requests(&sent), [(0, 64), (3, 1), (3, 1), (3, 1)]);
    // The wait doubles: 2 ms, 4 ms.
    assert!((6_000_000..7_000_000).contains(&world.now.nanos()));
    assert_eq!(world.ends[0].qp.counters().timeouts, 0);
    assert_eq!(world.statuses(0), [(1, Status::Success)]);
}

#[test]
fn acknowledged_requests_are_not_sent_again_for_a_response() {
    let length = PART * MTU;
    let mut world = sized(&setup(), Faults::default(), 1, 2 * length);
    world.post(0, wr(1, Request::Read(remote(0)), 0, length));
    let behind = remote(u64::from(length));
    world.post(0, wr(2, Request::Write(behind), u64::from(length), length));
    let tenth = setup().psn.plus(10);
    let mut lost = false;
    let sent = run(&mut world, |sent| {
        let loses = sent.is_data() && sent.psn == tenth && !lost;
        lost |= loses;
        !loses
    });
    assert!(lost);
    assert_eq!(requests(&sent), [(0, 64), (10, 1)]);
    let writes = |sent: &&Sent| sent.side == 0 && !sent.is_read();
    assert_eq!(sent.iter().filter(writes).count(), 64);
    let done = [(1, Status::Success), (2, Status::Success)];
    assert_eq!(world.statuses(0), done);
    assert!(world.same((0, u64::from(length)), (1, u64::from(length)), length));
}

#[test]
fn a_request_that_is_refused_fails_after_a_read_before_it() {
    let length = PART * MTU;
    let mut world = sized(&setup(), Faults::default(), 1, length);
    world.post(0, wr(1, Request::Read(remote(0)), 0, length));
    let nowhere = Remote {
        address: BASE,
        rkey: 0xdead,
    };
    world.post(0, wr(2, Request::Write(nowhere), 0, 8));
    world.post(0, wr(3, Request::Write(remote(0)), 0, 8));
    // A packet of the response takes longer than the refusal.
    let fifth = setup().psn.plus(5);
    let mut late = None;
    run(&mut world, |sent| {
        let keep = !(sent.is_data() && sent.psn == fifth);
        if !keep {
            late = Some(*sent);
        }
        keep && !(sent.is_read() && sent.psn == fifth)
    });
    // It never arrived: the read fails, and the refused request is flushed with the rest.
    assert!(late.is_some());
    let flushed = Status::WrFlush;
    assert_eq!(
        world.statuses(0),
        [(1, Status::RetryExc), (2, flushed), (3, flushed)]
    );

    let mut world = sized(&setup(), Faults::default(), 1, length);
    world.post(0, wr(1, Request::Read(remote(0)), 0, length));
    world.post(0, wr(2, Request::Write(nowhere), 0, 8));
    world.post(0, wr(3, Request::Write(remote(0)), 0, 8));
    let faults = Faults {
        reorder: 300,
        ..Faults::default()
    };
    world.link = Link::new(faults, 5);
    world.rest();
    let statuses = world.statuses(0);
    assert_eq!(statuses.len(), 3);
    assert_eq!(statuses[0], (1, Status::Success));
    assert_eq!(statuses[1], (2, Status::RemAccess));
    assert_eq!(statuses[2], (3, flushed));
}

#[test]
fn a_late_report_of_a_gap_changes_nothing() {
    let length = 4 * MTU;
    let mut world = sized(&setup(), Faults::default(), 1, length);
    for id in 0..2 {
        world.post(0, wr(id, Request::Write(remote(0)), 0, length));
    }
    world.post(0, wr(2, Request::Read(remote(0)), 0, length));
    let psn = setup().psn;
    let mut lost = 0;
    while world.ends[0].qp.outstanding() > 1 {
        pump(&mut world, &mut |sent| {
            let loses = sent.is_data() && sent.psn == psn.plus(8) && lost == 0;
            lost += u32::from(loses);
            !loses
        });
        assert!(world.step());
    }
    let before = *world.ends[0].qp.counters();
    for old in [psn, psn.plus(4), psn.plus(7)] {
        let nak =
            super::errors::answer(old, crate::wire::Syndrome::Nak(crate::wire::Nak::Sequence));
        world.deliver(0, &nak);
    }
    world.rest();
    let after = world.ends[0].qp.counters();
    assert_eq!(after.retries, before.retries);
    let done: Vec<_> = (0..3).map(|id| (id, Status::Success)).collect();
    assert_eq!(world.statuses(0), done);
}

#[test]
fn a_fence_waits_for_all_of_a_long_read() {
    let length = 3 * PART * MTU;
    let faults = Faults {
        loss: 20,
        reorder: 50,
        ..Faults::default()
    };
    for seed in 0..5 {
        let mut world = sized(&setup(), faults, seed, 2 * length);
        let to = u64::from(length);
        world.post_receive(1, 100, to, length);
        world.post(0, wr(1, Request::Read(remote(0)), 0, length));
        world.post(
            0,
            WorkRequest {
                fence: true,
                ..wr(2, Request::Send, 0, length)
            },
        );
        world.rest();
        assert_eq!(world.statuses(1), [(100, Status::Success)]);
        assert!(world.same((1, 0), (1, to), length));
    }
}

#[test]
fn retries_are_for_lack_of_progress() {
    let setup = Setup {
        retry_cnt: 3,
        ..setup()
    };
    let faults = Faults {
        loss: 10,
        ..Faults::default()
    };
    for seed in 0..4 {
        let ratio = read(&setup, faults, seed, 1 << 20);
        assert!(ratio < 1200, "{ratio}");
    }
    // A peer that falls silent in the middle: each retry asks once more, and is waited for.
    let length = 1 << 20;
    let mut world = sized(&setup, Faults::default(), 1, length);
    world.post(0, wr(1, Request::Read(remote(0)), 0, length));
    let mut left = 300;
    let mut last = Time::default();
    let mut asked = 0;
    for _ in 0..STEPS {
        let now = world.now;
        pump(&mut world, &mut |sent| {
            if sent.is_data() && left > 0 {
                left -= 1;
                return true;
            }
            if sent.is_data() {
                return false;
            }
            last = if left > 0 { now } else { last };
            asked += u32::from(left == 0);
            true
        });
        if !world.step() {
            break;
        }
    }
    assert_eq!(world.statuses(0), [(1, Status::RetryExc)]);
    let timeout = AckTimeout::new(6).and_then(AckTimeout::nanos).expect("one");
    let waited = world.now.nanos() - last.nanos();
    assert!((4 * timeout..5 * timeout).contains(&waited), "{waited}");
    assert!(asked <= 40, "{asked}");
}

#[test]
fn a_peer_that_repeats_reads_without_end_is_answered_so_often() {
    let length = PART * MTU;
    let mut world = sized(&setup(), Faults::default(), 1, length);
    world.post(0, wr(1, Request::Read(remote(0)), 0, length));
    let mut request = None;
    let end = &mut world.ends[0];
    if let Some(outgoing) = end.qp.transmit(world.now, &mut end.host) {
        request = bytes_of(&outgoing, &end.host, 0);
    }
    let request = request.expect("a request");
    // However often it comes before anything is sent: it is answered once.
    for _ in 0..100 {
        world.deliver(1, &request);
    }
    let mut sent = 0;
    let end = &mut world.ends[1];
    for _ in 0..10 {
        sent += u32::from(end.qp.transmit(world.now, &mut end.host).is_some());
    }
    // While it is answered, the answer begins again, and there are not two.
    for _ in 0..100 {
        world.deliver(1, &request);
    }
    let end = &mut world.ends[1];
    while end.qp.transmit(world.now, &mut end.host).is_some() {
        sent += 1;
    }
    assert_eq!(sent, 10 + PART);
}
