//! Early repetitions: one lost message does not delay a connection by seconds.

use super::*;
use crate::times::EARLY;

/// Makes a connection and ends it, between programs that answer at once, while the network loses
/// one message. Returns when it was open on both sides, and when it was at its end.
fn made_and_ended(drops: u64) -> (u64, u64) {
    let mut world = World::new(1, CLEAR);
    world.drops = drops;
    assert!(world.agent(1).listen(SERVICE, 4, 0));
    world.connect(20);
    let program = Program {
        accepts: true,
        ends: false,
    };
    let mut seen = [0; 2];
    let mut run = |world: &mut World, until: &dyn Fn(&[Vec<(Id, Event)>; 2]) -> bool| {
        while !until(&world.events) {
            assert!(world.step());
            for number in 0..2 {
                react(world, number, program, &mut seen[number]);
            }
        }
        world.now
    };
    let has = |events: &Vec<(Id, Event)>, event| events.iter().any(|(_, had)| *had == event);
    let opened = run(&mut world, &|events| {
        events.iter().all(|of| has(of, Event::Established))
    });
    let (active, now) = (world.events[0][0].0, world.now);
    world.agent(0).disconnect(active, now).unwrap();
    world.take();
    let ended = run(&mut world, &|events| {
        has(&events[0], Event::Disconnected { answered: true })
    });
    (opened, ended)
}

#[test]
fn a_lost_message_is_repeated_early() {
    assert_eq!(made_and_ended(0), (3, 5));
    for lost in ["REQ", "REP", "RTU"].iter().zip(1..) {
        assert_eq!(made_and_ended(lost.1), (3 + EARLY, 5 + EARLY), "{}", lost.0);
    }
    // The REP that is repeated because the RTU was lost is answered by another RTU.
    for lost in ["DREQ", "DREP"].iter().zip(4..) {
        assert_eq!(made_and_ended(lost.1), (3, 5 + EARLY), "{}", lost.0);
    }
}

#[test]
fn repetitions_come_at_doubled_distances() {
    let mut world = World::new(1, CLEAR);
    world.agents[1] = None;
    world.connect(20);
    let mut times = Vec::new();
    while world.names.len() < 7 {
        let before = world.names.len();
        assert!(world.step());
        if world.names.len() > before {
            times.push(world.now / EARLY);
        }
    }
    let interval = SETTINGS.times.answer(20) / EARLY;
    assert_eq!(times, [1, 3, 7, 15, interval, 2 * interval]);
}

/// An MRA that answers an early repetition does not lengthen the wait: the RTU may still get lost.
#[test]
fn an_mra_in_the_first_interval_leaves_the_next_repetition_where_it_was() {
    let mut world = World::new(1, CLEAR);
    assert!(world.agent(1).listen(SERVICE, 4, 0));
    let active = world.connect(20);
    while world.events[1].is_empty() {
        assert!(world.step());
    }
    let (passive, accepted) = (world.requested(), world.now);
    world
        .agent(1)
        .accept(passive, &reply(30), accepted)
        .unwrap();
    world.take();
    // The active program is slow, so that the REP comes twice.
    while !world.names.contains(&"MRA") {
        assert!(world.step());
    }
    world.drops = world.sent + 1;
    world.agent(0).establish(active).unwrap();
    world.take();
    assert_eq!(world.names, ["REQ", "REP", "REP", "MRA", "RTU"]);
    while world.agent(1).state(passive) != Some(State::Established) {
        assert!(world.step());
    }
    let interval = crate::times::milliseconds(20);
    assert_eq!(world.now, accepted + interval + 2);
}
