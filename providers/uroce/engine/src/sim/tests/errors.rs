//! Errors, and the status that each side reports.

use super::*;
use crate::wire::{Aeth, Bth, Headers, ImmDt, Nak, Opcode, Operation, Syndrome, Transport};
use smallvec::smallvec;

const FROM: u64 = 0;
const TO: u64 = 0x40000;

fn failed(world: &World, status: Status) {
    let statuses = world.statuses(0);
    assert_eq!(statuses[0], (1, status));
    for (id, other) in &statuses[1..] {
        assert_eq!(*other, Status::WrFlush, "{id}");
    }
    assert_eq!(world.ends[0].qp.state(), State::Error);
    assert_eq!(world.ends[0].qp.outstanding(), 0);
}

#[test]
fn a_message_that_is_too_long() {
    let mut world = world(&Setup::new(Service::Rc));
    world.post_receive(1, 100, TO, 300);
    world.post_receive(1, 101, TO, 300);
    world.post(0, wr(1, Request::Send, FROM, 301));
    world.post(0, wr(2, Request::Send, FROM, 1));
    world.rest();
    failed(&world, Status::RemInvReq);
    assert_eq!(world.statuses(0).len(), 2);
    assert_eq!(
        world.statuses(1),
        [(100, Status::LocLen), (101, Status::WrFlush)]
    );
    assert_eq!(world.ends[1].qp.state(), State::Error);
    // A receive request posted now is flushed as well.
    world.post_receive(1, 102, TO, 300);
    assert_eq!(world.statuses(1)[2], (102, Status::WrFlush));
}

#[test]
fn wrong_keys_touch_nothing() {
    let operations = [
        Request::Write(Remote {
            rkey: 9,
            ..remote(TO)
        }),
        Request::Read(Remote {
            rkey: 9,
            ..remote(TO)
        }),
        Request::Write(remote(MEMORY as u64 - 4)),
        Request::Read(Remote {
            address: u64::MAX - 3,
            rkey: ALL,
        }),
        Request::FetchAdd {
            remote: Remote {
                rkey: 9,
                ..remote(TO)
            },
            add: 1,
        },
        Request::AtomicWrite(
            Remote {
                rkey: 9,
                ..remote(TO)
            },
            [1; 8],
        ),
    ];
    for request in operations {
        let mut world = world(&Setup::new(Service::Rc));
        let before = [0, 1].map(|side: usize| world.ends[side].host.memory.clone());
        world.post(0, wr(1, request.clone(), FROM, 8));
        world.post(0, wr(2, Request::Write(remote(TO)), FROM, 8));
        world.rest();
        failed(&world, Status::RemAccess);
        assert_eq!(
            world.ends[1].host.events,
            [Event::QpAccessErr],
            "{request:?}"
        );
        let after = [0, 1].map(|side: usize| world.ends[side].host.memory.clone());
        assert!(before == after);
    }
}

#[test]
fn requests_without_the_right_are_refused() {
    let mut world = world(&Setup::new(Service::Rc));
    let modify = Modify {
        mask: Mask::ACCESS_FLAGS,
        ..Modify::default()
    };
    let end = &mut world.ends[1];
    end.qp.modify(&modify, &mut end.host).expect("RTS to RTS");
    world.post(0, wr(1, Request::Write(remote(TO)), FROM, 8));
    world.rest();
    failed(&world, Status::RemInvReq);
    assert_eq!(world.ends[1].host.events, [Event::QpReqErr]);
}

#[test]
fn a_misaligned_atomic() {
    let mut world = world(&Setup::new(Service::Rc));
    world.post(
        0,
        wr(
            1,
            Request::FetchAdd {
                remote: remote(TO + 4),
                add: 1,
            },
            FROM,
            8,
        ),
    );
    world.rest();
    failed(&world, Status::RemInvReq);
}

