//! Two ends that understand reports send again missing packets alone.

use super::*;
use crate::wire::report::Run;
use crate::wire::{Aeth, Bth, Headers, Opcode, Operation, Syndrome, Transport};

const FROM: u64 = 0x10000;
const TO: u64 = 0x20000;
const MTU: u32 = 256;
/// Far beyond what a test lasts, in units of the timeout's code.
const PATIENT: u8 = 20;

/// Two ends that have answered each other.
fn acquainted(faults: Faults, seed: u64) -> World {
    acquainted_with(PATIENT, faults, seed)
}

/// The same, with that timeout.
fn acquainted_with(timeout: u8, faults: Faults, seed: u64) -> World {
    let setup = Setup {
        timeout,
        reads: 4,
        ..Setup::new(Service::Rc)
    };
    let mut world = World::new(&setup, faults, seed);
    for side in 0..2 {
        world.post(side, wr(0, Request::Write(remote(0)), 0, 8));
    }
    world.rest();
    world.forget();
    world
}

impl World {
    /// Forgets completions.
    fn forget(&mut self) {
        for end in &mut self.ends {
            end.host.completions.clear();
        }
    }

    /// Sends all there is, and loses those of the packets that `lost` names by their number.
    fn pump_and_lose(&mut self, lost: impl Fn(usize) -> bool) {
        self.pump();
        let end_of_time = Time::from_nanos(u64::MAX);
        let mut number = 0;
        while let Some((to, bytes)) = self.link.receive(end_of_time) {
            if !lost(number) {
                self.deliver(to, &bytes);
            }
            number += 1;
        }
    }

    fn timeouts(&self) -> u64 {
        self.ends[0].qp.counters().timeouts
    }

    fn sent(&self, side: usize) -> u64 {
        self.ends[side].qp.counters().packets_sent
    }
}

#[test]
fn only_missing_packets_are_retransmitted() {
    type Lost = fn(usize) -> bool;
    let cases: [(Lost, u64); 4] = [
        (|number| number == 0, 1),
        (|number| number == 7 || number == 8, 2),
        (|number| number % 5 == 1, 4),
        (|number| number < 19, 19),
    ];
    for (lost, again) in cases {
        let mut world = acquainted(Faults::default(), 1);
        let before = world.sent(0);
        world.post(0, wr(1, Request::Write(remote(TO)), FROM, 20 * MTU));
        world.pump_and_lose(lost);
        world.rest();
        assert_eq!(world.statuses(0), [(1, Status::Success)]);
        assert!(world.same((0, FROM), (1, TO), 20 * MTU));
        assert_eq!(world.sent(0) - before, 20 + again);
        let counters = world.ends[0].qp.counters();
        assert_eq!((counters.timeouts, counters.retries), (0, 0));
        assert_eq!(world.ends[1].qp.counters().naks_sent, 0);
    }
}

#[test]
fn the_end_of_a_message_is_found_out_without_a_timeout() {
    for lost in 1..=20 {
        let mut world = acquainted(Faults::default(), 1);
        let before = (world.sent(0), world.now);
        world.post(0, wr(1, Request::Write(remote(TO)), FROM, 20 * MTU));
        world.pump_and_lose(|number| number >= 20 - lost);
        world.rest();
        assert_eq!(world.statuses(0), [(1, Status::Success)]);
        assert!(world.same((0, FROM), (1, TO), 20 * MTU));
        assert_eq!(world.ends[0].qp.counters().timeouts, 0);
        assert!(world.sent(0) - before.0 <= 20 + lost as u64);
        let took = world.now.nanos() - before.1.nanos();
        assert!(took < 20_000_000, "{took} ns");
    }
}

/// The requester does not run for a second, and finds the answer when it runs again: by that one
/// measure a round trip takes far longer than it does.
#[test]
fn after_a_late_answer_the_end_of_a_message_is_found_out_within_a_timeout() {
    const TIMEOUT: u8 = 14;
    let requests: [(Request, u32, usize); 2] = [
        (Request::Write(remote(TO)), 20 * MTU, 19),
        (Request::Read(remote(TO)), MTU, 0),
    ];
    for (request, length, last) in requests {
        for before in [0, 20] {
            let mut world = acquainted_with(TIMEOUT, Faults::default(), 1);
            for id in 0..before {
                world.post(0, wr(id, Request::Write(remote(0)), 0, 8));
                world.rest();
            }
            world.post(0, wr(before, Request::Write(remote(0)), 0, 8));
            world.pump_and_lose(|_| false);
            world.pump();
            world.now = world.now.plus(1_000_000_000);
            world.pump_and_lose(|_| false);
            world.rest();
            let (retries, now) = (world.ends[0].qp.counters().retries, world.now);
            world.forget();
            world.post(0, wr(99, request.clone(), FROM, length));
            world.pump_and_lose(|number| number == last);
            world.rest();
            assert_eq!(world.statuses(0), [(99, Status::Success)]);
            assert_eq!(world.ends[0].qp.counters().retries, retries);
            let took = world.now.nanos() - now.nanos();
            assert!(took < (4096 << TIMEOUT) + 1_000_000, "{took} ns");
        }
    }
}

