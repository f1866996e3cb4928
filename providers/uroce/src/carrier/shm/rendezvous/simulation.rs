//! Many processes, sockets that hold few messages and lose, repeat, delay and reorder them, and
//! processes that stop, end and start anew at any step: all from one seed.

use super::backoff::Random;
use super::session::{Host, Join, LinkState, Message, Role, Session};
use super::{Delivery, PATIENCE};
use std::collections::HashMap;

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1000 * MILLISECOND;
/// Messages that a socket holds (`net.unix.max_dgram_qlen`).
const HOLDS: usize = 10;
/// For how long faults happen.
const TROUBLE: u64 = 5 * SECOND;
/// The time when no attempt runs any more: an attempt of the last moment has had its time, and so
/// has one that it caused.
const END: u64 = TROUBLE + 3 * PATIENCE;
/// How long an offerer that runs may not know that the peer has joined.
const ONE_SIDED: u64 = 400 * MILLISECOND;

/// Faults, each of so many in a thousand events.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    lost: u64,
    repeated: u64,
    stops: u64,
    deaths: u64,
    failures: u64,
}

struct Datagram {
    from: usize,
    generation: u64,
    message: Message,
    /// The link that comes along.
    link: Option<usize>,
    visible: u64,
}

#[derive(Default)]
struct Process {
    generation: u64,
    /// It runs from then on.
    runs: u64,
    /// It ends after so many calls of the host.
    dies_after: Option<u64>,
    is_dead: bool,
    inbox: Vec<Datagram>,
    sessions: HashMap<usize, Session>,
    /// The links that were created, and those that are used; by peer.
    created: HashMap<usize, usize>,
    used: HashMap<usize, usize>,
    unreachable: u64,
}

struct Link {
    state: LinkState,
    /// Of the offerer and the joiner.
    generations: [u64; 2],
    /// When it was joined.
    joined: Option<u64>,
}

struct World {
    now: u64,
    random: Random,
    faults: Faults,
    processes: Vec<Process>,
    links: Vec<Link>,
    /// Ends of processes that others are still to learn of: observer, process, generation, time.
    ends: Vec<(usize, usize, u64, u64)>,
    generations: u64,
    sent: u64,
    /// Connects, stops, deaths, failures: events that may begin an attempt.
    causes: u64,
}

/// A session's actions in the simulation.
struct Doing<'a> {
    world: &'a mut World,
    own: usize,
    peer: usize,
    /// The link that came with the message at hand.
    offered: Option<usize>,
}

impl Doing<'_> {
    /// Whether the process is still there to do it.
    fn lives(&mut self) -> bool {
        let process = &mut self.world.processes[self.own];
        match &mut process.dies_after {
            Some(0) => process.is_dead = true,
            Some(calls) => *calls -= 1,
            None => {}
        }
        !process.is_dead
    }

    fn created(&self) -> Option<usize> {
        self.world.processes[self.own]
            .created
            .get(&self.peer)
            .copied()
    }

    fn swap(&mut self, link: usize, to: LinkState) -> LinkState {
        let link = &mut self.world.links[link];
        if link.state == LinkState::Offered {
            link.state = to;
        }
        link.state
    }
}