#[test]
fn local_memory_that_is_wrong() {
    let mut world = world(&Setup::new(Service::Rc));
    world.post_receive(1, 100, TO, 8);
    let bad = Data::Sges(smallvec![Sge {
        lkey: 9,
        ..sge(FROM, 8)
    }]);
    world.post(
        0,
        WorkRequest {
            signaled: false,
            ..wr(0, Request::Send, FROM, 8)
        },
    );
    world.post(
        0,
        WorkRequest {
            data: bad,
            ..WorkRequest::new(1, Request::Send)
        },
    );
    world.post(0, wr(2, Request::Send, FROM, 8));
    world.rest();
    failed(&world, Status::LocProt);
    assert_eq!(world.statuses(1), [(100, Status::Success)]);
}

#[test]
fn a_receive_request_whose_memory_is_wrong() {
    let mut world = world(&Setup::new(Service::Rc));
    let bad = Receive {
        id: 100,
        sges: smallvec![Sge {
            lkey: 9,
            ..sge(TO, 8)
        }],
    };
    world.ends[1].host.receives.push_back(bad);
    world.post(0, wr(1, Request::Send, FROM, 8));
    world.rest();
    failed(&world, Status::RemOp);
    assert_eq!(world.statuses(1), [(100, Status::LocProt)]);
}

#[test]
fn memory_that_goes_away_under_a_read() {
    let mut world = world(&Setup::new(Service::Rc));
    world.post(0, wr(1, Request::Read(remote(TO)), FROM, 4096));
    world.pump();
    let (to, bytes) = world
        .link
        .receive(Time::from_nanos(u64::MAX))
        .expect("request");
    world.deliver(to, &bytes);
    world.ends[1].host.keys.clear();
    world.rest();
    failed(&world, Status::RemAccess);
    assert_eq!(world.ends[1].host.events, [Event::QpAccessErr]);
}

#[test]
fn memory_that_goes_away_under_a_send() {
    let mut world = world(&Setup::new(Service::Rc));
    world.post_receive(1, 100, TO, 1 << 16);
    world.post(0, wr(1, Request::Send, FROM, 1 << 16));
    world.pump();
    world.ends[0].host.keys.clear();
    world.rest();
    failed(&world, Status::LocProt);
}

/// Writes of more than one packet to a key that ends after they were checked.
fn early_end(service: Service) -> World {
    let mut world = world(&Setup::new(service));
    let host = &mut world.ends[1].host;
    host.defers = true;
    host.keys.insert(ENDS, host.keys[&ALL]);
    host.ends_early = Some(ENDS);
    world
}

const ENDS: u32 = 0x200;

fn ending(offset: u64) -> Remote {
    Remote {
        rkey: ENDS,
        ..remote(offset)
    }
}

#[test]
fn memory_that_goes_away_under_a_write() {
    let mut world = early_end(Service::Rc);
    let before = world.ends[1].host.memory.clone();
    world.post(0, wr(1, Request::Write(ending(TO)), FROM, 2000));
    world.post(0, wr(2, Request::Write(remote(TO)), FROM, 2000));
    world.rest();
    failed(&world, Status::RemAccess);
    assert_eq!(world.ends[1].qp.state(), State::Error);
    assert_eq!(world.ends[1].host.events, [Event::QpAccessErr]);
    assert!(before == world.ends[1].host.memory);
}

/// The write before is acknowledged, and no message after it is received.
#[test]
fn memory_that_goes_away_under_a_write_between_others() {
    let later = [
        Request::Send,
        Request::WriteImm(remote(TO + 4096), ImmDt { data: 1 }),
        Request::Read(remote(TO)),
        Request::FetchAdd {
            remote: remote(TO),
            add: 1,
        },
        Request::Write(Remote {
            rkey: 9,
            ..remote(TO)
        }),
    ];
    for later in later {
        let mut world = early_end(Service::Rc);
        world.post_receive(1, 100, TO, 8);
        world.post(0, wr(1, Request::Write(remote(TO)), FROM, 600));
        world.post(0, wr(2, Request::Write(ending(TO + 8192)), FROM, 600));
        world.post(0, wr(3, later.clone(), FROM, 8));
        world.rest();
        let expected = [
            (1, Status::Success),
            (2, Status::RemAccess),
            (3, Status::WrFlush),
        ];
        assert_eq!(world.statuses(0), expected, "{later:?}");
        assert_eq!(world.statuses(1), [(100, Status::WrFlush)], "{later:?}");
        assert!(world.same((0, FROM), (1, TO), 600), "{later:?}");
        assert_eq!(world.ends[1].host.events, [Event::QpAccessErr]);
    }
}

