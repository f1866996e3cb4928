//! Agents that talk to each other over a simulated network: loss, delay, doubling, and the end of
//! either side.
#![allow(clippy::unwrap_used)] // a test that cannot continue ends

mod early;
mod waiting;

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;

use super::*;
use crate::fuzz::SETTINGS;
use crate::wire::{Mra, Rtu};

const SERVICE: u64 = 0x0106_1d2f;

/// A number of a seed, for the network.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % end
    }
}

/// Faults of the network, in percent, and the maximum time of a message.
#[derive(Clone, Copy)]
struct Weather {
    lost: u64,
    doubled: u64,
    delay: u64,
}

const CLEAR: Weather = Weather {
    lost: 0,
    doubled: 0,
    delay: 1,
};

/// Two agents, named 0 and 1, and messages on the way.
struct World {
    agents: [Option<Agent<usize>>; 2],
    now: u64,
    flying: BTreeMap<(u64, u64), (usize, usize, Mad)>,
    sent: u64,
    /// The message that gets lost, counted from 1; 0 for none.
    drops: u64,
    weather: Weather,
    random: Random,
    /// The service's port is bound at agent 1, and does not listen.
    is_bound: bool,
    events: [Vec<(Id, Event)>; 2],
    names: Vec<&'static str>,
}

impl World {
    fn new(seed: u64, weather: Weather) -> Self {
        let agent = |number: u64| {
            Agent::new(Settings {
                slot: u16::try_from(number).unwrap() + 1,
                seed: 77,
                ..SETTINGS
            })
        };
        Self {
            agents: [Some(agent(0)), Some(agent(1))],
            now: 0,
            flying: BTreeMap::new(),
            sent: 0,
            drops: 0,
            weather,
            random: Random(seed),
            is_bound: false,
            events: [Vec::new(), Vec::new()],
            names: Vec::new(),
        }
    }

    fn agent(&mut self, number: usize) -> &mut Agent<usize> {
        self.agents[number].as_mut().unwrap()
    }

    fn connect(&mut self, qpn: u32) -> Id {
        let now = self.now;
        let id = self.agent(0).connect(1, &request(qpn), now).unwrap();
        self.take();
        id
    }

    /// Takes the agents' outputs.
    fn take(&mut self) {
        for number in 0..2 {
            while let Some(output) = self.agents[number].as_mut().and_then(Agent::poll) {
                match output {
                    Output::Report { id, event } => self.events[number].push((id, event)),
                    Output::Send { to, mad } => {
                        self.names.push(mad.message.name());
                        let copies = 1 + u64::from(self.random.below(100) < self.weather.doubled);
                        for _ in 0..copies {
                            self.fly(number, to, mad);
                        }
                    }
                }
            }
        }
    }

    fn fly(&mut self, from: usize, to: usize, mad: Mad) {
        self.sent += 1;
        if self.random.below(100) < self.weather.lost || self.sent == self.drops {
            return;
        }
        let arrives = self.now + 1 + self.random.below(self.weather.delay);
        self.flying.insert((arrives, self.sent), (from, to, mad));
    }

    /// Advances to the next event; false if there is none.
    fn step(&mut self) -> bool {
        let message = self.flying.keys().next().map(|(at, _)| *at);
        let deadlines = self.agents.iter().flatten().filter_map(Agent::deadline);
        let Some(next) = deadlines.chain(message).min() else {
            return false;
        };
        self.now = self.now.max(next);
        let now = self.now;
        if message == Some(next) {
            let (_, (from, to, mad)) = self.flying.pop_first().unwrap();
            let owner = match owner(&mad) {
                Some(Owner::Listens(service)) if self.is_bound => Some(Owner::Bound(service)),
                owner => owner,
            };
            if let Some(agent) = &mut self.agents[to] {
                agent.receive(from, &mad, owner, now);
            }
        }
        for agent in self.agents.iter_mut().flatten() {
            agent.on_time(now);
        }
        self.take();
        true
    }

    fn run(&mut self) {
        for _ in 0..10_000 {
            if !self.step() {
                return;
            }
        }
        panic!("the agents find no end");
    }

