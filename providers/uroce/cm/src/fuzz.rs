//! An entry point for fuzzers, as an ordinary function: it takes any bytes, and panics if an
//! invariant does not hold. The tests drive it with seeded bytes; `fuzz/` does with libFuzzer.
#![allow(clippy::panic, reason = "a panic is how a fuzz target reports")]

use std::collections::BTreeSet;

use crate::{
    agent::{Agent, Answer, Event, Id, Output, Owner, Reject, Reply, Request, Settings},
    times::Times,
    wire::{LEN, Mad, Message, Rep, Req, SidrReq},
};

/// Services: the listener's, and that of a port which is bound and does not listen.
const LISTENS: u64 = 0x0106_1d2f;
const BOUND: u64 = 0x0106_1d30;
const BACKLOG: usize = 3;
/// Routes that messages come from.
const PATHS: u8 = 3;
/// The most messages and events that one message leads to.
const OUTPUTS: usize = 4;
const MAD_HEADER: usize = 24;

/// Of an agent: times as Linux uses them.
pub(crate) const SETTINGS: Settings = Settings {
    slot: 1,
    seed: 0,
    times: Times {
        response: 20,
        packet_life: 16,
        retries: 15,
        service: 24,
    },
};

/// Bytes taken one after another; zeros when there are no more.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// One of the first `count` numbers.
    fn below(&mut self, count: usize) -> usize {
        usize::from(self.byte()).checked_rem(count).unwrap_or(0)
    }
}

/// An agent, its program, and what both have made.
struct World {
    agent: Agent<u8>,
    now: u64,
    /// Ids that the program knows.
    ids: Vec<Id>,
    /// Ids of peers, from messages that the agent received.
    peers: Vec<Id>,
    /// Requests that have a place in a backlog.
    waiting: BTreeSet<Id>,
    /// The places of all listeners that there were.
    places: usize,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            agent: Agent::new(SETTINGS),
            now: 1,
            ids: Vec::new(),
            peers: vec![0, 7],
            waiting: BTreeSet::new(),
            places: 0,
        };
        world.listen();
        world
    }

    fn listen(&mut self) {
        if self.agent.listen(LISTENS, BACKLOG, self.now) {
            self.places += BACKLOG;
        }
    }

    /// Takes the outputs; no more than `most`.
    fn take(&mut self, most: usize) {
        let mut count = 0;
        while let Some(output) = self.agent.poll() {
            count += 1;
            match output {
                Output::Send { to, mad } => {
                    assert!(to < PATHS, "{to}: no message came that way");
                    assert_eq!(Mad::parse(&mad.emit()), Ok(mad));
                }
                Output::Report { id, event } => {
                    let is_request = matches!(
                        event,
                        Event::ConnectRequest { .. } | Event::ResolutionRequest { .. }
                    );
                    assert!(is_request || self.ids.contains(&id), "{id}: {event:?}");
                    if is_request {
                        self.ids.push(id);
                        self.waiting.insert(id);
                        let count = self.waiting.len();
                        assert!(count <= self.places, "{count} requests wait");
                    } else {
                        self.waiting.remove(&id);
                    }
                }
            }
        }
        assert!(count <= most, "{count} outputs");
    }

    /// A message, whose ids are often right.
    fn message(&self, input: &mut Input<'_>) -> Vec<u8> {
        let shape = input.byte();
        let mut bytes = vec![0; LEN];
        let mut put = |at: usize, part: &[u8]| {
            if let Some(place) = bytes.get_mut(at..at + part.len()) {
                place.copy_from_slice(part);
            }
        };
        put(0, &[1, 7, 2, 3]);
        put(15, &[input.byte()]);
        // All messages, and the two that make something more often.
        let attribute = match input.byte() % 16 {
            12 | 13 => 0x10,
            14 | 15 => 0x17,
            kind => 0x10 + kind,
        };
        put(17, &[attribute]);
        let peer = self.peers.get(input.below(self.peers.len()));
        let own = self.ids.get(input.below(self.ids.len()));
        if shape & 1 == 0 {
            put(MAD_HEADER, &peer.copied().unwrap_or(1).to_be_bytes());
            put(MAD_HEADER + 4, &own.copied().unwrap_or(1).to_be_bytes());
        }
        // The service of a REQ and of a SIDR REQ lies at the same place.
        if shape & 2 == 0 {
            let service = if shape & 4 == 0 { LISTENS } else { BOUND };
            put(MAD_HEADER + 8, &service.to_be_bytes());
        }
        // A REQ of a new connection: the id and the queue pair are others.
        if shape & 8 == 0 {
            put(MAD_HEADER + 3, &[input.byte()]);
            put(MAD_HEADER + 34, &[input.byte()]);
        }
        for _ in 0..shape >> 4 {
            let (at, byte) = (input.byte(), input.byte());
            put(usize::from(at), &[byte]);
        }
        bytes
    }

    fn receive(&mut self, input: &mut Input<'_>) {
        let bytes = self.message(input);
        let Ok(mad) = Mad::parse(&bytes) else {
            return;
        };
        let service = match &mad.message {
            Message::Req(req) => Some(req.service_id),
            Message::SidrReq(req) => Some(req.service_id),
            _ => None,
        };
        let owner = match service {
            Some(LISTENS) => Some(Owner::Listens(LISTENS)),
            Some(BOUND) => Some(Owner::Bound(BOUND)),
            _ => None,
        };
        if let Message::Req(req) = &mad.message
            && self.peers.len() < 16
        {
            self.peers.push(req.local_comm_id);
        }
        let before = self.agent.len();
        let from = input.byte() % PATHS;
        self.agent.receive(from, &mad, owner, self.now);
        // A request makes one entry, another message none.
        let most = before + usize::from(service.is_some());
        assert!(
            self.agent.len() <= most,
            "{} makes more",
            mad.message.name()
        );
        self.take(OUTPUTS);
    }

    /// A call of the program.
    fn call(&mut self, input: &mut Input<'_>) {
        let (kind, now) = (input.byte() % 12, self.now);
        let id = self.ids.get(input.below(self.ids.len()));
        let id = id.copied().unwrap_or(1);
        let path = input.byte() % PATHS;
        let made = match kind {
            0 => {
                let message = Req {
                    service_id: LISTENS,
                    ..Req::default()
                };
                let request = Request {
                    message,
                    options: 0,
                    agent: 3,
                };
                self.agent.connect(path, &request, now)
            }
            1 => self.agent.resolve(path, &SidrReq::default(), 3, now),
            _ => None,
        };
        self.ids.extend(made);
        let reject = Reject {
            reason: 28,
            private_data: [0; 148],
        };
        let reply = Reply {
            message: Rep::default(),
            options: 0,
        };
        let done = match kind {
            2 | 3 => self.agent.accept(id, &reply, now),
            4 => self.agent.reject(id, &reject),
            5 => self.agent.establish(id),
            6 => self.agent.disconnect(id, now),
            7 => self.agent.answer(id, &Answer::rejected(), now),
            _ => Ok(()),
        };
        match kind {
            8 => self.agent.taken(id),
            9 => self.agent.vanished(id, now),
            10 => self.agent.close(id, now),
            11 => {
                self.agent.unlisten(LISTENS, now);
                self.agent.unlisten(BOUND, now);
                self.listen();
            }
            _ => {}
        }
        // A call in the wrong state changes nothing. Others answer the request, or make room.
        if kind > 1 && done.is_ok() {
            self.waiting.remove(&id);
        }
        self.take(usize::MAX);
    }

    fn advance(&mut self, milliseconds: u64) {
        self.now += milliseconds;
        self.agent.on_time(self.now);
        let next = self.agent.deadline();
        assert!(next.is_none_or(|next| next > self.now), "a timer is late");
        self.take(usize::MAX);
    }

    /// The program gives everything up.
    fn end(&mut self) {
        self.agent.unlisten(LISTENS, self.now);
        self.agent.refuse_held(self.now);
        for id in std::mem::take(&mut self.ids) {
            self.agent.close(id, self.now);
        }
        while self.agent.poll().is_some() {}
        let mut steps = 0;
        while let Some(next) = self.agent.deadline() {
            self.advance(next.saturating_sub(self.now));
            steps += 1;
            assert!(steps < 100_000, "the timers find no end");
        }
        assert_eq!(self.agent.len(), 0);
    }
}