#[test]
fn an_unreliable_write_whose_memory_goes_away_is_lost() {
    let mut world = early_end(Service::Uc);
    world.post_receive(1, 100, TO, 8);
    world.post(0, wr(1, Request::Write(ending(TO)), FROM, 600));
    world.post(0, wr(2, Request::Send, FROM, 8));
    world.post(0, wr(3, Request::Write(remote(TO)), FROM, 600));
    world.rest();
    assert_eq!(world.statuses(1), [(100, Status::Success)]);
    assert!(world.same((0, FROM), (1, TO), 600));
    assert_eq!(world.ends[1].qp.state(), State::Rts);
    assert_eq!(world.ends[1].qp.counters().dropped, 1);
}

#[test]
fn a_peer_that_is_silent() {
    for (retries, attempts) in [(0u8, 1u64), (3, 4), (7, 8)] {
        let setup = Setup {
            retry_cnt: retries,
            ..Setup::new(Service::Rc)
        };
        let mut world = world(&setup);
        world.link.deaf[1] = true;
        world.post(0, wr(1, Request::Send, FROM, 5));
        world.post(0, wr(2, Request::Read(remote(TO)), FROM, 5));
        world.rest();
        failed(&world, Status::RetryExc);
        // 4.096 us * 2^6 each time.
        assert_eq!(world.now.nanos(), attempts * 262_144);
        assert_eq!(world.ends[0].qp.counters().timeouts, attempts);
    }
}

#[test]
fn no_receive_request() {
    let setup = Setup {
        rnr_retry: 2,
        ..Setup::new(Service::Rc)
    };
    let mut world = world(&setup);
    world.post(0, wr(1, Request::Send, FROM, 5));
    world.rest();
    failed(&world, Status::RnrRetryExc);
    assert_eq!(world.ends[1].qp.counters().rnr_sent, 3);
    assert_eq!(world.ends[1].qp.state(), State::Rts);
}

#[test]
fn a_receive_request_that_comes_late() {
    let mut world = world(&Setup::new(Service::Rc));
    world.post(0, wr(1, Request::Send, FROM, 5000));
    world.post(0, wr(2, Request::Send, FROM, 5000));
    assert!(!world.run(500), "waits as long as it must");
    world.post_receive(1, 100, TO, 5000);
    world.post_receive(1, 101, TO + 5000, 5000);
    world.rest();
    assert_eq!(
        world.statuses(0),
        [(1, Status::Success), (2, Status::Success)]
    );
    assert!(world.same((0, FROM), (1, TO + 5000), 5000));
    assert!(world.ends[0].qp.counters().rnr_received > 3);
}

#[test]
fn credits_hold_sends_back() {
    let setup = Setup {
        credits: true,
        ..Setup::new(Service::Rc)
    };
    let mut world = world(&setup);
    for id in 0..20 {
        world.post_receive(1, 100 + id, TO, 600);
    }
    for id in 0..20 {
        world.post(0, wr(id, Request::Send, FROM, 600));
    }
    world.rest();
    assert_eq!(world.statuses(0).len(), 20);
    assert_eq!(world.ends[1].qp.counters().rnr_sent, 0);
    // The peer has reported that it has none left: the next is a single packet.
    world.post(0, wr(20, Request::Send, FROM, 600));
    let sent = world.ends[0].qp.counters().packets_sent;
    world.pump();
    assert_eq!(world.ends[0].qp.counters().packets_sent, sent + 1);
    world.post_receive(1, 120, TO, 600);
    world.rest();
    assert_eq!(world.statuses(0).len(), 21);
    assert_eq!(world.ends[1].qp.counters().rnr_sent, 0);
}