    fn last(&self, number: usize) -> Event {
        self.events[number].last().unwrap().1
    }

    /// The port that was bound listens.
    fn listens(&mut self) {
        self.is_bound = false;
        let now = self.now;
        assert!(self.agent(1).listen(SERVICE, 4, now));
        self.take();
    }

    /// The reason of the REJ that was the last event of agent 0.
    fn refused(&self) -> u16 {
        let Event::Rejected { reject } = self.last(0) else {
            panic!("{:?}", self.last(0));
        };
        reject.reason
    }

    fn requested(&self) -> Id {
        let requests = self.events[1].iter();
        let mut requests =
            requests.filter(|(_, event)| matches!(event, Event::ConnectRequest { .. }));
        requests.next_back().unwrap().0
    }
}

fn request(qpn: u32) -> Request {
    Request {
        message: Req {
            service_id: SERVICE,
            local_ca_guid: 100,
            local_qpn: qpn,
            starting_psn: 5,
            primary_local_ack_timeout: 17,
            ..Req::default()
        },
        options: 0,
        agent: 3,
    }
}

/// The host's choice: requests are for the listener of their service.
fn owner(mad: &Mad) -> Option<Owner> {
    match &mad.message {
        Message::Req(req) => Some(Owner::Listens(req.service_id)),
        Message::SidrReq(req) => Some(Owner::Listens(req.service_id)),
        _ => None,
    }
}

fn reply(qpn: u32) -> Reply {
    Reply {
        message: Rep {
            local_ca_guid: 101,
            local_qpn: qpn,
            starting_psn: 6,
            ..Rep::default()
        },
        options: 0,
    }
}

fn refusal() -> Reject {
    Reject {
        reason: 28,
        private_data: [9; 148],
    }
}

/// Two agents with a connection: the ids of both sides.
fn connected() -> (World, Id, Id) {
    let mut world = World::new(1, CLEAR);
    assert!(world.agent(1).listen(SERVICE, 4, 0));
    let active = world.connect(20);
    while world.step() && world.events[1].is_empty() {}
    let passive = world.requested();
    let now = world.now;
    world.agent(1).accept(passive, &reply(30), now).unwrap();
    world.take();
    while world.step() && world.events[0].is_empty() {}
    world.agent(0).establish(active).unwrap();
    world.take();
    while world.agent(1).state(passive) != Some(State::Established) && world.step() {}
    (world, active, passive)
}

#[test]
fn a_connection_is_made_and_ended() {
    let (mut world, active, passive) = connected();
    assert_eq!(world.names, ["REQ", "REP", "RTU"]);
    assert_eq!([world.last(0), world.last(1)], [Event::Established; 2]);
    let now = world.now;
    world.agent(0).disconnect(active, now).unwrap();
    world.take();
    while world.step() && world.last(1) != Event::DisconnectRequest {}
    let now = world.now;
    world.agent(1).disconnect(passive, now).unwrap();
    world.take();
    world.run();
    assert_eq!(world.names[3..], ["DREQ", "DREP"]);
    assert!(
        world.events[0]
            .iter()
            .any(|(_, event)| *event == Event::Disconnected { answered: true })
    );
    assert_eq!([world.last(0), world.last(1)], [Event::TimewaitExit; 2]);
    for (number, id) in [(0, active), (1, passive)] {
        let now = world.now;
        world.agent(number).close(id, now);
        assert!(world.agent(number).is_empty());
    }
}

#[test]
fn a_request_without_listener_is_rejected() {
    let mut world = World::new(1, CLEAR);
    let id = world.connect(20);
    world.run();
    let Event::Rejected { reject } = world.last(0) else {
        panic!("{:?}", world.last(0));
    };
    assert_eq!((reject.reason, reject.message_rejected), (8, 0));
    assert_eq!(world.agent(0).state(id), Some(State::Idle));
    assert!(world.agent(1).is_empty());
}