/// Feeds an agent messages made from the bytes, between calls of a program and time. Checks that
/// only a request makes an entry, and no more of them wait than the backlog allows; that a message
/// leads to a bounded number of others, which are well-formed; that no timer is late; and that
/// nothing remains when the program has given up everything.
///
/// # Panics
/// When a check fails.
pub fn fuzz_receive(data: &[u8]) {
    let mut input = Input(data);
    let mut world = World::new();
    while !input.0.is_empty() {
        match input.byte() % 8 {
            0..=4 => world.receive(&mut input),
            5 | 6 => world.call(&mut input),
            _ => {
                let exponent = input.byte() % 18;
                world.advance(1 << exponent);
            }
        }
    }
    world.end();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The inputs: `UROCE_FUZZ_ROUNDS` is their number, for a longer run, and `UROCE_FUZZ_FIRST`
    /// the first one, to continue a run.
    fn seeds() -> std::ops::Range<u64> {
        let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
        let first: u64 = number("UROCE_FUZZ_FIRST").unwrap_or(0);
        let rounds = number("UROCE_FUZZ_ROUNDS").unwrap_or(4000);
        first..first.saturating_add(rounds)
    }

    fn bytes(seed: u64) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state.to_be_bytes()[0]
        };
        let length = u16::from(next()) * 4;
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn messages() {
        for seed in seeds() {
            fuzz_receive(&bytes(seed));
        }
    }

    #[test]
    fn no_bytes() {
        fuzz_receive(&[]);
    }
}