#[test]
fn more_reads_than_the_peer_serves() {
    let mut world = world(&Setup::new(Service::Rc));
    // This side believes in 16.
    world.ends[0] = World::new(
        &Setup {
            reads: 16,
            ..Setup::new(Service::Rc)
        },
        Faults::default(),
        1,
    )
    .ends
    .into_iter()
    .next()
    .expect("two ends");
    for id in 1..=16 {
        world.post(0, wr(id, Request::Read(remote(TO)), FROM, 4096));
    }
    world.rest();
    failed_somewhere(&world, Status::RemInvReq);
    assert_eq!(world.ends[1].host.events, [Event::QpReqErr]);
}

fn failed_somewhere(world: &World, status: Status) {
    let statuses = world.statuses(0);
    let first = statuses.iter().find(|(_, other)| *other != Status::Success);
    assert_eq!(first.map(|(_, status)| *status), Some(status));
    assert_eq!(statuses.len(), 16);
}

#[test]
fn an_unreliable_queue_stops_sending_and_continues_receiving() {
    let mut world = world(&Setup::new(Service::Uc));
    world.post_receive(0, 200, TO, 100);
    let bad = Data::Sges(smallvec![Sge {
        lkey: 9,
        ..sge(FROM, 8)
    }]);
    world.post(
        0,
        WorkRequest {
            data: bad,
            ..WorkRequest::new(1, Request::Send)
        },
    );
    world.post(0, wr(2, Request::Send, FROM, 8));
    world.post(1, wr(3, Request::Send, FROM, 8));
    world.rest();
    assert_eq!(world.ends[0].qp.state(), State::Sqe);
    let expected = [
        (1, Status::LocProt),
        (2, Status::WrFlush),
        (200, Status::Success),
    ];
    assert_eq!(world.statuses(0), expected);
    let go = Modify {
        mask: Mask::STATE,
        state: Some(State::Rts),
        ..Modify::default()
    };
    let end = &mut world.ends[0];
    end.qp.modify(&go, &mut end.host).expect("to RTS");
    world.post_receive(1, 300, TO, 100);
    world.post(0, wr(4, Request::Send, FROM, 8));
    world.rest();
    assert_eq!(world.statuses(1).last(), Some(&(300, Status::Success)));
}

#[test]
fn a_queue_with_shared_receives_reports_when_it_took_the_last() {
    let mut config = *world(&Setup::new(Service::Rc)).ends[0].qp.config();
    config.shared_receives = true;
    let mut host = SimHost::new(1);
    let mut qp = QueuePair::new(config);
    let setup = Setup::new(Service::Rc);
    for to in [State::Init, State::Rtr] {
        qp.modify(&step(&setup, Service::Rc, 18, to), &mut host)
            .expect("forward");
    }
    host.receives.push_back(Receive::default());
    qp.fatal(&mut host);
    qp.fatal(&mut host);
    assert_eq!(host.events, [Event::QpFatal, Event::LastWqeReached]);
    assert_eq!((host.receives.len(), host.completions.len()), (1, 0));
}

#[test]
fn the_first_packet_reports_the_connection() {
    let setup = Setup::new(Service::Rc);
    let mut world = world(&setup);
    let end = &mut world.ends[1];
    end.qp = QueuePair::new(*end.qp.config());
    for to in [State::Init, State::Rtr] {
        let modify = step(&setup, Service::Rc, 17, to);
        end.qp.modify(&modify, &mut end.host).expect("forward");
    }
    world.post(0, wr(1, Request::Write(remote(TO)), FROM, 2000));
    world.rest();
    assert_eq!(world.ends[1].host.events, [Event::CommEst]);
    assert_eq!(world.statuses(0), [(1, Status::Success)]);
}

