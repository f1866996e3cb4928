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
    let has = |world: &World, number: usize, event| {
        world.events[number].iter().any(|(_, had)| *had == event)
    };
    let mut step = |world: &mut World| {
        assert!(world.step());
        for (number, seen) in seen.iter_mut().enumerate() {
            react(world, number, program, seen);
        }
    };
    while !(0..2).all(|number| has(&world, number, Event::Established)) {
        step(&mut world);
    }
    let opened = world.now;
    let (active, now) = (world.events[0][0].0, world.now);
    world.agent(0).disconnect(active, now).unwrap();
    world.take();
    while !has(&world, 0, Event::Disconnected { answered: true }) {
        step(&mut world);
    }
    (opened, world.now)
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

/// Resolves a service whose program answers after a time, while the network loses one message.
/// Returns when the answer came. The program is asked once.
fn resolved(drops: u64, answers_after: u64) -> u64 {
    let mut world = World::new(1, CLEAR);
    world.drops = drops;
    assert!(world.agent(1).listen(SERVICE, 4, 0));
    let ask = SidrReq {
        service_id: SERVICE,
        ..SidrReq::default()
    };
    world.agent(0).resolve(1, &ask, 3, 0).unwrap();
    world.take();
    while world.events[1].is_empty() {
        assert!(world.step());
    }
    let due = world.now + answers_after;
    while world.agent(0).deadline().is_some_and(|next| next < due) || !world.flying.is_empty() {
        assert!(world.step());
    }
    world.now = due;
    let (id, _) = world.events[1][0];
    let answer = Answer {
        qpn: 17,
        ..Answer::rejected()
    };
    world.agent(1).answer(id, &answer, due).unwrap();
    world.take();
    while world.events[0].is_empty() {
        assert!(world.step());
    }
    let answered = world.now;
    world.run();
    assert_eq!(world.events[1].len(), 1, "the program was asked once");
    assert_eq!(world.events[0].len(), 1, "{:?}", world.events[0]);
    answered
}

#[test]
fn a_lost_message_of_a_resolution_is_repeated_early() {
    assert_eq!(resolved(0, 0), 2);
    // The SIDR REQ, and the SIDR REP.
    assert_eq!(resolved(1, 0), 2 + EARLY);
    assert_eq!(resolved(2, 0), 2 + EARLY);
    // A slow program: requests that come meanwhile are not answered twice.
    assert_eq!(resolved(0, 3 * EARLY), 2 + 3 * EARLY);
}

/// Answers are kept for a while, and not more than so many.
#[test]
fn a_request_gets_the_answer_that_it_got() {
    let mut agent = Agent::<usize>::new(SETTINGS);
    assert!(agent.listen(SERVICE, 4, 0));
    let ask = |request_id| Mad {
        transaction: 9,
        modifier: 0,
        message: SidrReq {
            request_id,
            service_id: SERVICE,
            ..SidrReq::default()
        }
        .into(),
    };
    // Returns the id of a request that the program sees, or the number of an answer.
    let receive = |agent: &mut Agent<usize>, number: u32, now| {
        let mad = ask(number);
        agent.receive(3, &mad, owner(&mad), now);
        match agent.poll() {
            Some(Output::Report { id, .. }) => Ok(id),
            Some(Output::Send { to: 3, mad }) => match mad.message {
                Message::SidrRep(rep) => Err(rep.qpn),
                message => panic!("{}", message.name()),
            },
            other => panic!("{other:?}"),
        }
    };
    for number in 0..100 {
        let id = receive(&mut agent, number, 0).unwrap();
        let answer = Answer {
            qpn: 1000 + number,
            ..Answer::rejected()
        };
        agent.answer(id, &answer, 0).unwrap();
        while agent.poll().is_some() {}
    }
    assert_eq!(receive(&mut agent, 99, 5000), Err(1099));
    assert_eq!(receive(&mut agent, 36, 5000), Err(1036));
    // The 64 last ones are kept, for ten seconds.
    assert!(receive(&mut agent, 35, 5000).is_ok());
    assert!(receive(&mut agent, 99, 10_000).is_ok());
    // Another sender has other requests.
    let mad = ask(98);
    agent.receive(4, &mad, owner(&mad), 5000);
    assert!(matches!(agent.poll(), Some(Output::Report { .. })));
}
