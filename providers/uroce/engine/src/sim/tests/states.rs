//! Each operation once, on a good link; states.

use super::*;
use crate::qp::Refused;
use crate::wire::{ImmDt, feth};
use crate::work::{CompletionOpcode, Network};
use smallvec::smallvec;

const FROM: u64 = 0;
const TO: u64 = 0x40000;

#[test]
fn sends_of_every_kind_arrive() {
    let mut world = world(&Setup::new(Service::Rc));
    for id in 0..4 {
        world.post_receive(1, 100 + id, TO + id * 4096, 4096);
    }
    let region = world.ends[1].host.keys[&ALL];
    world.ends[1].host.keys.insert(7, region);
    world.post(0, wr(1, Request::Send, FROM, 0));
    world.post(0, wr(2, Request::Send, FROM, 4096));
    let immediate = Request::SendImm(ImmDt { data: 0xfeed });
    world.post(
        0,
        WorkRequest {
            solicited: true,
            ..wr(3, immediate, FROM, 777)
        },
    );
    world.post(0, wr(4, Request::SendInvalidate(7), FROM + 9, 257));
    world.rest();
    let ok = Status::Success;
    assert_eq!(world.statuses(0), [(1, ok), (2, ok), (3, ok), (4, ok)]);
    assert_eq!(
        world.statuses(1),
        [(100, ok), (101, ok), (102, ok), (103, ok)]
    );
    assert!(world.same((0, FROM), (1, TO + 4096), 4096));
    assert!(world.same((0, FROM), (1, TO + 2 * 4096), 777));
    assert!(world.same((0, FROM + 9), (1, TO + 3 * 4096), 257));
    let third = world.completion(1, 2);
    assert_eq!(
        (third.length, third.immediate),
        (777, Some(ImmDt { data: 0xfeed }))
    );
    assert!(third.solicited && !world.completion(1, 1).solicited);
    assert_eq!(world.completion(1, 3).invalidated, Some(7));
    assert!(!world.ends[1].host.keys.contains_key(&7));
    assert_eq!(world.ends[0].qp.counters().retries, 0);
}

#[test]
fn one_sided_operations() {
    let mut world = world(&Setup::new(Service::Rc));
    world.post_receive(1, 100, TO, 0);
    world.post(0, wr(1, Request::Write(remote(TO)), FROM, 1000));
    world.post(0, wr(2, Request::Read(remote(TO + 5000)), 5000, 3001));
    let immediate = Request::WriteImm(remote(TO + 2000), ImmDt { data: 5 });
    world.post(0, wr(3, immediate, FROM, 600));
    let at = remote(TO + 16384);
    world.ends[1].host.memory[0x44000..0x44008].copy_from_slice(&40u64.to_ne_bytes());
    world.post(0, wr(4, Request::FetchAdd { remote: at, add: 2 }, 9000, 8));
    let swap = Request::CompareSwap {
        remote: at,
        compare: 42,
        swap: 7,
    };
    world.post(0, wr(5, swap, 9008, 8));
    world.post(
        0,
        WorkRequest::new(6, Request::AtomicWrite(remote(TO + 16392), *b"atomicwr")),
    );
    let flush = Request::Flush {
        remote: remote(TO),
        length: 10,
        placement: feth::GLOBAL,
        selectivity: feth::RANGE,
    };
    world.post(0, WorkRequest::new(7, flush));
    world.post(0, WorkRequest::new(8, Request::Bind(77)));
    world.rest();
    let all: Vec<(u64, Status)> = (1..=8).map(|id| (id, Status::Success)).collect();
    assert_eq!(world.statuses(0), all);
    assert!(world.same((0, FROM), (1, TO), 1000));
    assert!(world.same((0, 5000), (1, TO + 5000), 3001));
    assert!(world.same((0, FROM), (1, TO + 2000), 600));
    let host = &world.ends[1].host;
    assert_eq!(
        host.bytes(BASE + TO + 16384, 8),
        Some(&7u64.to_ne_bytes()[..])
    );
    assert_eq!(host.bytes(BASE + TO + 16392, 8), Some(&b"atomicwr"[..]));
    assert_eq!(host.flushes, 1);
    let found = |offset| {
        world.ends[0]
            .host
            .bytes(BASE + offset, 8)
            .expect("in memory")
            .to_vec()
    };
    assert_eq!(found(9000), 40u64.to_ne_bytes());
    assert_eq!(found(9008), 42u64.to_ne_bytes());
    let receive = world.completion(1, 0);
    assert_eq!(receive.opcode, CompletionOpcode::ReceiveWithImm);
    assert_eq!(
        (receive.length, receive.immediate),
        (600, Some(ImmDt { data: 5 }))
    );
    assert_eq!(world.ends[0].host.bound, [77]);
}