#[test]
fn a_use_on_the_fast_path_reports_the_connection_once() {
    let setup = Setup::new(Service::Rc);
    let mut world = world(&setup);
    let end = &mut world.ends[1];
    end.qp.used(&mut end.host);
    assert_eq!(end.host.events, [], "in RTS no event is reported");
    end.qp = QueuePair::new(*end.qp.config());
    for to in [State::Init, State::Rtr] {
        let modify = step(&setup, Service::Rc, 17, to);
        end.qp.modify(&modify, &mut end.host).expect("forward");
    }
    assert!(end.qp.awaits_use());
    end.qp.used(&mut end.host);
    end.qp.used(&mut end.host);
    assert!(!end.qp.awaits_use());
    world.post(0, wr(1, Request::Write(remote(TO)), FROM, 2000));
    world.rest();
    assert_eq!(world.ends[1].host.events, [Event::CommEst]);
}

#[test]
fn requests_that_were_promised_outlive_a_failure() {
    let mut world = world(&Setup::new(Service::Rc));
    world.ends[1].qp.keep_receives();
    for id in [100, 101] {
        world.post_receive(1, id, TO, 8);
    }
    let end = &mut world.ends[1];
    end.qp.fatal(&mut end.host);
    assert_eq!(end.qp.state(), State::Error);
    assert!(end.qp.may_receive_on_fast_path());
    // The host fills the first by the fast path.
    end.host.receives.pop_front();
    world.post_receive(1, 102, TO, 8);
    assert_eq!(world.statuses(1), []);
    let end = &mut world.ends[1];
    end.qp.release_receives(&mut end.host);
    assert!(!end.qp.may_receive_on_fast_path() && !end.qp.keeps_receives());
    let flushed = Status::WrFlush;
    assert_eq!(world.statuses(1), [(101, flushed), (102, flushed)]);
    world.post_receive(1, 103, TO, 8);
    assert_eq!(world.completion(1, 2).status, flushed);
}

#[test]
fn fences_wait_for_reads() {
    let mut world = world(&Setup::new(Service::Rc));
    world.post_receive(1, 100, TO + 9000, 512);
    world.post(0, wr(1, Request::Read(remote(TO)), FROM, 512));
    world.post(
        0,
        WorkRequest {
            fence: true,
            ..wr(2, Request::Send, FROM, 512)
        },
    );
    world.rest();
    // The send contains the data of the read.
    assert!(world.same((1, TO), (1, TO + 9000), 512));
}

/// The peer answers as fast as it can, and packets that overflow the queues of the path are lost.
#[test]
fn reads_ask_for_no_more_than_the_way_holds() {
    let mut world = world(&Setup {
        reads: 16,
        ..Setup::new(Service::Rc)
    });
    let length = 64 * 256;
    for id in 0..16 {
        world.post(0, wr(id, Request::Read(remote(TO)), FROM, length));
    }
    let end = &mut world.ends[0];
    let mut asked = Vec::new();
    while let Some(outgoing) = end.qp.transmit(world.now, &mut end.host) {
        asked.push(outgoing.headers.reth.expect("RETH").length);
    }
    assert_eq!(asked, [length; 4]);
    world.rest();
    assert_eq!(
        world.statuses(0),
        (0..16).map(|id| (id, Status::Success)).collect::<Vec<_>>()
    );
    assert!(world.same((1, TO), (0, FROM), length));
}

#[test]
fn one_read_may_ask_for_more() {
    let mut world = world(&Setup {
        reads: 16,
        ..Setup::new(Service::Rc)
    });
    let length = 1000 * 256;
    for id in 0..2 {
        world.post(0, wr(id, Request::Read(remote(TO)), FROM, length));
    }
    world.rest();
    assert_eq!(
        world.statuses(0),
        [(0, Status::Success), (1, Status::Success)]
    );
    assert!(world.same((1, TO), (0, FROM), length));
}