#[test]
fn a_request_to_no_agent_is_unreachable() {
    let mut world = World::new(1, CLEAR);
    world.agents[1] = None;
    world.connect(20);
    world.run();
    assert_eq!(world.last(0), Event::Unreachable);
    // The first, 4 early ones, and 15 more.
    assert_eq!(world.names, ["REQ"; 20]);
    assert_eq!(world.now, 16 * SETTINGS.times.answer(20));
}

#[test]
fn either_side_refuses() {
    let mut world = World::new(1, CLEAR);
    world.agent(1).listen(SERVICE, 4, 0);
    world.connect(20);
    while world.step() && world.events[1].is_empty() {}
    let passive = world.requested();
    world.agent(1).reject(passive, &refusal()).unwrap();
    world.take();
    world.run();
    let Event::Rejected { reject } = world.last(0) else {
        panic!("{:?}", world.last(0));
    };
    assert_eq!((reject.reason, reject.private_data), (28, [9; 148]));
    assert_eq!(world.agent(1).reject(passive, &refusal()), Err(WrongState));
}

#[test]
fn a_slow_program_is_waited_for() {
    let mut world = World::new(1, CLEAR);
    world.agent(1).listen(SERVICE, 4, 0);
    let active = world.connect(20);
    // The request is repeated early, and the MRA ends that. It is repeated once more when the time
    // for an answer is over; the answer to that is an MRA, which is waited for much longer.
    while world.agent(0).state(active) != Some(State::MraReqReceived) && world.step() {}
    assert_eq!(world.names, ["REQ", "REQ", "MRA", "REQ", "MRA"]);
    assert_eq!(world.now, SETTINGS.times.answer(20) + 2);
    let passive = world.requested();
    let now = world.now + 60_000;
    world.now = now;
    world.agent(1).accept(passive, &reply(30), now).unwrap();
    world.take();
    while world.step() && world.events[0].is_empty() {}
    assert!(matches!(world.last(0), Event::Reply { .. }));
}

#[test]
fn a_full_backlog_takes_no_more_until_one_is_answered() {
    let mut world = World::new(1, CLEAR);
    world.agent(1).listen(SERVICE, 1, 0);
    world.connect(20);
    world.connect(21);
    for _ in 0..4 {
        world.step();
    }
    assert_eq!(world.events[1].len(), 1);
    let first = world.requested();
    world.agent(1).reject(first, &refusal()).unwrap();
    world.take();
    // The second request is repeated, and finds room.
    while world.events[1].len() < 2 && world.step() {}
    assert_ne!(world.requested(), first);
}

#[test]
fn a_peer_that_comes_back_ends_its_old_connection() {
    let (mut world, _, passive) = connected();
    // Killed: it sends no message, and its successor has the same queue pair.
    let mut again = Agent::new(Settings {
        seed: 9000,
        ..SETTINGS
    });
    let id = again.connect(1, &request(20), world.now).unwrap();
    world.agents[0] = Some(again);
    world.take();
    while world.step() && world.agent(0).state(id) == Some(State::ReqSent) {}
    assert!(world.names[3..].contains(&"REJ"), "{:?}", world.names);
    assert!(world.names[3..].contains(&"DREQ"), "{:?}", world.names);
    let ended = world.agent(1).state(passive);
    assert_eq!(ended, Some(State::DreqSent));
}

#[test]
fn a_claim_of_a_queue_pair_by_a_stranger_ends_nothing() {
    let (mut world, _, passive) = connected();
    let mut stranger = Agent::new(Settings {
        slot: 9,
        ..SETTINGS
    });
    stranger.connect(1, &request(20), 0).unwrap();
    let Some(Output::Send { mad, .. }) = stranger.poll() else {
        panic!("nothing was sent");
    };
    let now = world.now;
    world.agent(1).receive(7, &mad, owner(&mad), now);
    assert_eq!(world.agent(1).state(passive), Some(State::Established));
    let Some(Output::Send { to: 7, mad }) = world.agent(1).poll() else {
        panic!("the stranger got no answer");
    };
    assert!(matches!(mad.message, Message::Rej(Rej { reason: 10, .. })));
    // Nor do messages that name the connection and come another way.
    for message in [
        Message::Dreq(crate::wire::Dreq {
            local_comm_id: world.events[0][0].0,
            remote_comm_id: passive,
            remote_qpn: 30,
            ..Default::default()
        }),
        Rej {
            local_comm_id: world.events[0][0].0,
            remote_comm_id: passive,
            ..Rej::default()
        }
        .into(),
    ] {
        let mad = Mad {
            transaction: 0,
            modifier: 0,
            message,
        };
        world.agent(1).receive(7, &mad, owner(&mad), now);
        assert_eq!(world.agent(1).state(passive), Some(State::Established));
    }
}