#[test]
fn datagrams_carry_their_sender() {
    let mut world = world(&Setup::new(Service::Ud));
    world.post_receive(1, 100, TO, 40 + 200);
    let destination = Some(Destination {
        address: 3,
        qpn: 18,
        qkey: 0x1111_1111,
    });
    world.post(
        0,
        WorkRequest {
            destination,
            ..wr(1, Request::Send, FROM, 200)
        },
    );
    let wrong = Some(Destination {
        address: 3,
        qpn: 18,
        qkey: 5,
    });
    world.post(
        0,
        WorkRequest {
            destination: wrong,
            ..wr(2, Request::Send, FROM, 10)
        },
    );
    world.rest();
    assert_eq!(
        world.statuses(0),
        [(1, Status::Success), (2, Status::Success)]
    );
    let receive = world.completion(1, 0);
    assert_eq!((receive.id, receive.length, receive.source), (100, 240, 17));
    assert_eq!(receive.grh, Some(Network::Ipv6));
    assert!(world.same((0, FROM), (1, TO + 40), 200));
    assert_eq!(world.ends[1].host.completions.len(), 1);
    assert_eq!(world.ends[1].qp.counters().dropped, 1);
    let end = &mut world.ends[0];
    let long = WorkRequest {
        destination,
        ..wr(3, Request::Send, FROM, 1025)
    };
    assert_eq!(end.qp.post_send(long, &mut end.host), Err(Refused::Invalid));
}

#[test]
fn xrc_goes_to_the_queue_that_the_request_names() {
    let setup = Setup {
        service: Service::XrcInitiator,
        peer: Service::XrcTarget,
        ..Setup::new(Service::Rc)
    };
    let mut world = world(&setup);
    for queue in [5u32, 6] {
        let receive = Receive {
            id: u64::from(queue),
            sges: smallvec![sge(TO + u64::from(queue) * 4096, 4096)],
        };
        world.ends[1].host.shared.insert(queue, [receive].into());
    }
    world.post(
        0,
        WorkRequest {
            srqn: 6,
            ..wr(1, Request::Send, FROM, 900)
        },
    );
    world.post(
        0,
        WorkRequest {
            srqn: 5,
            ..wr(2, Request::Send, FROM, 3)
        },
    );
    world.post(0, wr(3, Request::Read(remote(TO)), 8192, 600));
    world.rest();
    let ok = Status::Success;
    assert_eq!(world.statuses(0), [(1, ok), (2, ok), (3, ok)]);
    assert_eq!(world.statuses(1), [(6, ok), (5, ok)]);
    assert_eq!(world.completion(1, 0).srqn, Some(6));
    assert!(world.same((0, FROM), (1, TO + 6 * 4096), 900));
    world.post(
        0,
        WorkRequest {
            srqn: 9,
            ..wr(4, Request::Send, FROM, 3)
        },
    );
    world.rest();
    assert_eq!(world.completion(0, 3).status, Status::RemInvReq);
}

#[test]
fn a_queue_that_drains_finishes_its_begun_requests() {
    let mut world = world(&Setup::new(Service::Rc));
    for id in 0..2 {
        world.post_receive(1, id, TO + id * 8192, 8192);
    }
    world.post(0, wr(1, Request::Send, FROM, 8192));
    world.pump();
    world.post(0, wr(2, Request::Send, FROM, 5));
    let end = &mut world.ends[0];
    let mut drain = Modify {
        mask: Mask::STATE.and(Mask::EN_SQD_ASYNC_NOTIFY),
        state: Some(State::Sqd),
        ..Modify::default()
    };
    drain.values.en_sqd_async_notify = true;
    end.qp.modify(&drain, &mut end.host).expect("to SQD");
    assert!(end.qp.is_draining());
    world.rest();
    assert_eq!(world.statuses(0), [(1, Status::Success)]);
    assert_eq!(world.ends[0].host.events, [Event::SqDrained]);
    assert!(!world.ends[0].qp.is_draining());
    let end = &mut world.ends[0];
    let go = Modify {
        mask: Mask::STATE,
        state: Some(State::Rts),
        ..Modify::default()
    };
    end.qp.modify(&go, &mut end.host).expect("to RTS");
    world.rest();
    assert_eq!(
        world.statuses(0),
        [(1, Status::Success), (2, Status::Success)]
    );
}