#[test]
fn no_reads_where_none_are_allowed() {
    let mut world = world(&Setup {
        reads: 0,
        ..Setup::new(Service::Rc)
    });
    world.post(0, wr(1, Request::Read(remote(TO)), FROM, 5));
    world.post(0, wr(2, Request::Write(remote(TO)), FROM, 5));
    world.rest();
    // The requester asks all the same, as a ConnectX card does; the responder serves none.
    failed(&world, Status::RemInvReq);
    assert_eq!(world.statuses(0).len(), 2);
}

#[test]
fn a_requester_may_always_have_one_read_under_way() {
    let mut world = world(&Setup::new(Service::Rc));
    let none = Setup {
        reads: 0,
        ..Setup::new(Service::Rc)
    };
    let peer = world.ends[1].qp.config().number;
    let end = &mut world.ends[0];
    let mut reset = step(&none, Service::Rc, peer, State::Init);
    reset.state = Some(State::Reset);
    reset.mask = Mask::STATE;
    let steps = [State::Init, State::Rtr, State::Rts].map(|to| step(&none, Service::Rc, peer, to));
    for modify in [reset].iter().chain(&steps) {
        end.qp.modify(modify, &mut end.host).expect("a way to RTS");
    }
    for id in 0..3 {
        world.post(0, wr(id, Request::Read(remote(TO)), FROM, 600));
    }
    world.rest();
    let expected: Vec<_> = (0..3).map(|id| (id, Status::Success)).collect();
    assert_eq!(world.statuses(0), expected);
    assert!(world.same((1, TO), (0, FROM), 600));
}

#[test]
fn requests_before_a_failed_one_need_no_retry() {
    let setup = Setup {
        retry_cnt: 0,
        ..Setup::new(Service::Rc)
    };
    let mut world = world(&setup);
    let bad = Data::Sges(smallvec![Sge {
        lkey: 9,
        ..sge(FROM, 8)
    }]);
    let quiet = wr(0, Request::Write(remote(TO)), FROM, 600);
    world.post(
        0,
        WorkRequest {
            signaled: false,
            ..quiet
        },
    );
    world.post(
        0,
        WorkRequest {
            data: bad,
            ..WorkRequest::new(1, Request::Send)
        },
    );
    world.rest();
    failed(&world, Status::LocProt);
    assert!(world.same((0, FROM), (1, TO), 600));
    assert_eq!(world.ends[0].qp.counters().timeouts, 0);
}

#[test]
fn one_gap_is_reported_once() {
    let mut world = world(&Setup {
        plain: true,
        ..Setup::new(Service::Rc)
    });
    world.post(0, wr(1, Request::Write(remote(TO)), FROM, 256 * 20));
    world.pump();
    let end_of_time = Time::from_nanos(u64::MAX);
    world
        .link
        .receive(end_of_time)
        .expect("the first packet, lost");
    for _ in 1..20 {
        let (to, bytes) = world.link.receive(end_of_time).expect("the others");
        world.deliver(to, &bytes);
    }
    assert_eq!(world.ends[1].qp.counters().naks_sent, 1);
    world.rest();
    assert_eq!(world.statuses(0), [(1, Status::Success)]);
    assert!(world.same((0, FROM), (1, TO), 256 * 20));
    assert_eq!(world.ends[0].qp.counters().timeouts, 0);
}

/// An acknowledgement as the peer of end 0 could make it.
pub(super) fn answer(psn: Psn, syndrome: Syndrome) -> Vec<u8> {
    let opcode = Opcode::new(Transport::Rc, Operation::Acknowledge).expect("RC has it");
    let bth = Bth {
        pkey: 0xffff,
        destination: 17,
        psn,
        ..Bth::default()
    };
    let mut headers = Headers::new(opcode, bth);
    headers.aeth = Some(Aeth {
        syndrome: syndrome.byte(),
        msn: 0,
    });
    seal(headers.emit().as_slice().to_vec(), 1)
}