impl Host for Doing<'_> {
    fn send(&mut self, message: Message) -> Delivery {
        if !self.lives() {
            return Delivery::Gone;
        }
        let (link, own, peer) = (self.created(), self.own, self.peer);
        let World {
            now,
            random,
            faults,
            processes,
            sent,
            ..
        } = &mut *self.world;
        *sent += 1;
        let generation = processes[own].generation;
        let to = &mut processes[peer];
        if to.is_dead {
            return Delivery::Gone;
        }
        if to.inbox.len() >= HOLDS {
            return Delivery::Full;
        }
        let is_troubled = *now < TROUBLE;
        let happens = |random: &mut Random, often| is_troubled && random.below(1000) < often;
        if happens(random, faults.lost) {
            return Delivery::Delivered;
        }
        let copies = if happens(random, faults.repeated) {
            2
        } else {
            1
        };
        for _ in 0..copies {
            // Now and then so late that others overtake it.
            let late = [MILLISECOND / 10, MILLISECOND, 300 * MILLISECOND];
            let late = late[usize::try_from(random.below(3)).expect("small")];
            let visible = *now + random.below(late);
            to.inbox.push(Datagram {
                from: own,
                generation,
                message,
                link: link.filter(|_| matches!(message, Message::Offer { .. })),
                visible,
            });
        }
        Delivery::Delivered
    }

    fn create(&mut self, generation: u64) -> bool {
        let is_there = self.world.processes[self.peer].generation == generation;
        if !self.lives() || !is_there || self.world.fails() {
            return false;
        }
        let own = self.world.processes[self.own].generation;
        self.world.links.push(Link {
            state: LinkState::Offered,
            generations: [own, generation],
            joined: None,
        });
        let link = self.world.links.len() - 1;
        let before = self.world.processes[self.own]
            .created
            .insert(self.peer, link);
        assert_eq!(before, None, "discarded before");
        true
    }

    fn join(&mut self, generation: u64) -> Join {
        let is_there = self.world.processes[self.peer].generation == generation;
        if !self.lives() || !is_there || self.world.fails() {
            return Join::Failed;
        }
        let Some(link) = self.offered else {
            return Join::Failed;
        };
        let own = self.world.processes[self.own].generation;
        assert_eq!(self.world.links[link].generations, [generation, own]);
        if self.world.links[link].state == LinkState::Joined {
            panic!("joined twice");
        }
        if self.swap(link, LinkState::Joined) == LinkState::Withdrawn {
            return Join::Withdrawn;
        }
        self.world.links[link].joined = Some(self.world.now);
        Join::Joined
    }

    fn look(&mut self) -> LinkState {
        let link = self.created().expect("created");
        self.world.links[link].state
    }

    fn withdraw(&mut self) -> LinkState {
        let link = self.created().expect("created");
        if self.lives() {
            self.swap(link, LinkState::Withdrawn)
        } else {
            self.world.links[link].state
        }
    }

    fn discard(&mut self) {
        let process = &mut self.world.processes[self.own];
        process.created.remove(&self.peer).expect("created");
    }

    fn ready(&mut self) {
        let process = &mut self.world.processes[self.own];
        let link = process.created.remove(&self.peer).or(self.offered);
        let before = process.used.insert(self.peer, link.expect("a link"));
        assert_eq!(before, None, "the former's end was reported before");
    }

    fn unreachable(&mut self) {
        self.world.processes[self.own].unreachable += 1;
    }

    fn has_ended(&mut self) -> bool {
        let process = &self.world.processes[self.own];
        let (created, used) = (&process.created, &process.used);
        let link = created.get(&self.peer).or_else(|| used.get(&self.peer));
        let of = self.world.links[*link.expect("a link")].generations;
        !of.contains(&self.world.processes[self.peer].generation)
    }

    fn lost(&mut self) {
        let process = &mut self.world.processes[self.own];
        process.used.remove(&self.peer).expect("linked");
    }
}

/// Executes the next event.
enum Event {
    Datagram(usize),
    Deadline(usize),
    End(usize),
}

impl World {
    fn new(seed: u64, count: usize, faults: Faults) -> Self {
        let mut world = Self {
            now: 0,
            random: Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            faults,
            processes: Vec::new(),
            links: Vec::new(),
            ends: Vec::new(),
            generations: 0,
            sent: 0,
            causes: 0,
        };
        world.processes.resize_with(count, Process::default);
        for slot in 0..count {
            world.processes[slot].generation = world.generation();
        }
        world
    }

    fn generation(&mut self) -> u64 {
        self.generations += 1;
        self.generations
    }

    fn happens(&mut self, often: u64) -> bool {
        self.now < TROUBLE && self.random.below(1000) < often
    }

    /// Whether a process finds that it has no descriptors left.
    fn fails(&mut self) -> bool {
        let fails = self.happens(self.faults.failures);
        self.causes += u64::from(fails);
        fails
    }