#[test]
fn closing_sends_the_message_that_the_peer_needs() {
    // Each: the state of the connection when it is closed, the closing side, and its message.
    let (mut world, active, passive) = connected();
    let now = world.now;
    world.agent(1).close(passive, now);
    world.take();
    while world.step() && world.last(0) != Event::DisconnectRequest {}
    let now = world.now;
    world.agent(0).close(active, now);
    world.take();
    world.run();
    assert_eq!(world.names[3..], ["DREQ", "DREP"]);
    assert!(world.agent(0).is_empty() && world.agent(1).is_empty());

    let mut world = World::new(1, CLEAR);
    world.agent(1).listen(SERVICE, 4, 0);
    let active = world.connect(20);
    while world.step() && world.events[1].is_empty() {}
    let now = world.now;
    world.agent(0).close(active, now);
    world.take();
    while world.step() && world.events[1].len() < 2 {}
    let Event::Rejected { reject } = world.last(1) else {
        panic!("{:?}", world.last(1));
    };
    assert_eq!(reject.reason, 4);
    assert!(world.agent(0).is_empty());
}

#[test]
fn a_release_of_an_unknown_connection_is_answered() {
    let mut agent = Agent::<usize>::new(SETTINGS);
    let dreq = crate::wire::Dreq {
        local_comm_id: 5,
        remote_comm_id: 6,
        ..Default::default()
    };
    let mad = Mad {
        transaction: 4,
        modifier: 0,
        message: dreq.into(),
    };
    agent.receive(2, &mad, owner(&mad), 0);
    let Some(Output::Send { to: 2, mad }) = agent.poll() else {
        panic!("no answer");
    };
    let Message::Drep(drep) = mad.message else {
        panic!("{}", mad.message.name());
    };
    assert_eq!(
        (drep.local_comm_id, drep.remote_comm_id, mad.transaction),
        (6, 5, 4)
    );
    // Other messages that belong to nothing are not answered, and make nothing.
    for message in [
        Message::from(Rtu::default()),
        Mra::default().into(),
        Rep::default().into(),
    ] {
        let mad = Mad { message, ..mad };
        agent.receive(2, &mad, owner(&mad), 0);
    }
    assert_eq!(agent.poll(), None);
    assert!(agent.is_empty() && agent.deadline().is_none());
}

#[test]
fn a_request_that_was_seen_makes_room_for_another() {
    let mut world = World::new(1, CLEAR);
    world.agent(1).listen(SERVICE, 1, 0);
    world.connect(20);
    while world.step() && world.events[1].is_empty() {}
    let first = world.requested();
    world.agent(1).taken(first);
    world.connect(21);
    while world.step() && world.events[1].len() < 2 {}
    assert_ne!(world.requested(), first);
    let now = world.now;
    world.agent(1).close(first, now);
    let listener = world.agent(1).listeners.get(&SERVICE).unwrap();
    assert_eq!(listener.pending, 1, "the first was given back once");
}

#[test]
fn a_peer_that_vanishes_ends_the_connection() {
    let (mut world, active, passive) = connected();
    let (peer, way) = world.agent(0).peer(active).unwrap();
    assert_eq!((peer, way), (passive, 1));
    assert_eq!(world.agent(0).peers().count(), 1);
    let now = world.now;
    world.agents[1] = None;
    world.agent(0).vanished(active, now);
    world.take();
    assert_eq!(world.last(0), Event::DisconnectRequest);
    assert_eq!(world.agent(0).disconnect(active, now), Err(WrongState));
    world.run();
    assert_eq!(world.last(0), Event::TimewaitExit);
    assert_eq!(
        world.names,
        ["REQ", "REP", "RTU"],
        "no message to the vanished peer"
    );
}