#[test]
fn unsolicited_answers_change_nothing() {
    let setup = Setup {
        retry_cnt: 0,
        ..Setup::new(Service::Rc)
    };
    let mut world = world(&setup);
    world.post(0, wr(1, Request::Write(remote(TO)), FROM, 600));
    world.pump();
    let (first, after) = (setup.psn, setup.psn.plus(3));
    let syndromes = [
        Syndrome::Ack(None),
        Syndrome::Nak(Nak::Sequence),
        Syndrome::Nak(Nak::RemoteAccess),
        Syndrome::Rnr(RnrTimer::new(1).expect("a code")),
    ];
    for psn in [first.previous(), first.minus(1000), after, after.plus(1000)] {
        for syndrome in syndromes {
            world.deliver(0, &answer(psn, syndrome));
            assert_eq!(world.ends[0].host.completions, []);
            assert_eq!(world.ends[0].qp.state(), State::Rts);
            assert_eq!(world.ends[0].qp.counters().retries, 0);
        }
    }
    world.rest();
    assert_eq!(world.statuses(0), [(1, Status::Success)]);
    // A finished request is not finished again.
    world.deliver(0, &answer(first, Syndrome::Ack(None)));
    world.deliver(0, &answer(first, Syndrome::Nak(Nak::RemoteAccess)));
    assert_eq!(world.statuses(0), [(1, Status::Success)]);
    assert_eq!(world.ends[0].qp.state(), State::Rts);
}

#[test]
fn a_sender_that_is_late_with_the_time_spends_no_retries() {
    let mut world = world(&Setup::new(Service::Rc));
    world.link.deaf = [true; 2];
    let begun = world.now;
    world.post(0, wr(1, Request::Write(remote(64)), 0, 8));
    world.pump();
    // While one thread finds a deadline passed, another sends with the time at which it began.
    let mut now = begun;
    for _ in 0..20 {
        let end = &mut world.ends[0];
        now = now.max(end.qp.deadline().expect("under way"));
        end.qp.on_time(now, &mut end.host);
        while end.qp.transmit(begun, &mut end.host).is_some() {}
        if world.ends[0].qp.state() == State::Error {
            break;
        }
    }
    assert_eq!(world.statuses(0), [(1, Status::RetryExc)]);
    let once = AckTimeout::new(6)
        .and_then(AckTimeout::nanos)
        .expect("short");
    // The first packet and seven retries.
    assert_eq!(now, begun.plus(8 * once));
}

/// Time until end 0 gives up, which cannot send at all; its way had room for others in these turns.
fn gives_up_without_room(had_room: &[u32]) -> u64 {
    let mut world = world(&Setup::new(Service::Rc));
    world.post(0, wr(1, Request::Send, FROM, 8));
    world.post(0, wr(2, Request::Write(remote(TO)), FROM, 8));
    let (begin, end) = (world.now, &mut world.ends[0]);
    let mut now = begin;
    for turn in 0.. {
        end.qp.wait_for_room(now);
        let Some(deadline) = end.qp.deadline() else {
            break;
        };
        now = deadline;
        if had_room.contains(&turn) {
            end.qp.postpone(now);
        }
        end.qp.on_time(now, &mut end.host);
    }
    failed(&world, Status::RetryExc);
    now.nanos() - begin.nanos()
}

#[test]
fn a_way_without_room_uses_the_retries_up() {
    let timeout = 4096 << 6;
    assert_eq!(gives_up_without_room(&[]), 8 * timeout);
    // The peer is there, and has taken something meanwhile.
    assert_eq!(gives_up_without_room(&[0, 3, 4]), 11 * timeout);
}

#[test]
fn nothing_waits_for_room_that_has_nothing_to_send() {
    let mut world = world(&Setup::new(Service::Rc));
    let end = &mut world.ends[0];
    end.qp.wait_for_room(world.now);
    assert_eq!(end.qp.deadline(), None);
}
