//! Acknowledgements that wait for a request to go with.

use super::*;
use crate::wire::Operation;

/// Two ends that have taken turns once: the next message of end 0 is one that end 1 answers.
fn talking(setup: &Setup) -> World {
    let mut world = world(setup);
    for side in [0, 1] {
        send_message(&mut world, side);
        sent(&mut world, side);
        arrive(&mut world);
        // A wait in vain would have the next ones not wait.
        world.ends[1 - side].qp.hurry();
        world.rest();
    }
    world
}

/// All completions of an end are successes.
fn assert_success(world: &World, side: usize) {
    let statuses = world.statuses(side);
    let mut statuses = statuses.iter().map(|(_, status)| *status);
    assert!(statuses.all(|status| status == Status::Success));
}

/// Two ends of which each takes the other for one of another make.
fn delaying() -> Setup {
    Setup {
        plain: true,
        ..of_one_make()
    }
}

fn of_one_make() -> Setup {
    Setup {
        delays: true,
        ..Setup::new(Service::Rc)
    }
}

fn send_message(world: &mut World, side: usize) {
    send_long(world, side, 8);
}

fn send_long(world: &mut World, side: usize, length: u32) {
    let number = world.ends[side].host.completions.len() as u64;
    let mut wr = wr(number, Request::Write(remote(512)), 0, length);
    wr.signaled = true;
    world.post(side, wr);
}

/// The packets that an end sends now.
fn sent(world: &mut World, side: usize) -> Vec<Operation> {
    let mut operations = Vec::new();
    loop {
        let end = &mut world.ends[side];
        let Some(outgoing) = end.qp.transmit(world.now, &mut end.host) else {
            return operations;
        };
        operations.push(outgoing.headers.opcode.operation());
        let bytes = bytes_of(&outgoing, &end.host, side).expect("readable");
        world.link.send(world.now, 1 - side, bytes);
    }
}

/// Delivers the packets in flight.
fn arrive(world: &mut World) {
    world.now = world.link.next_arrival().expect("on the way");
    while let Some((to, bytes)) = world.link.receive(world.now) {
        world.deliver(to, &bytes);
    }
}

/// A world in which end 0 has sent a message that end 1 has received.
fn after_a_message(setup: &Setup) -> World {
    let mut world = talking(setup);
    send_message(&mut world, 0);
    assert_eq!(sent(&mut world, 0), [Operation::WriteOnly]);
    arrive(&mut world);
    world
}

#[test]
fn an_acknowledgement_goes_behind_the_answer() {
    let mut world = after_a_message(&delaying());
    for turn in 0..10 {
        let side = (turn + 1) % 2;
        assert_eq!(sent(&mut world, side), []);
        send_message(&mut world, side);
        let both = [Operation::WriteOnly, Operation::Acknowledge];
        assert_eq!(sent(&mut world, side), both);
        arrive(&mut world);
        assert_eq!(world.ends[1 - side].qp.outstanding(), 0);
    }
    world.rest();
    assert_success(&world, 0);
    let [left, right] = &world.ends;
    assert_eq!(left.qp.counters().duplicates, 0);
    assert_eq!(right.qp.counters().duplicates, 0);
}

#[test]
fn between_ends_of_one_make_it_goes_inside_the_answer() {
    let mut world = after_a_message(&of_one_make());
    for turn in 0..10 {
        let side = (turn + 1) % 2;
        assert_eq!(sent(&mut world, side), []);
        send_message(&mut world, side);
        assert_eq!(sent(&mut world, side), [Operation::WriteOnly]);
        arrive(&mut world);
        assert_eq!(world.ends[1 - side].qp.outstanding(), 0);
    }
    world.rest();
    for (side, end) in world.ends.iter().enumerate() {
        assert_success(&world, side);
        assert_eq!(end.qp.counters().duplicates, 0);
    }
}

/// Both sides send at the same time, now one first and now the other, so that a message arrives
/// before or after the own one has left.
#[test]
fn in_an_exchange_it_goes_inside_the_next_message() {
    let mut world = talking(&of_one_make());
    let mut alone = [0, 0];
    for first in [1, 0, 0, 1, 1, 1, 0, 1, 0, 0, 1, 0] {
        for side in [first, 1 - first] {
            send_message(&mut world, side);
            assert_eq!(sent(&mut world, side), [Operation::WriteOnly]);
            arrive(&mut world);
            let answers = sent(&mut world, 1 - side);
            alone[1 - side] += answers.len();
            if !answers.is_empty() {
                arrive(&mut world);
            }
        }
    }
    // At most one for each side, until it is ahead.
    assert!(alone.iter().all(|alone| *alone <= 1), "{alone:?}");
    world.rest();
    for (side, end) in world.ends.iter().enumerate() {
        assert_eq!(end.qp.outstanding(), 0);
        assert_success(&world, side);
    }
}

