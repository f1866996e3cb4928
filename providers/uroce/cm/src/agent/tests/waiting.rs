//! Requests for ports that are bound and do not listen yet.

use super::*;
use crate::times::EARLY;

/// A world in which the port is bound, and a request for it has come.
fn waiting() -> (World, Id) {
    let mut world = World::new(1, CLEAR);
    world.is_bound = true;
    let id = world.connect(20);
    assert!(world.step());
    assert_eq!(world.names, ["REQ"], "neither refused nor answered");
    (world, id)
}

#[test]
fn a_request_for_a_bound_port_waits_for_its_listener() {
    let (mut world, active) = waiting();
    world.now += EARLY - 1 - world.now;
    world.listens();
    let passive = world.requested();
    let now = world.now;
    world.agent(1).accept(passive, &reply(30), now).unwrap();
    world.take();
    while world.step() && world.events[0].is_empty() {}
    world.agent(0).establish(active).unwrap();
    world.take();
    while world.step() && world.last(1) != Event::Established {}
    assert_eq!(world.names, ["REQ", "REP", "RTU"]);
    assert_eq!(world.agent(1).deadline(), None);
}

#[test]
fn a_request_for_a_port_that_does_not_listen_in_time_is_refused() {
    let (mut world, _) = waiting();
    let came = world.now;
    world.run();
    // The REQ, its early repetitions, and the REJ.
    assert_eq!(world.names, ["REQ", "REQ", "REQ", "REQ", "REJ"]);
    assert_eq!(world.refused(), 8);
    assert_eq!(world.now, came + held::PATIENCE + 1);
    world.listens();
    assert!(world.events[1].is_empty(), "the request has not stayed");
}

#[test]
fn a_request_for_a_port_that_is_given_up_is_refused_at_once() {
    for all in [false, true] {
        let (mut world, _) = waiting();
        let now = world.now;
        match all {
            false => world.agent(1).unlisten(SERVICE, now),
            true => world.agent(1).refuse_held(now),
        }
        world.take();
        world.run();
        assert_eq!(world.refused(), 8);
        assert_eq!(world.now, now + 1);
        assert!(world.agent(1).is_empty());
    }
}

#[test]
fn a_request_of_another_owner_continues_to_wait() {
    let (mut world, _) = waiting();
    let now = world.now;
    world.agent(1).unlisten(SERVICE + 1, now);
    assert!(world.agent(1).listen(SERVICE + 2, 4, now));
    world.take();
    assert_eq!(world.names, ["REQ"]);
    world.listens();
    world.requested();
}

#[test]
fn a_client_that_gives_up_takes_its_waiting_request_with_it() {
    let (mut world, active) = waiting();
    let now = world.now;
    world.agent(0).close(active, now);
    world.take();
    let rejected = world.flying.values().next().map(|(_, _, mad)| *mad);
    let Some(Message::Rej(rej)) = rejected.map(|mad| mad.message) else {
        panic!("{rejected:?}");
    };
    assert!(world.agent(1).is_rejected_by(&rej));
    assert!(world.step());
    assert!(!world.agent(1).is_rejected_by(&rej));
    world.listens();
    assert!(world.events[1].is_empty());
    assert_eq!(world.agent(1).deadline(), None);
}

/// More requests for a bound port than may wait, each of them many times.
#[test]
fn a_flood_of_requests_for_a_bound_port_makes_nothing_beyond_the_limit() {
    let mut agent = Agent::<usize>::new(SETTINGS);
    for number in (0..1000).chain(0..1000) {
        let mut message = request(number).message;
        message.local_comm_id = number + 1;
        message.local_ca_guid = u64::from(number) + 1;
        let mad = Mad {
            transaction: 0,
            modifier: 0,
            message: message.into(),
        };
        let from = usize::try_from(number).unwrap();
        agent.receive(from, &mad, Some(Owner::Bound(SERVICE)), 0);
    }
    assert!(agent.is_empty() && agent.poll().is_none());
    assert_eq!(agent.deadline(), Some(held::PATIENCE));
    assert!(agent.listen(SERVICE, 8, 1));
    assert_eq!(agent.len(), 8, "the backlog holds for those, too");
    assert_eq!(agent.deadline(), None);
    for number in 0..1000 {
        let mad = Mad {
            transaction: 0,
            modifier: 0,
            message: SidrReq {
                request_id: number,
                ..SidrReq::default()
            }
            .into(),
        };
        agent.receive(0, &mad, Some(Owner::Bound(SERVICE)), 1);
    }
    while agent.poll().is_some() {}
    agent.refuse_held(2);
    let mut refused = 0;
    while agent.poll().is_some() {
        refused += 1;
    }
    assert_eq!(refused, held::MOST);
}
