//! Channels, ids and the agent of a process, under one lock.

use super::address::Route;
use super::awaited::Neighbours;
use super::channel::{Channel, Waiting};
use super::claims::Lookup;
use super::deferred::Deferred;
use super::host::{Host, Network, Watch};
use super::id::{Id, Stage};
use super::lingering::{self, Lingering};
use super::peers::Peers;
use crate::clock;
use kit::cm::Record;
use kit::errno::{Errno, Result};
use kit::own_keys::Map;
use kit::sync::Mutex;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock, Weak};
use uroce_cm::agent::{Agent, Output, Settings};
use uroce_cm::times::Times;

const MILLISECOND: u64 = 1_000_000;

/// The connection manager of a process.
pub struct Cm {
    state: Mutex<State>,
}

/// Opens the node of the process, or answers the one that is open.
pub type OpenNode = fn() -> Result<Arc<dyn Host>>;

/// Objects that are dropped without the lock, because the drop waits for threads that may want it.
#[allow(dead_code)] // kept to be dropped
pub(super) enum Discarded {
    Node(Arc<dyn Host>),
    Watch(Box<dyn Watch>),
}

/// A multicast group that an id has joined.
pub(super) struct Join {
    pub id: u32,
    pub reported: u32,
}

/// The data under the lock.
pub(super) struct State {
    pub me: Weak<Cm>,
    pub channels: Map<u32, Channel>,
    pub ids: Map<u32, Id>,
    pub joins: Map<u32, Join>,
    /// The agent, and the slot in its communication ids.
    agent: Option<(u16, Agent<Route>)>,
    /// Ids by their communication ids.
    pub by_comm_id: Map<u32, u32>,
    pub lookup: Lookup,
    pub deferred: VecDeque<Deferred>,
    pub lingering: Lingering,
    pub neighbours: Neighbours,
    /// Processes with connections to this one.
    pub peers: Peers,
    /// Slots of such processes that are not known yet, and when they are looked for again.
    pub unwatched: HashMap<u16, u64>,
    pub discarded: Vec<Discarded>,
    open_node: OnceLock<OpenNode>,
    last: u32,
    psn: u32,
}

/// A random number.
pub(super) fn random() -> u32 {
    let [.., a, b, c, d] = RandomState::new()
        .hash_one(clock::now().nanos())
        .to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// The time of the agent.
pub(super) fn milliseconds() -> u64 {
    clock::now().nanos() / MILLISECOND
}

impl Cm {
    /// One without channels.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            state: Mutex::new(State {
                me: Weak::clone(me),
                channels: Map::default(),
                ids: Map::default(),
                joins: Map::default(),
                agent: None,
                by_comm_id: Map::default(),
                lookup: Lookup::default(),
                deferred: VecDeque::new(),
                lingering: Lingering::default(),
                neighbours: Neighbours::default(),
                peers: Peers::default(),
                unwatched: HashMap::new(),
                discarded: Vec::new(),
                open_node: OnceLock::new(),
                last: 0,
                psn: random(),
            }),
        })
    }

    /// Calls a function under the lock, and then drops objects that must not be dropped under it.
    pub(super) fn with<T>(&self, call: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let answer = call(&mut state);
        let discarded = std::mem::take(&mut state.discarded);
        drop(state);
        drop(discarded);
        answer
    }

    /// The state, for reading: the entries of [`State::discarded`] stay there.
    pub(super) fn lock(&self) -> kit::sync::MutexGuard<'_, State> {
        self.state.lock()
    }

    /// A new channel. Its ids open the node of the process.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM.
    pub fn open(&self, node: OpenNode) -> Result<(u32, OwnedFd)> {
        let (channel, descriptor) = Channel::new()?;
        let number = self.with(|state| {
            state.open_node.get_or_init(|| node);
            let number = state.number();
            state.channels.insert(number, channel);
            number
        });
        Ok((number, descriptor))
    }

    /// Closes a channel, and ends its ids.
    ///
    /// # Errors
    /// ENODEV if the number is unknown.
    pub fn close(&self, channel: u32) -> Result<()> {
        self.with(|state| {
            let ids = state.ids.iter();
            let of_channel = ids.filter(|(_, id)| id.channel == channel);
            let numbers: Vec<_> = of_channel.map(|(number, _)| *number).collect();
            for number in numbers {
                state.end(number);
            }
            let channel = state.channels.remove(&channel);
            channel.map(drop).ok_or(Errno::NODEV)
        })
    }

    /// The deadline of the agent, or of a message that waits, may have come.
    pub fn on_time(&self, network: &dyn Network) {
        self.with(|state| {
            if let Some((_, agent)) = &mut state.agent {
                agent.on_time(milliseconds());
            }
            state.watch_again(network);
            state.lingering.on_time(clock::now().nanos());
            state.give_up_neighbours();
            state.run(network);
            state.retry(network);
            state.schedule(network);
        });
    }

    /// The program exits: every peer gets a message, as by a kernel that closes a process's
    /// channels.
    pub fn exits(&self, network: &dyn Network) {
        self.with(|state| {
            let comm_ids: Vec<_> = state.by_comm_id.keys().copied().collect();
            if let Some((_, agent)) = &mut state.agent {
                let now = milliseconds();
                for comm_id in comm_ids {
                    agent.close(comm_id, now);
                }
                agent.refuse_held(now);
            }
            state.run(network);
        });
    }
}

