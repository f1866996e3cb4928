//! Peers on this host, whose end is noticed. A process that is killed sends nothing.

use super::address::{Route, port_of};
use super::host::{End, Host, Network};
use super::inbound::slot_of;
use super::state::{Cm, Discarded, State, milliseconds};
use crate::clock;
use std::os::fd::AsFd;
use std::sync::Arc;

/// When a process is looked for again that is not known yet.
const AGAIN: u64 = 10_000_000;

impl Cm {
    /// The process of a slot has ended.
    fn ended(&self, slot: u16) {
        self.with(|state| {
            if let Some(watch) = state.watches.remove(&slot) {
                state.discarded.push(Discarded::Watch(watch));
            }
            let of_slot: Vec<_> = state.connections_with(slot);
            for (comm_id, node) in of_slot {
                state.with_agent(&node, |agent| agent.vanished(comm_id, milliseconds()));
                state.discarded.push(Discarded::Node(node));
            }
        });
    }
}

impl State {
    /// Connections whose peer is the process of a slot of this host.
    fn connections_with(&mut self, slot: u16) -> Vec<(u32, Arc<dyn Host>)> {
        let Some(agent) = self.known_agent() else {
            return Vec::new();
        };
        let peers = agent.peers();
        let of_slot = peers.filter(|(_, peer, route)| slot_of(*peer) == slot && is_here(route));
        let comm_ids: Vec<_> = of_slot.map(|(comm_id, ..)| comm_id).collect();
        let ids = comm_ids.into_iter().filter_map(|comm_id| {
            let number = self.by_comm_id.get(&comm_id)?;
            Some((comm_id, self.ids.get(number)?.node.clone()?))
        });
        ids.collect()
    }

    /// Sees to it that the end of a peer's process is seen, if that is one of this host and user.
    pub fn watch_peer(&mut self, network: &dyn Network, comm_id: u32) {
        let peer = self.known_agent().and_then(|agent| agent.peer(comm_id));
        let Some((peer, route)) = peer else {
            return;
        };
        let slot = slot_of(peer);
        if slot == network.slot() || self.watches.contains_key(&slot) || !is_here(&route) {
            return;
        }
        let number = self.by_comm_id.get(&comm_id);
        let id = number.and_then(|number| self.ids.get(number));
        if let Some(node) = id.and_then(|id| id.node.clone()) {
            self.watch_slot(network, &node, slot);
            self.discarded.push(Discarded::Node(node));
        }
    }

    /// Looks again for the processes that were not known yet. What the agent says of them is to be
    /// carried out.
    pub fn watch_again(&mut self, network: &dyn Network) {
        let now = clock::now().nanos();
        let due: Vec<_> = self.unwatched.extract_if(|_, due| *due <= now).collect();
        for (slot, _) in due {
            let mut of_slot = self.connections_with(slot).into_iter();
            if let Some((_, node)) = of_slot.next() {
                self.watch_slot(network, &node, slot);
                self.discarded.push(Discarded::Node(node));
            }
            let nodes = of_slot.map(|(_, node)| Discarded::Node(node));
            self.discarded.extend(nodes);
        }
    }

    fn watch_slot(&mut self, network: &dyn Network, node: &Arc<dyn Host>, slot: u16) {
        match network.end_of(slot) {
            End::Awaited(process) => {
                let me = self.me.clone();
                let ends = move || {
                    if let Some(cm) = me.upgrade() {
                        cm.ended(slot);
                    }
                };
                if let Ok(watch) = node.watch(process.as_fd(), Box::new(ends)) {
                    self.watches.insert(slot, watch);
                }
            }
            // It ended before it could be watched.
            End::Past => {
                for (comm_id, node) in self.connections_with(slot) {
                    if let Some(agent) = self.known_agent() {
                        agent.vanished(comm_id, milliseconds());
                    }
                    self.discarded.push(Discarded::Node(node));
                }
            }
            End::Unclear => {
                let due = clock::now().nanos().saturating_add(AGAIN);
                self.unwatched.insert(slot, due);
            }
            End::Hidden => {}
        }
    }
}

/// Whether a peer's address is one of this host's.
fn is_here(route: &Route) -> bool {
    route.source == route.destination || port_of(route.destination, 0).is_ok()
}