#[test]
fn a_request_for_a_response_that_is_lost_is_sent_again() {
    let requests: [fn(u64) -> WorkRequest; 2] = [
        |id| wr(id, Request::Read(remote(TO)), FROM, 10 * MTU),
        |id| {
            let add = Request::FetchAdd {
                remote: remote(TO),
                add: 1,
            };
            wr(id, add, FROM, 8)
        },
    ];
    for request in requests {
        for lost in 0..5 {
            let mut world = acquainted(Faults::default(), 1);
            let start = world.now;
            let write = wr(0, Request::Write(remote(TO + 0x8000)), FROM + 0x8000, MTU);
            for id in 0..5 {
                let plain = WorkRequest {
                    id,
                    ..write.clone()
                };
                world.post(0, if id % 2 == 1 { request(id) } else { plain });
            }
            world.pump_and_lose(|number| number == lost);
            world.rest();
            let done: Vec<(u64, Status)> = (0..5).map(|id| (id, Status::Success)).collect();
            assert_eq!(world.statuses(0), done);
            assert_eq!(world.ends[0].qp.counters().timeouts, 0);
            assert!(world.now.nanos() - start.nanos() < 20_000_000);
        }
    }
}

#[test]
fn kept_packets_are_executed_in_order() {
    let mut world = acquainted(Faults::default(), 1);
    for id in 0..4 {
        world.post_receive(1, 10 + id, TO + 0x4000 + id * 0x400, 0x400);
    }
    for id in 0..4 {
        let request = if id % 2 == 0 {
            Request::Write(remote(TO))
        } else {
            Request::Send
        };
        world.post(0, wr(id, request, FROM + id * 0x400, 3 * MTU));
    }
    world.pump_and_lose(|number| number == 0);
    assert!(world.ends[1].host.completions.is_empty());
    assert!(!world.same((0, FROM + 2 * 0x400), (1, TO), 3 * MTU));
    world.rest();
    let received = [(10, Status::Success), (11, Status::Success)];
    assert_eq!(world.statuses(1), received);
    assert!(world.same((0, FROM + 2 * 0x400), (1, TO), 3 * MTU));
    assert!(world.same((0, FROM + 0x400), (1, TO + 0x4000), 3 * MTU));
    assert!(world.same((0, FROM + 3 * 0x400), (1, TO + 0x4400), 3 * MTU));
}

#[test]
fn a_peer_without_receive_requests_is_waited_for() {
    let mut world = acquainted(Faults::default(), 1);
    for id in 0..4 {
        world.post(0, wr(id, Request::Send, FROM + id * 0x400, 3 * MTU));
    }
    world.pump_and_lose(|number| number == 1);
    world.run(50);
    for id in 0..4 {
        world.post_receive(1, 10 + id, TO + id * 0x400, 0x400);
        world.run(50);
    }
    world.rest();
    let done = |from: u64| -> Vec<_> { (from..from + 4).map(|id| (id, Status::Success)).collect() };
    assert_eq!((world.statuses(0), world.statuses(1)), (done(0), done(10)));
    for id in 0..4 {
        let at = id * 0x400;
        assert!(world.same((0, FROM + at), (1, TO + at), 3 * MTU));
    }
}

/// A report as the peer of end 0 could make it.
fn report(psn: Psn, runs: &[(u16, u16)]) -> Vec<u8> {
    let opcode = Opcode::new(Transport::Rc, Operation::Acknowledge).expect("RC has it");
    let bth = Bth {
        pkey: 0xffff,
        destination: 17,
        selective: true,
        psn,
        ..Bth::default()
    };
    let mut headers = Headers::new(opcode, bth);
    headers.aeth = Some(Aeth {
        syndrome: Syndrome::Ack(None).byte(),
        msn: 0,
    });
    let mut bytes = headers.emit().as_slice().to_vec();
    let runs = runs.iter().map(|(missing, arrived)| Run {
        missing: *missing,
        arrived: *arrived,
    });
    bytes.extend(runs.flat_map(Run::emit));
    seal(bytes, 1)
}