impl State {
    /// A number for a channel, an id or a join.
    pub fn number(&mut self) -> u32 {
        loop {
            self.last = self.last.wrapping_add(1);
            let number = self.last;
            let is_free = number != 0
                && !self.ids.contains_key(&number)
                && !self.joins.contains_key(&number)
                && !self.channels.contains_key(&number);
            if is_free {
                return number;
            }
        }
    }

    /// The node of the process.
    ///
    /// # Errors
    /// Those of opening it; ENODEV before there is a channel.
    pub fn node(&self) -> Result<Arc<dyn Host>> {
        self.open_node.get().ok_or(Errno::NODEV)?()
    }

    /// # Errors
    /// ENOENT if there is no such id.
    pub fn id(&mut self, number: u32) -> Result<&mut Id> {
        self.ids.get_mut(&number).ok_or(Errno::NOENT)
    }

    /// The agent of the process's node; a new one if the node is another than before.
    pub fn agent(&mut self, slot: u16) -> &mut Agent<Route> {
        if self.agent.as_ref().is_some_and(|(known, _)| *known != slot) {
            // Connections of the node before went with it.
            self.agent = None;
            let watches = self.peers.drain().map(Discarded::Watch);
            self.discarded.extend(watches);
        }
        let (_, agent) = self.agent.get_or_insert_with(|| {
            let settings = Settings {
                slot,
                seed: random(),
                times: Times::default(),
            };
            (slot, Agent::new(settings))
        });
        agent
    }

    /// The agent, if there is one.
    pub fn known_agent(&mut self) -> Option<&mut Agent<Route>> {
        self.agent.as_mut().map(|(_, agent)| agent)
    }

    /// Executes the agent's requests: sends messages, and reports events.
    pub fn run(&mut self, network: &dyn Network) {
        while let Some(output) = self.agent.as_mut().and_then(|(_, agent)| agent.poll()) {
            match output {
                Output::Send { to, mad } => {
                    self.psn = self.psn.wrapping_add(1) & 0x00ff_ffff;
                    network.send(&to.path(), self.psn, &mad.emit());
                }
                Output::Report { id, event } => self.report(network, id, &event),
            }
        }
    }

    /// Has the node call again when something is due.
    pub fn schedule(&self, network: &dyn Network) {
        let agent = self.agent.as_ref().and_then(|(_, agent)| agent.deadline());
        let agent = agent.map(|deadline| deadline.saturating_mul(MILLISECOND));
        let deferred = self.deferred.iter().map(|deferred| deferred.due).min();
        let unwatched = self.unwatched.values().min().copied();
        let others = deferred.into_iter().chain(unwatched);
        let others = others.chain(self.lingering.due());
        let others = others.chain(self.neighbours.due());
        if let Some(due) = agent.into_iter().chain(others).min() {
            network.wake_at(due);
        }
    }

    /// Calls the agent for an id, and executes its requests.
    pub fn with_agent<T>(
        &mut self,
        node: &Arc<dyn Host>,
        call: impl FnOnce(&mut Agent<Route>) -> T,
    ) -> T {
        let network = node.network();
        let answer = call(self.agent(network.slot()));
        self.run(network);
        self.schedule(network);
        answer
    }

    /// Puts an event of an id into its channel.
    pub fn post_event(
        &mut self,
        number: u32,
        event: u32,
        status: i32,
        fill: impl FnOnce(&mut Record),
    ) {
        let Some(id) = self.ids.get(&number) else {
            return;
        };
        let mut record = Record::new(id.uid, number, event, status);
        fill(&mut record);
        if let Some(channel) = self.channels.get_mut(&id.channel) {
            channel.push(Waiting {
                record,
                counts_for: number,
                join: None,
            });
        }
    }

    /// The port of a listener that ends may linger. The connection that it lingers for keeps the
    /// node, which ends it in time.
    fn linger(&mut self, ended: &mut Id) {
        self.lingering.keep_open(self.ids.values());
        if ended.stage != Stage::Listening {
            return;
        }
        let Some(claim) = ended.claim.take() else {
            return;
        };
        if self
            .ids
            .values()
            .any(|id| lingering::is_open_at(id, &claim))
        {
            self.lingering.add(claim, clock::now().nanos());
            if let Some(node) = &ended.node {
                self.schedule(node.network());
            }
        }
    }

    /// Ends an id and its parts; returns how many of its events were delivered.
    pub fn end(&mut self, number: u32) -> Option<u32> {
        self.unlisten(number);
        self.forget_neighbour(number);
        let mut id = self.ids.remove(&number)?;
        self.linger(&mut id);
        if let Some(peer) = id.peer {
            self.peers.leave(peer, number);
        }
        if let Some(channel) = self.channels.get_mut(&id.channel) {
            let unread = channel.take(|event| event.counts_for == number);
            // Unread requests are rejected.
            for event in unread.iter().filter(|event| event.record.id != number) {
                self.end(event.record.id);
            }
        }
        for join in &id.joins {
            self.joins.remove(join);
        }
        if let Some(node) = id.node.take() {
            if let Some(comm_id) = id.comm_id {
                self.with_agent(&node, |agent| agent.close(comm_id, milliseconds()));
            }
            self.discarded.push(Discarded::Node(node));
        }
        if let Some(comm_id) = id.comm_id {
            self.by_comm_id.remove(&comm_id);
        }
        Some(id.reported)
    }
}