    /// Calls the session of a process with a peer.
    fn call(
        &mut self,
        own: usize,
        peer: usize,
        offered: Option<usize>,
        call: impl FnOnce(&mut Session, u64, &mut Doing<'_>),
    ) {
        let process = &mut self.processes[own];
        let generation = process.generation;
        let made = || {
            let seed = u64::try_from(peer).expect("small");
            let [own, peer] = [own, peer].map(|slot| u16::try_from(slot).expect("small"));
            Session::new(Role::of(own, peer), generation, seed)
        };
        let mut session = process.sessions.remove(&peer).unwrap_or_else(made);
        let now = self.now;
        let mut doing = Doing {
            world: self,
            own,
            peer,
            offered,
        };
        call(&mut session, now, &mut doing);
        self.processes[own].sessions.insert(peer, session);
        if self.processes[own].is_dead {
            self.bury(own);
        }
    }

    fn connect(&mut self, own: usize, peer: usize) {
        self.causes += 1;
        self.call(own, peer, None, |session, now, doing| {
            session.connect(now, doing);
        });
    }

    /// A process has ended: its watchers are notified after a while, and another begins in its
    /// slot.
    fn bury(&mut self, slot: usize) {
        let dead = std::mem::take(&mut self.processes[slot]);
        self.causes += u64::try_from(self.processes.len()).expect("small");
        for peer in 0..self.processes.len() {
            let late = self.random.below(50 * MILLISECOND);
            self.ends
                .push((peer, slot, dead.generation, self.now + late));
        }
        self.processes[slot].generation = self.generation();
        self.processes[slot].runs = self.now + self.random.below(100 * MILLISECOND);
    }

    fn next(&mut self) -> Option<(u64, usize, Event)> {
        let mut next: Option<(u64, usize, Event)> = None;
        let mut offer = |time: u64, slot, event| {
            if next.as_ref().is_none_or(|known| time < known.0) {
                next = Some((time, slot, event));
            }
        };
        for (slot, process) in self.processes.iter().enumerate() {
            for (at, datagram) in process.inbox.iter().enumerate() {
                offer(
                    datagram.visible.max(process.runs),
                    slot,
                    Event::Datagram(at),
                );
            }
            for (peer, session) in &process.sessions {
                if let Some(deadline) = session.deadline() {
                    offer(deadline.max(process.runs), slot, Event::Deadline(*peer));
                }
            }
        }
        for (at, (slot, _, _, time)) in self.ends.iter().enumerate() {
            offer(
                (*time).max(self.processes[*slot].runs),
                *slot,
                Event::End(at),
            );
        }
        next
    }

    /// One process does one thing, or stops, or is about to end.
    fn step(&mut self, time: u64, slot: usize, event: &Event) {
        self.now = self.now.max(time);
        if self.happens(self.faults.stops) {
            self.causes += 1;
            self.processes[slot].runs = self.now + self.random.below(3 * SECOND);
            return;
        }
        if self.happens(self.faults.deaths) {
            self.processes[slot].dies_after = Some(self.random.below(4));
        }
        match *event {
            Event::Datagram(at) => {
                let datagram = self.processes[slot].inbox.remove(at);
                let Datagram {
                    from,
                    generation,
                    message,
                    link,
                    ..
                } = datagram;
                self.call(slot, from, link, |session, now, doing| {
                    session.receive(now, generation, message, doing);
                });
            }
            Event::Deadline(peer) => {
                self.call(slot, peer, None, |session, now, doing| {
                    session.on_time(now, doing);
                });
            }
            Event::End(at) => {
                let (_, peer, generation, _) = self.ends.swap_remove(at);
                let used = self.processes[slot].used.get(&peer);
                if used.is_some_and(|link| self.links[*link].generations.contains(&generation)) {
                    self.processes[slot].used.remove(&peer);
                }
                self.call(slot, peer, None, |session, now, doing| {
                    session.ended(now, generation, doing);
                });
            }
        }
    }

    fn run(&mut self, until: u64) {
        while let Some((time, slot, event)) = self.next() {
            if time > until {
                break;
            }
            self.step(time, slot, &event);
            self.check();
        }
        self.now = until;
    }

    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let count = self.processes.len();
        (0..count).flat_map(move |low| (low + 1..count).map(move |high| (low, high)))
    }

    /// Whether a process uses the link with the process that now has a slot.
    fn uses(&self, own: usize, peer: usize) -> Option<usize> {
        let link = *self.processes[own].used.get(&peer)?;
        let present = |slot: usize| self.processes[slot].generation;
        let mut both = [present(own), present(peer)];
        if own > peer {
            both.reverse();
        }
        (self.links[link].generations == both).then_some(link)
    }

    /// Invariants at every moment.
    fn check(&self) {
        for (low, high) in self.pairs() {
            let uses = [self.uses(low, high), self.uses(high, low)];
            match uses {
                [Some(left), Some(right)] => assert_eq!(left, right, "two links"),
                // The joiner is the first to know.
                [Some(_), None] => panic!("the joiner does not know that it has joined"),
                [None, Some(link)] => {
                    let joined = self.links[link].joined.expect("joined");
                    let since = joined.max(self.processes[low].runs);
                    let one_sided = self.now.saturating_sub(since);
                    assert!(one_sided < ONE_SIDED, "{one_sided} ns");
                }
                [None, None] => {}
            }
            for link in uses.into_iter().flatten() {
                assert_eq!(self.links[link].state, LinkState::Joined);
            }
        }
    }

    /// Invariants at the end.
    fn check_end(&self) {
        for (low, high) in self.pairs() {
            let uses = [self.uses(low, high), self.uses(high, low)];
            assert_eq!(uses[0], uses[1], "both, or neither");
        }
        for process in &self.processes {
            assert!(process.created.is_empty(), "offers are joined or withdrawn");
            let pending = process.sessions.values().filter(|one| one.is_pending());
            assert_eq!(pending.count(), 0, "all attempts have ended");
        }
        // Each cause begins at most an attempt on either side, and one after a withdrawn offer.
        let bound = 400 * self.causes;
        assert!(self.sent <= bound, "{} messages, {bound}", self.sent);
    }