#[test]
fn every_state_refuses_its_forbidden_calls() {
    let setup = Setup::new(Service::Rc);
    let mut host = SimHost::new(1);
    let mut qp = QueuePair::new(*world(&setup).ends[0].qp.config());
    let request = || WorkRequest::new(1, Request::Send);
    assert!(!qp.may_post_receive());
    assert_eq!(qp.post_send(request(), &mut host), Err(Refused::Invalid));
    for to in [State::Init, State::Rtr, State::Rts] {
        let modify = step(&setup, Service::Rc, 18, to);
        for bit in 0..32 {
            let missing = Mask(modify.mask.0 & !(1 << bit));
            if missing != modify.mask && bit != 0 {
                let less = Modify {
                    mask: missing,
                    ..modify
                };
                assert_eq!(qp.modify(&less, &mut host), Err(Refused::Invalid));
            }
        }
        let named = Modify {
            mask: modify.mask.and(Mask::RATE_LIMIT),
            ..modify
        };
        assert_eq!(qp.modify(&named, &mut host), Err(Refused::Invalid));
        let mut wrong = modify;
        wrong.values.dest_qp_num = 1 << 24;
        if to == State::Rtr {
            assert_eq!(qp.modify(&wrong, &mut host), Err(Refused::Invalid));
        }
        assert_eq!(qp.modify(&modify, &mut host), Ok(()));
        assert_eq!(qp.state(), to);
        if to != State::Rts {
            assert_eq!(qp.post_send(request(), &mut host), Err(Refused::Invalid));
        }
    }
    for _ in 0..256 {
        assert_eq!(qp.post_send(request(), &mut host), Ok(()));
    }
    assert_eq!(qp.post_send(request(), &mut host), Err(Refused::Full));
    let error = Modify {
        mask: Mask::STATE,
        state: Some(State::Error),
        ..Modify::default()
    };
    assert_eq!(qp.modify(&error, &mut host), Ok(()));
    assert_eq!(host.completions.len(), 256);
    assert_eq!(qp.post_send(request(), &mut host), Ok(()));
    assert!(
        host.completions
            .iter()
            .all(|c| c.status == Status::WrFlush && c.solicited)
    );
    assert_eq!((host.completions.len(), qp.outstanding()), (257, 0));
}

#[test]
fn multicast_reaches_a_datagram_queue() {
    let mut world = world(&Setup::new(Service::Ud));
    world.post_receive(1, 100, TO, 40 + 1024);
    let destination = Some(Destination {
        address: 3,
        qpn: 0x00ff_ffff,
        qkey: 1 << 31,
    });
    world.post(
        0,
        WorkRequest {
            destination,
            ..wr(1, Request::Send, FROM, 1024)
        },
    );
    world.rest();
    assert_eq!(world.statuses(1), [(100, Status::Success)]);
}

#[test]
fn the_ports_mtu_is_the_limit() {
    let setup = Setup {
        mtu: Mtu::B2048,
        ..Setup::new(Service::Rc)
    };
    let mut host = SimHost::sized(1, 0);
    let mut qp = QueuePair::new(*world(&Setup::new(Service::Rc)).ends[0].qp.config());
    assert_eq!(
        qp.modify(&step(&setup, Service::Rc, 18, State::Init), &mut host),
        Ok(())
    );
    let forward = step(&setup, Service::Rc, 18, State::Rtr);
    assert_eq!(qp.modify(&forward, &mut host), Err(Refused::Invalid));
    assert_eq!(qp.state(), State::Init);
}

#[test]
fn an_idle_queue_pair_is_small() {
    assert!(size_of::<QueuePair>() <= 512, "{}", size_of::<QueuePair>());
}

#[test]
fn requests_in_flight_end_without_a_timeout_during_a_pause() {
    // One after the other is sent without asking for an acknowledgement.
    for sent in 1..40 {
        let mut world = world(&Setup::new(Service::Rc));
        let post = |world: &mut World, id: u64| {
            world.post_receive(1, id, TO, 64);
            let request = wr(id, Request::Send, FROM, 8);
            world.post(
                0,
                WorkRequest {
                    signaled: false,
                    ..request
                },
            );
        };
        for id in 0..40 {
            post(&mut world, id);
        }
        for _ in 0..sent {
            assert!(world.send_one(0));
        }
        world.ends[0].qp.pause(true);
        world.rest();
        let qp = &world.ends[0].qp;
        assert!(qp.is_idle());
        assert_eq!((qp.counters().retries, qp.counters().timeouts), (0, 0));
        assert!(qp.outstanding() > 0 || sent > 20, "{sent}");
        world.ends[0].qp.pause(false);
        world.rest();
        assert_eq!(world.statuses(1).len(), 40);
        assert_eq!(world.ends[0].qp.counters().retries, 0);
    }
}