#[test]
fn a_report_of_unsent_packets_is_dropped() {
    let mut world = acquainted(Faults::default(), 1);
    let taken = world.ends[1].qp.expected();
    world.post(0, wr(1, Request::Write(remote(TO)), FROM, 20 * MTU));
    world.pump();
    world.link.lose_all();
    let sent = world.sent(0);
    for runs in [
        &[(1, 20)][..],
        &[(1, 1), (18, 1)],
        &[(u16::MAX, u16::MAX); 64],
    ] {
        world.deliver(0, &report(taken.previous(), runs));
    }
    assert_eq!(world.ends[0].qp.counters().dropped, 3);
    world.pump();
    assert_eq!(world.sent(0), sent);
    // One that could be true is believed, however often it comes.
    for _ in 0..3 {
        world.deliver(0, &report(taken.previous(), &[(2, 1), (1, 1)]));
        world.pump();
        assert_eq!(world.sent(0), sent + 3);
    }
    // So is one that says less than another did.
    world.deliver(0, &report(taken.previous(), &[(2, 1)]));
    world.pump();
    assert_eq!(world.sent(0), sent + 3);
    world.rest();
    assert_eq!(world.statuses(0), [(1, Status::Success)]);
    assert!(world.same((0, FROM), (1, TO), 20 * MTU));
}

#[test]
fn retries_are_counted_as_ever() {
    let setup = Setup {
        timeout: 10,
        retry_cnt: 3,
        ..Setup::new(Service::Rc)
    };
    let mut world = World::new(&setup, Faults::default(), 1);
    world.post(0, wr(0, Request::Write(remote(0)), 0, 8));
    world.rest();
    world.forget();
    let start = world.now;
    world.post(0, wr(1, Request::Write(remote(TO)), FROM, 20 * MTU));
    world.link.deaf = [true; 2];
    world.rest();
    assert_eq!(world.statuses(0), [(1, Status::RetryExc)]);
    assert_eq!(world.ends[0].qp.counters().timeouts, 4);
    assert_eq!(world.now.nanos() - start.nanos(), 4 * (4096 << 10));
}

#[test]
fn little_more_than_the_messages_is_sent_on_a_bad_network() {
    for (loss, most) in [(1, 1010), (10, 1040), (50, 1150)] {
        let mut all = 0;
        for seed in 0..10 {
            let faults = Faults {
                loss,
                ..Faults::default()
            };
            let mut world = acquainted(faults, seed);
            // The ends may have become acquainted by one.
            let (before, timeouts) = (world.sent(0), world.timeouts());
            for id in 0..20 {
                world.post(0, wr(id, Request::Write(remote(TO)), FROM, 200 * MTU));
            }
            world.rest();
            let done: Vec<(u64, Status)> = (0..20).map(|id| (id, Status::Success)).collect();
            assert_eq!(world.statuses(0), done);
            assert_eq!(world.timeouts(), timeouts);
            all += world.sent(0) - before;
        }
        let ratio = all * 1000 / (10 * 20 * 200);
        assert!(ratio <= most, "{ratio} of a thousand at {loss}");
    }
}

/// The responder has sent an answer that is under way, and repeats it, when the requester has it
/// and sends the next request: the repetition takes no place of that.
#[test]
fn a_repeated_answer_does_not_count_as_a_request() {
    let mut world = acquainted(Faults::default(), 1);
    for id in 0..5 {
        world.post(0, wr(id, Request::Read(remote(TO)), FROM, 2 * MTU));
    }
    let requests = (0..10).take_while(|_| world.send_one(0)).count();
    assert_eq!(requests, 4, "`max_rd_atomic`");
    let mut link = std::mem::replace(&mut world.link, Link::new(Faults::default(), 1));
    let end_of_time = Time::from_nanos(u64::MAX);
    while let Some((to, bytes)) = link.receive(end_of_time) {
        world.deliver(to, &bytes);
    }
    for _ in 0..2 {
        assert!(world.send_one(1));
    }
    let mut answer = Vec::new();
    while let Some((_, bytes)) = world.link.receive(end_of_time) {
        answer.push(bytes);
    }
    world.deliver(0, &answer[0]);
    world.now = world.ends[0].qp.deadline().expect("it waits for the rest");
    let end = &mut world.ends[0];
    end.qp.on_time(world.now, &mut end.host);
    assert!(world.send_one(0), "the rest is asked for again");
    while let Some((to, bytes)) = world.link.receive(end_of_time) {
        world.deliver(to, &bytes);
    }
    for bytes in &answer[1..] {
        world.deliver(0, bytes);
    }
    assert!(world.send_one(0), "the next request");
    while let Some((to, bytes)) = world.link.receive(end_of_time) {
        world.deliver(to, &bytes);
    }
    world.rest();
    let done: Vec<(u64, Status)> = (0..5).map(|id| (id, Status::Success)).collect();
    assert_eq!(world.statuses(0), done);
}