    /// Pairs that have the link.
    fn linked(&self) -> usize {
        let linked = |(low, high): &(usize, usize)| self.uses(*low, *high).is_some();
        self.pairs().filter(linked).count()
    }

    /// All processes connect to all others, at about the same time.
    fn connect_all(&mut self) {
        for (low, high) in self.pairs() {
            for (own, peer) in [(low, high), (high, low)] {
                let until = self.now + self.random.below(MILLISECOND / 10);
                self.run(until);
                self.connect(own, peer);
            }
        }
    }
}

#[test]
fn all_have_the_link_where_nothing_is_lost() {
    for seed in 0..20 {
        let mut world = World::new(seed, 12, Faults::default());
        world.connect_all();
        world.run(END);
        world.check_end();
        assert_eq!(world.linked(), 12 * 11 / 2, "{seed}");
    }
}

#[test]
fn one_side_suffices_and_three_messages_do() {
    for (own, peer, least) in [(0, 1, 4), (1, 0, 3)] {
        let mut world = World::new(1, 2, Faults::default());
        world.connect(own, peer);
        world.run(END);
        world.check_end();
        assert_eq!((world.linked(), world.sent), (1, least));
    }
}

#[test]
fn lost_repeated_and_late_messages_do_no_harm() {
    for seed in 0..200 {
        let faults = Faults {
            lost: seed * 2,
            repeated: 200,
            ..Faults::default()
        };
        let mut world = World::new(seed, 5, faults);
        world.connect_all();
        world.run(END);
        world.check_end();
        assert_eq!(world.linked(), 10, "{seed}");
    }
}

#[test]
fn processes_that_stop_meet_when_they_continue() {
    for seed in 0..200 {
        let faults = Faults {
            stops: 50,
            ..Faults::default()
        };
        let mut world = World::new(seed, 6, faults);
        world.connect_all();
        world.run(END);
        world.check_end();
        assert_eq!(world.linked(), 15, "{seed}");
    }
}

#[test]
fn both_have_the_link_or_neither_whatever_happens() {
    for seed in 0..500 {
        let faults = Faults {
            lost: 50,
            repeated: 50,
            stops: 20,
            deaths: 20,
            failures: 30,
        };
        let mut world = World::new(seed, 5, faults);
        for _ in 0..4 {
            world.connect_all();
            world.run(world.now + SECOND);
        }
        world.run(END);
        world.check_end();
        for process in &mut world.processes {
            process.dies_after = None;
        }
        // Nothing that happened lasts: a new attempt succeeds, and no link of a former process is
        // used.
        world.connect_all();
        world.run(END + 3 * PATIENCE);
        world.check_end();
        assert_eq!(world.linked(), 10, "{seed}");
    }
}

#[test]
fn either_side_may_end_at_each_step() {
    for seed in 0..10 {
        for dies in 0..2 {
            for calls in 0..8 {
                let mut world = World::new(seed, 2, Faults::default());
                world.processes[dies].dies_after = Some(calls);
                world.connect(1, 0);
                world.connect(0, 1);
                world.run(END);
                world.check_end();
                world.connect(1, 0);
                world.run(END + 3 * PATIENCE);
                world.check_end();
                assert_eq!(world.linked(), 1);
            }
        }
    }
}

#[test]
fn a_process_that_was_stopped_for_longer_than_its_peer_waits_gets_the_link_later() {
    for (own, peer) in [(0, 1), (1, 0)] {
        let mut world = World::new(3, 2, Faults::default());
        world.processes[peer].runs = 10 * PATIENCE;
        world.connect(own, peer);
        world.run(9 * PATIENCE);
        world.check_end();
        assert_eq!((world.linked(), world.processes[own].unreachable), (0, 1));
        world.run(12 * PATIENCE);
        world.check_end();
        assert_eq!(world.linked(), 1);
    }
}

#[test]
fn a_withdrawn_offer_is_asked_for_anew() {
    let mut world = World::new(3, 2, Faults::default());
    world.connect(1, 0);
    let is_offered = |world: &World| {
        world.processes[1]
            .inbox
            .iter()
            .any(|one| one.link.is_some())
    };
    while !is_offered(&world) {
        let (time, slot, event) = world.next().expect("something");
        world.step(time, slot, &event);
    }
    world.processes[1].runs = 3 * PATIENCE;
    world.run(2 * PATIENCE);
    assert!(
        world
            .links
            .iter()
            .all(|link| link.state == LinkState::Withdrawn)
    );
    assert_eq!(world.processes[0].unreachable, 1);
    world.run(6 * PATIENCE);
    world.check_end();
    assert_eq!(world.linked(), 1);
}
