//! Which deadlines a queue pair has, in which state.

use super::*;
use crate::outgoing::Origin;

/// Reasons for a queue pair's wait.
#[derive(Clone, Copy, Debug)]
enum Waits {
    /// The acknowledgement of a request.
    Acknowledgement,
    /// The end of the time that a receiver without requests asked for.
    ReceiverNotReady,
    /// A request for its own acknowledgement to go with.
    Request,
}

/// How a queue pair leaves the states in which it sends.
#[derive(Clone, Copy, Debug)]
enum Leaves {
    Modified(State),
    Fatal,
    FailedOnFastPath,
    /// The memory of a request, or of an answer, went away.
    Unreadable(Origin),
    /// The other end cannot execute a request of this end.
    OwnRequest,
    /// The peer refuses its oldest request.
    Refused,
}

fn send_message(world: &mut World, side: usize) {
    let id = world.ends[side].host.completions.len() as u64;
    world.post(side, wr(id, Request::Write(remote(64)), 0, 8));
}

fn deliver_all(world: &mut World) {
    while let Some(at) = world.link.next_arrival() {
        world.now = world.now.max(at);
        while let Some((to, bytes)) = world.link.receive(world.now) {
            world.deliver(to, &bytes);
        }
    }
}

/// A connection whose end 1 waits.
fn waiting(waits: Waits) -> World {
    let mut world = world(&Setup {
        delays: matches!(waits, Waits::Request),
        sq_sig_all: true,
        ..Setup::new(Service::Rc)
    });
    match waits {
        Waits::Acknowledgement => {
            send_message(&mut world, 1);
            world.pump();
        }
        Waits::ReceiverNotReady => {
            world.post(1, wr(1, Request::Send, 0, 8));
            world.pump();
            deliver_all(&mut world);
            world.pump();
            deliver_all(&mut world);
        }
        Waits::Request => {
            for side in [0, 1] {
                send_message(&mut world, side);
                world.pump();
                deliver_all(&mut world);
                world.ends[1 - side].qp.hurry();
                world.rest();
            }
            send_message(&mut world, 0);
            world.pump();
            deliver_all(&mut world);
            world.pump();
        }
    }
    assert!(world.ends[1].qp.deadline().is_some(), "{waits:?}");
    world
}

fn leave(world: &mut World, how: Leaves) {
    let now = world.now;
    let end = &mut world.ends[1];
    match how {
        Leaves::Modified(to) => {
            let modify = Modify {
                mask: Mask::STATE,
                state: Some(to),
                ..Modify::default()
            };
            assert_eq!(end.qp.modify(&modify, &mut end.host), Ok(()));
        }
        Leaves::Fatal => end.qp.fatal(&mut end.host),
        Leaves::FailedOnFastPath => end.qp.fail_on_fast_path(&mut end.host),
        Leaves::Unreadable(origin) => end.qp.gather_failed(origin, &mut end.host),
        Leaves::OwnRequest => {
            let mut request = wr(99, Request::Write(remote(0)), 0, 8);
            request.data = Data::Sges(smallvec![Sge {
                lkey: 0xdead,
                ..sge(0, 8)
            }]);
            end.qp.post_send(request, &mut end.host).expect("posted");
            // It fails once those before it are answered.
            while end.qp.transmit(now, &mut end.host).is_some() {}
        }
        Leaves::Refused => {
            let psn = end.qp.attributes().sq_psn;
            let mut headers = crate::wire::Headers::new(
                crate::wire::Opcode::new(
                    crate::wire::Transport::Rc,
                    crate::wire::Operation::Acknowledge,
                )
                .expect("known"),
                crate::wire::Bth {
                    destination: end.qp.config().number,
                    pkey: 0xffff,
                    psn,
                    ..Default::default()
                },
            );
            headers.aeth = Some(crate::wire::Aeth {
                syndrome: crate::wire::Syndrome::Nak(crate::wire::Nak::RemoteAccess).byte(),
                msn: 0,
            });
            let packet = Packet {
                headers,
                payload: &[],
            };
            let arrival = Arrival {
                packet: &packet,
                grh: None,
            };
            end.qp.receive(now, &arrival, &mut end.host);
        }
    }
}

#[test]
fn no_deadline_outlives_the_states_that_send() {
    let psn = Psn::new(0x00ff_fff0);
    let ways = [
        Leaves::Modified(State::Error),
        Leaves::Modified(State::Reset),
        Leaves::Fatal,
        Leaves::FailedOnFastPath,
        Leaves::Unreadable(Origin::Request(psn)),
        Leaves::Unreadable(Origin::Reply(psn)),
        Leaves::OwnRequest,
        Leaves::Refused,
    ];
    for waits in [
        Waits::Acknowledgement,
        Waits::ReceiverNotReady,
        Waits::Request,
    ] {
        for how in ways {
            let mut world = waiting(waits);
            leave(&mut world, how);
            let left = world.ends[1].qp.state();
            if !left.sends() {
                assert_eq!(world.ends[1].qp.deadline(), None, "{waits:?}, {how:?}");
            }
            // A request that is refused by its peer, or not to be carried out, is not the one that
            // a side without requests under way has.
            let stays = matches!(
                (waits, how),
                (
                    Waits::Request,
                    Leaves::Refused | Leaves::Unreadable(Origin::Request(_))
                ) | (
                    Waits::Acknowledgement | Waits::ReceiverNotReady,
                    Leaves::OwnRequest
                )
            );
            assert_eq!(left.sends(), stays, "{waits:?}, {how:?}");
            // The acknowledgement that waited is still sent, but from RESET, and where a refusal of
            // an earlier request takes its place.
            let replaced = matches!(how, Leaves::Unreadable(Origin::Reply(_)));
            if matches!(waits, Waits::Request) && left == State::Error && !replaced {
                world.pump();
                deliver_all(&mut world);
                assert_eq!(world.ends[0].qp.outstanding(), 0, "{how:?}");
            }
        }
    }
}

#[test]
fn a_send_queue_in_error_has_no_deadline() {
    for service in [Service::Uc, Service::Ud] {
        let mut world = world(&Setup::new(service));
        let destination = (service == Service::Ud).then_some(Destination {
            address: 1,
            qpn: 18,
            qkey: 0x1111_1111,
        });
        let bad = smallvec![Sge {
            lkey: 0xdead,
            ..sge(0, 8)
        }];
        world.post(
            0,
            WorkRequest {
                data: Data::Sges(bad),
                destination,
                ..wr(1, Request::Send, 0, 8)
            },
        );
        world.pump();
        assert_eq!(world.ends[0].qp.state(), State::Sqe);
        assert_eq!(world.statuses(0), [(1, Status::LocProt)]);
        assert_eq!(world.ends[0].qp.deadline(), None);
    }
}

#[test]
fn draining_keeps_the_deadlines_of_begun_requests() {
    for waits in [Waits::Acknowledgement, Waits::ReceiverNotReady] {
        let mut world = waiting(waits);
        leave(&mut world, Leaves::Modified(State::Sqd));
        world.pump();
        assert!(world.ends[1].qp.deadline().is_some(), "{waits:?}");
    }
}