#[test]
fn datagram_services_are_resolved() {
    let mut world = World::new(1, CLEAR);
    let ask = SidrReq {
        service_id: SERVICE,
        ..SidrReq::default()
    };
    let resolve = |world: &mut World| {
        let now = world.now;
        let id = world.agent(0).resolve(1, &ask, 3, now).unwrap();
        world.take();
        id
    };
    resolve(&mut world);
    world.run();
    let Event::Resolved { reply, .. } = world.last(0) else {
        panic!("{:?}", world.last(0));
    };
    assert_eq!(reply.status, 1);

    // One that comes too early waits.
    world.is_bound = true;
    let asked = resolve(&mut world);
    assert!(world.step() && world.events[1].is_empty());
    world.listens();
    let (id, _) = world.events[1][0];
    let answer = Answer {
        status: 0,
        qpn: 17,
        q_key: 0x0123_4567,
        ..Answer::rejected()
    };
    let now = world.now;
    world.agent(1).answer(id, &answer, now).unwrap();
    assert_eq!(world.agent(1).answer(id, &answer, now), Err(WrongState));
    world.take();
    world.run();
    let Some((id, Event::Resolved { reply, .. })) = world.events[0].last() else {
        panic!("{:?}", world.events[0]);
    };
    assert_eq!(
        (*id, reply.status, reply.qpn, reply.q_key),
        (asked, 0, 17, 0x0123_4567)
    );
    assert!(world.agent(0).is_empty() && world.agent(1).is_empty());

    world.agents[1] = None;
    resolve(&mut world);
    world.run();
    assert_eq!(world.last(0), Event::Unreachable);
    assert!(world.agent(0).is_empty());
}

/// Each request that finds no free id is dropped, and takes no place of the backlog.
#[test]
fn a_request_without_a_free_id_takes_no_place_of_the_backlog() {
    let mut agent = Agent::<usize>::new(SETTINGS);
    assert!(agent.listen(SERVICE, 1, 0));
    let mut asker = Agent::<usize>::new(Settings {
        slot: 2,
        ..SETTINGS
    });
    let mut req = || {
        asker.connect(0, &request(7), 0).unwrap();
        let Some(Output::Send { mad, .. }) = asker.poll() else {
            panic!("no REQ")
        };
        mad
    };
    let sidr = Mad {
        transaction: 1,
        modifier: 0,
        message: SidrReq {
            request_id: 5,
            service_id: SERVICE,
            ..SidrReq::default()
        }
        .into(),
    };
    // Id 0 is invalid, so this leaves no id at all.
    agent.last = 0;
    agent.settings.slot = 0;
    agent.receive(0, &req(), Some(Owner::Listens(SERVICE)), 0);
    agent.receive(0, &sidr, Some(Owner::Listens(SERVICE)), 0);
    assert!(agent.poll().is_none());
    agent.last = 3;
    agent.receive(0, &req(), Some(Owner::Listens(SERVICE)), 0);
    assert!(matches!(
        agent.poll(),
        Some(Output::Report {
            event: Event::ConnectRequest { .. },
            ..
        })
    ));
}

#[test]
fn a_flood_of_requests_takes_no_more_than_the_backlog() {
    let mut agent = Agent::<usize>::new(SETTINGS);
    agent.listen(SERVICE, 8, 0);
    for number in 0..1000 {
        let mut message = request(number).message;
        message.local_comm_id = number + 1;
        message.local_ca_guid = u64::from(number) + 1;
        let mad = Mad {
            transaction: 0,
            modifier: 0,
            message: message.into(),
        };
        agent.receive(usize::try_from(number).unwrap(), &mad, owner(&mad), 0);
    }
    assert_eq!(agent.len(), 8);
    assert!(agent.deadline().is_none());
}

/// The program of a side, as it reacts to events.
#[derive(Clone, Copy, Debug)]
struct Program {
    accepts: bool,
    ends: bool,
}