/// A message that arrives while an acknowledgement waits does not prolong that.
#[test]
fn one_acknowledgement_is_enough_for_two_messages_and_does_not_wait_longer() {
    let mut world = talking(&of_one_make());
    for _ in 0..2 {
        send_message(&mut world, 1);
        world.rest();
    }
    assert_eq!(world.ends[1].qp.deadline(), None);
    send_message(&mut world, 0);
    sent(&mut world, 0);
    arrive(&mut world);
    let due = world.ends[1].qp.deadline().expect("a deadline");
    world.now = world.now.plus(10_000);
    send_message(&mut world, 0);
    sent(&mut world, 0);
    arrive(&mut world);
    assert_eq!(sent(&mut world, 1), []);
    assert_eq!(world.ends[1].qp.deadline(), Some(due));
    send_message(&mut world, 1);
    assert_eq!(sent(&mut world, 1), [Operation::WriteOnly]);
    arrive(&mut world);
    assert_eq!(world.ends[0].qp.outstanding(), 0);
}

#[test]
fn an_answer_without_room_for_it_is_followed_by_it() {
    for (length, room) in [(248, true), (249, false), (256, false)] {
        let mut world = after_a_message(&of_one_make());
        send_long(&mut world, 1, length);
        let both = [Operation::WriteOnly, Operation::Acknowledge];
        let expected = if room { &both[..1] } else { &both[..] };
        assert_eq!(sent(&mut world, 1), expected, "{length}");
        arrive(&mut world);
        assert_eq!(world.ends[0].qp.outstanding(), 0);
    }
}

/// Messages of several packets, to ends without receive requests: none of the packets but the last
/// is acknowledged, so that the acknowledgement waits for the answer.
#[test]
fn long_messages_take_turns_as_short_ones_do() {
    let mut world = talking(&Setup {
        credits: true,
        ..of_one_make()
    });
    let message = [
        Operation::WriteFirst,
        Operation::WriteMiddle,
        Operation::WriteLast,
    ];
    send_long(&mut world, 0, 768);
    assert_eq!(sent(&mut world, 0), message);
    while world.link.next_arrival().is_some() {
        arrive(&mut world);
    }
    for turn in 0..6 {
        let side = (turn + 1) % 2;
        assert_eq!(sent(&mut world, side), [], "turn {turn}");
        send_long(&mut world, side, 768);
        let packets = sent(&mut world, side);
        assert_eq!(packets[..3], message);
        assert_eq!(packets[3..], [Operation::Acknowledge]);
        while world.link.next_arrival().is_some() {
            arrive(&mut world);
        }
        assert_eq!(world.ends[1 - side].qp.outstanding(), 0);
    }
}

/// The sender may wait for it before the rest of the message.
#[test]
fn the_middle_of_a_message_is_acknowledged_at_once() {
    let mut world = talking(&of_one_make());
    send_long(&mut world, 0, 40 * 256);
    for _ in 0..20 {
        let end = &mut world.ends[0];
        let outgoing = end.qp.transmit(world.now, &mut end.host).expect("a packet");
        let bytes = bytes_of(&outgoing, &end.host, 0).expect("readable");
        world.link.send(world.now, 1, bytes);
    }
    while world.link.next_arrival().is_some() {
        arrive(&mut world);
    }
    assert_eq!(sent(&mut world, 1), [Operation::Acknowledge]);
}

#[test]
fn both_messages_complete_if_an_answer_with_it_inside_is_lost() {
    let mut world = after_a_message(&of_one_make());
    send_message(&mut world, 1);
    let end = &mut world.ends[1];
    let lost = end.qp.transmit(world.now, &mut end.host).expect("a packet");
    assert!(lost.headers.piggyback.is_some());
    assert_eq!(sent(&mut world, 1), []);
    world.rest();
    for side in [0, 1] {
        assert_eq!(world.statuses(side).len(), 2);
        assert_success(&world, side);
    }
}

#[test]
fn a_negative_answer_does_not_go_inside() {
    let mut world = talking(&of_one_make());
    // A SEND without a receive request.
    let mut wr = wr(50, Request::Send, 0, 8);
    wr.signaled = true;
    world.post(0, wr);
    assert_eq!(sent(&mut world, 0), [Operation::SendOnly]);
    arrive(&mut world);
    send_message(&mut world, 1);
    let packets = sent(&mut world, 1);
    assert!(packets.contains(&Operation::Acknowledge), "{packets:?}");
}

