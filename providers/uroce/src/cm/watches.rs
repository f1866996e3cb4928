//! Peers on this host, whose end is noticed. A process that is killed sends nothing.
//!
//! A message names its sender by the slot only. The slot of a process that has ended may be another
//! one's before the end is noticed here, and so may that of a process that has closed its devices.
//! Therefore the process is verified again when a connection begins and no other one is open to
//! it, and otherwise it is asked whether it has ended.

use super::address::{Route, port_of};
use super::host::{End, Host, Network};
use super::id::Stage;
use super::inbound::slot_of;
use super::peers::Process;
use super::state::{Cm, Discarded, State, milliseconds};
use crate::clock;
use std::os::fd::AsFd;
use std::sync::Arc;

/// When a process is looked for again that is not known yet.
const AGAIN: u64 = 10_000_000;

impl Cm {
    /// A process has ended.
    fn ended(&self, process: Process) {
        self.with(|state| {
            for (comm_id, node) in state.forget_peer(process) {
                state.with_agent(&node, |agent| agent.vanished(comm_id, milliseconds()));
                state.discarded.push(Discarded::Node(node));
            }
        });
    }
}

impl State {
    /// Ids whose peer is at a slot of this host, in a process that is not watched.
    fn unwatched_at(&mut self, slot: u16) -> Vec<u32> {
        let Some(agent) = self.known_agent() else {
            return Vec::new();
        };
        let peers = agent.peers();
        let of_slot = peers.filter(|(_, peer, route)| slot_of(*peer) == slot && is_here(route));
        let comm_ids: Vec<_> = of_slot.map(|(comm_id, ..)| comm_id).collect();
        let ids = comm_ids.into_iter().filter_map(|comm_id| {
            let number = self.by_comm_id.get(&comm_id)?;
            let id = self.ids.get(number)?;
            id.peer.is_none().then_some(*number)
        });
        ids.collect()
    }

    /// Ends the watch of a process. Returns the connections to it.
    fn forget_peer(&mut self, process: Process) -> Vec<(u32, Arc<dyn Host>)> {
        let Some((watch, numbers)) = self.peers.remove(process) else {
            return Vec::new();
        };
        self.discarded.push(Discarded::Watch(watch));
        let ids = numbers.iter().filter_map(|number| {
            let id = self.ids.get(number)?;
            Some((id.comm_id?, id.node.clone()?))
        });
        ids.collect()
    }

    /// The peers of these connections have ended. What the agent says of them is to be carried out.
    fn vanish(&mut self, connections: impl IntoIterator<Item = (u32, Arc<dyn Host>)>) {
        for (comm_id, node) in connections {
            if let Some(agent) = self.known_agent() {
                agent.vanished(comm_id, milliseconds());
            }
            self.discarded.push(Discarded::Node(node));
        }
    }

    /// Sees to it that the end of a peer's process is seen, if that is one of this host and user.
    /// What the agent says is to be carried out.
    pub fn watch_peer(&mut self, network: &dyn Network, comm_id: u32) {
        let peer = self.known_agent().and_then(|agent| agent.peer(comm_id));
        let Some((peer, route)) = peer else {
            return;
        };
        let slot = slot_of(peer);
        if slot == network.slot() || !is_here(&route) {
            return;
        }
        let Some(number) = self.by_comm_id.get(&comm_id).copied() else {
            return;
        };
        if self.ids.get(&number).is_none_or(|id| id.peer.is_some()) {
            return;
        }
        match self.watched_at(slot) {
            Some(process) => self.belongs_to(process, number),
            None => self.watch_slot(network, slot, &[number]),
        }
    }

    /// The watched process of a slot, if the slot is still its.
    fn watched_at(&mut self, slot: u16) -> Option<Process> {
        let process = self.peers.at(slot)?;
        let ids = &self.ids;
        let is_open = |id| {
            let id = ids.get(&id);
            id.is_some_and(|id| id.stage == Stage::Connecting)
        };
        let has_open = self.peers.has_open(process, is_open);
        if has_open && !self.peers.has_ended(process) {
            return Some(process);
        }
        let connections = self.forget_peer(process);
        // Otherwise there are none that could end.
        if has_open {
            self.vanish(connections);
        }
        None
    }

    fn belongs_to(&mut self, process: Process, number: u32) {
        if let Some(id) = self.ids.get_mut(&number) {
            id.peer = Some(process);
            self.peers.join(process, number);
        }
    }

    /// Looks again for the processes that were not known yet. What the agent says of them is to be
    /// carried out.
    pub fn watch_again(&mut self, network: &dyn Network) {
        let now = clock::now().nanos();
        let due: Vec<_> = self.unwatched.extract_if(|_, due| *due <= now).collect();
        for (slot, _) in due {
            let numbers = self.unwatched_at(slot);
            self.watch_slot(network, slot, &numbers);
        }
    }

    /// Watches the process of a slot for these ids.
    fn watch_slot(&mut self, network: &dyn Network, slot: u16, numbers: &[u32]) {
        let ids = numbers.iter().filter_map(|number| {
            let id = self.ids.get(number)?;
            Some((id.comm_id?, id.node.clone()?))
        });
        let connections: Vec<_> = ids.collect();
        let Some((_, node)) = connections.first() else {
            return;
        };
        match network.end_of(slot) {
            End::Awaited(end) => {
                let process = self.peers.process(slot);
                let me = self.me.clone();
                let ends = move || {
                    if let Some(cm) = me.upgrade() {
                        cm.ended(process);
                    }
                };
                if let Ok(watch) = node.watch(end.as_fd(), Box::new(ends)) {
                    let before = self.peers.add(process, watch);
                    self.discarded.extend(before.map(Discarded::Watch));
                    for number in numbers {
                        self.belongs_to(process, *number);
                    }
                }
            }
            // It ended before it could be watched.
            End::Past => return self.vanish(connections),
            End::Unclear => {
                let due = clock::now().nanos().saturating_add(AGAIN);
                self.unwatched.insert(slot, due);
            }
            End::Hidden => {}
        }
        let nodes = connections
            .into_iter()
            .map(|(_, node)| Discarded::Node(node));
        self.discarded.extend(nodes);
    }
}

/// Whether a peer's address is one of this host's.
fn is_here(route: &Route) -> bool {
    route.source == route.destination || port_of(route.destination, 0).is_ok()
}

#[cfg(test)]
mod tests;