/// Lets a program react to new events.
fn react(world: &mut World, number: usize, program: Program, seen: &mut usize) {
    let now = world.now;
    let new: Vec<_> = world.events[number].iter().skip(*seen).copied().collect();
    *seen += new.len();
    let agent = world.agent(number);
    for (id, event) in new {
        // The call may be in the wrong state because of meanwhile changes.
        let _ = match event {
            Event::ConnectRequest { .. } if program.accepts => agent.accept(id, &reply(30), now),
            Event::ConnectRequest { .. } => agent.reject(id, &refusal()),
            Event::Reply { .. } => agent.establish(id),
            Event::Established if program.ends => agent.disconnect(id, now),
            Event::DisconnectRequest => agent.disconnect(id, now),
            Event::Rejected { .. }
            | Event::Unreachable
            | Event::TimewaitExit
            | Event::Disconnected { answered: false } => {
                agent.close(id, now);
                Ok(())
            }
            _ => Ok(()),
        };
    }
    world.take();
}

proptest! {
    /// Whatever the network does, each side learns the outcome of each connection, once, and no
    /// state remains where both sides have ended.
    #[test]
    fn every_connection_comes_to_an_end(
        seed: u64, lost in 0_u64..50, doubled in 0_u64..30, delay in 1_u64..6000,
        accepts: bool, connections in 1_u32..6, listens_after in 0_u64..9000
    ) {
        let mut world = World::new(seed, Weather { lost, doubled, delay });
        world.is_bound = true;
        let ids: Vec<_> = (0..connections).map(|number| world.connect(20 + number)).collect();
        let programs = [Program { accepts, ends: true }, Program { accepts, ends: false }];
        let mut seen = [0; 2];
        for _ in 0..20_000 {
            if world.is_bound && world.now >= listens_after {
                world.listens();
            }
            let goes_on = world.step();
            for number in 0..2 {
                react(&mut world, number, programs[number], &mut seen[number]);
            }
            if !goes_on && world.flying.is_empty() && world.agents.iter().flatten().all(|a| a.deadline().is_none()) {
                break;
            }
        }
        let mut outcomes = HashMap::<Id, Vec<Event>>::new();
        for (id, event) in &world.events[0] {
            outcomes.entry(*id).or_default().push(*event);
        }
        for id in ids {
            let reported = outcomes.get(&id);
            prop_assert!(reported.is_some(), "{id} was never reported");
            let ends = reported.unwrap().iter().filter(|event| matches!(event,
                Event::Rejected { .. } | Event::Unreachable | Event::TimewaitExit | Event::Disconnected { .. })).count();
            prop_assert!(ends >= 1, "{id}: {reported:?}");
        }
        prop_assert_eq!(world.agent(0).len(), 0, "left: {:?}", &world.agents[0]);
        // The passive side may know connections whose end was lost; no timer runs for them.
        prop_assert!(world.agent(1).deadline().is_none());
    }

    /// Messages of any kind with likely ids: nothing panics, and nothing is made beyond the
    /// backlog.
    #[test]
    fn hostile_messages_make_nothing(
        messages in proptest::collection::vec((0x10_u8..0x1b, proptest::collection::vec(any::<u8>(), 232), 0_usize..3, 0_u32..4), 1..60)
    ) {
        let (mut world, active, passive) = connected();
        let before = world.agent(1).len();
        for (attribute, mut body, from, likely) in messages {
            if likely < 3 {
                body[..4].copy_from_slice(&active.to_be_bytes());
                body[4..8].copy_from_slice(&passive.to_be_bytes());
            }
            let mut bytes = vec![0; 24];
            bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
            bytes[17] = attribute;
            bytes.extend_from_slice(&body);
            let mad = Mad::parse(&bytes).unwrap();
            let now = world.now + 1;
            world.now = now;
            world.agent(1).receive(from, &mad, owner(&mad), now);
            world.agent(1).on_time(now);
        }
        prop_assert!(world.agent(1).len() <= before + 4);
        while world.agent(1).poll().is_some() {}
    }
}