#[test]
fn without_an_answer_it_goes_alone_and_the_next_do_not_wait() {
    let mut world = after_a_message(&delaying());
    let due = world.ends[1].qp.deadline().expect("a deadline");
    assert_eq!(due, world.now.plus(100_000));
    world.now = due;
    let end = &mut world.ends[1];
    end.qp.on_time(due, &mut end.host);
    assert_eq!(sent(&mut world, 1), [Operation::Acknowledge]);
    arrive(&mut world);
    // One does not, then the next waits in vain, two do not, and so on.
    for at_once in [1, 2, 4, 8, 16, 16] {
        for _ in 0..at_once {
            turn(&mut world);
            assert_eq!(sent(&mut world, 1), [Operation::Acknowledge]);
            arrive(&mut world);
        }
        turn(&mut world);
        in_vain(&mut world);
    }
    for _ in 0..16 {
        turn(&mut world);
        assert_eq!(sent(&mut world, 1), [Operation::Acknowledge]);
        arrive(&mut world);
    }
    // One that has not waited in vain makes up for all.
    turn(&mut world);
    send_message(&mut world, 1);
    let both = [Operation::WriteOnly, Operation::Acknowledge];
    assert_eq!(sent(&mut world, 1), both);
    arrive(&mut world);
    world.rest();
    send_message(&mut world, 0);
    sent(&mut world, 0);
    arrive(&mut world);
    in_vain(&mut world);
    turn(&mut world);
    assert_eq!(sent(&mut world, 1), [Operation::Acknowledge]);
    arrive(&mut world);
    turn(&mut world);
    assert_eq!(sent(&mut world, 1), []);
}

/// End 1 sends a message, all is acknowledged, and end 0 sends a message that end 1 receives.
fn turn(world: &mut World) {
    send_message(world, 1);
    world.rest();
    send_message(world, 0);
    assert_eq!(sent(world, 0), [Operation::WriteOnly]);
    arrive(world);
}

/// End 1 has an acknowledgement that waits, and in vain.
fn in_vain(world: &mut World) {
    assert_eq!(sent(world, 1), []);
    world.now = world.ends[1].qp.deadline().expect("a deadline");
    let end = &mut world.ends[1];
    end.qp.on_time(world.now, &mut end.host);
    assert_eq!(sent(world, 1), [Operation::Acknowledge]);
    arrive(world);
}

#[test]
fn a_carrier_that_is_late_sends_it_when_its_time_has_passed() {
    let mut world = after_a_message(&delaying());
    world.now = world.now.plus(100_000);
    assert_eq!(sent(&mut world, 1), [Operation::Acknowledge]);
}

#[test]
fn it_follows_an_answer_that_is_late_without_a_check_meanwhile() {
    let mut world = after_a_message(&delaying());
    world.now = world.now.plus(300_000);
    send_message(&mut world, 1);
    let both = [Operation::WriteOnly, Operation::Acknowledge];
    assert_eq!(sent(&mut world, 1), both);
}

#[test]
fn it_does_not_wait_for_absent_answers() {
    let mut world = after_a_message(&delaying());
    assert!(world.ends[1].qp.hurry());
    assert!(!world.ends[1].qp.hurry());
    assert_eq!(sent(&mut world, 1), [Operation::Acknowledge]);

    // Nor where it is not this side's turn.
    let mut world = world_where_one_speaks();
    assert_eq!(sent(&mut world, 1), [Operation::Acknowledge]);

    // Nor if the timeout is short, or delayed acknowledgements are off.
    for setup in [Setup::new(Service::Rc), delaying()] {
        let mut world = talking(&setup);
        world.ends[1].qp.delay_acknowledgements(!setup.delays);
        send_message(&mut world, 0);
        sent(&mut world, 0);
        arrive(&mut world);
        assert_eq!(sent(&mut world, 1), [Operation::Acknowledge]);
    }
}

/// End 0 sends for the second time in a row.
fn world_where_one_speaks() -> World {
    let mut world = talking(&delaying());
    for _ in 0..2 {
        send_message(&mut world, 0);
        world.rest();
    }
    send_message(&mut world, 0);
    sent(&mut world, 0);
    arrive(&mut world);
    world
}

#[test]
fn a_second_message_is_acknowledged_at_once() {
    let mut world = after_a_message(&delaying());
    send_message(&mut world, 0);
    sent(&mut world, 0);
    arrive(&mut world);
    assert_eq!(sent(&mut world, 1), [Operation::Acknowledge]);
    arrive(&mut world);
    assert_eq!(world.ends[0].qp.outstanding(), 0);
}

#[test]
fn a_side_with_requests_under_way_does_not_wait() {
    let mut world = talking(&delaying());
    for side in [0, 1, 0, 1] {
        send_message(&mut world, side);
        sent(&mut world, side);
    }
    arrive(&mut world);
    // Each has received the other's, and waits for its own acknowledgement.
    assert_eq!(sent(&mut world, 0), [Operation::Acknowledge]);
    assert_eq!(sent(&mut world, 1), [Operation::Acknowledge]);
}

#[test]
fn an_error_reports_all_at_once() {
    let mut world = after_a_message(&delaying());
    let mut wr = wr(77, Request::Write(remote(u64::MAX / 2)), 0, 8);
    wr.signaled = true;
    world.post(0, wr);
    world.rest();
    let last = world.completion(0, world.ends[0].host.completions.len() - 1);
    assert_eq!((last.id, last.status), (77, Status::RemAccess));
    let before = world.completion(0, world.ends[0].host.completions.len() - 2);
    assert_eq!(before.status, Status::Success);
}
