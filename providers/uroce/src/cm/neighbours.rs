//! Ids that wait until the kernel knows the neighbour that leads to their destination, as the
//! kernel's connection manager does (`addr_resolve` of its addr.c): `ADDR_RESOLVED` is reported
//! when the neighbour has answered, and `ADDR_ERROR` when the program's time is over.
//!
//! The kernel is asked for the present state after each notification of a change. Where it cannot
//! be asked, and where it does not begin to ask for the neighbour, no id waits.

use super::awaited::{Resolved, Waiting};
use super::host::Host;
use super::id::Stage;
use super::state::{Cm, Discarded, State};
use crate::clock;
use crate::netdev::Notifications;
use crate::netdev::neighbour::{Neighbour, State as Known};
use kit::cm::event_type;
use kit::errno::Result;
use kit::netlink::connection::Connection;
use std::collections::HashSet;
use std::os::fd::AsFd;
use std::sync::Arc;

const MILLISECOND: u64 = 1_000_000;

impl Cm {
    /// The kernel has notified of changes.
    fn neighbours_changed(&self) {
        let Ok(mut kernel) = Connection::open(None, 0) else {
            return;
        };
        self.with(|state| {
            let waiting = state.neighbours.waiting.values();
            let neighbours: HashSet<_> = waiting.map(|waiting| waiting.neighbour).collect();
            for neighbour in neighbours {
                if neighbour.state(&mut kernel) == Known::Known {
                    let of_it = |waiting: &Waiting| waiting.neighbour == neighbour;
                    for number in state.neighbours.those(of_it) {
                        state.answered(number);
                    }
                }
            }
        });
    }
}

impl State {
    /// Reports that the address is resolved, when the neighbour has answered.
    pub fn resolve_neighbour(&mut self, number: u32, found: Resolved, milliseconds: u32) {
        let Some(neighbour) = self.unanswered(number, &found) else {
            return self.resolved(number, &found);
        };
        let time = u64::from(milliseconds).saturating_mul(MILLISECOND);
        let waiting = Waiting {
            neighbour,
            found,
            due: clock::now().nanos().saturating_add(time),
        };
        self.neighbours.waiting.insert(number, waiting);
        let Some(id) = self.ids.get_mut(&number) else {
            return;
        };
        id.stage = Stage::Resolving;
        if let Some(node) = id.node.clone() {
            self.schedule(node.network());
            self.discarded.push(Discarded::Node(node));
        }
    }

    /// The neighbour to wait for, which the kernel has begun to ask for. Changes are watched.
    fn unanswered(&mut self, number: u32, found: &Resolved) -> Option<Neighbour> {
        let Resolved { port, .. } = found;
        if !port.has_neighbours() || port.has(found.destination) {
            return None;
        }
        let mut kernel = Connection::open(None, 0).ok()?;
        let (from, to) = (found.source, found.destination);
        let neighbour = Neighbour::of(&mut kernel, from, to, port.interface())?;
        if neighbour.state(&mut kernel) == Known::Known {
            return None;
        }
        let node = self.ids.get(&number)?.node.clone()?;
        let watched = self.watch_neighbours(&node);
        self.discarded.push(Discarded::Node(node));
        if watched.is_ok() && is_asked_for(&neighbour, &mut kernel) {
            return Some(neighbour);
        }
        self.end_watch();
        None
    }

    fn watch_neighbours(&mut self, node: &Arc<dyn Host>) -> Result<()> {
        if self.neighbours.watch.is_some() {
            return Ok(());
        }
        let me = self.me.clone();
        let mut notifications = Notifications::of_neighbours()?;
        let watched = notifications.as_fd().try_clone_to_owned()?;
        let changed = move || {
            // Lost notifications count, too.
            let _ = notifications.take();
            if let Some(cm) = me.upgrade() {
                cm.neighbours_changed();
            }
        };
        self.neighbours.watch = Some(node.watch(watched.as_fd(), Box::new(changed))?);
        Ok(())
    }

    /// The neighbour of an id has answered.
    fn answered(&mut self, number: u32) {
        if let Some(waiting) = self.neighbours.waiting.remove(&number) {
            self.resolved(number, &waiting.found);
        }
        self.end_watch();
    }

    /// Reports the ids whose time is over.
    pub fn give_up_neighbours(&mut self) {
        let now = clock::now().nanos();
        let over = self.neighbours.those(|waiting| waiting.due <= now);
        if over.is_empty() {
            return;
        }
        let mut kernel = Connection::open(None, 0).ok();
        for number in over {
            let neighbour = self.neighbours.waiting.get(&number);
            let neighbour = neighbour.map(|waiting| waiting.neighbour);
            let asked = neighbour.zip(kernel.as_mut());
            if asked.is_some_and(|(neighbour, kernel)| neighbour.state(kernel) == Known::Known) {
                self.answered(number);
                continue;
            }
            self.forget_neighbour(number);
            if let Some(id) = self.ids.get_mut(&number) {
                id.stage = Stage::Bound;
            }
            self.post_event(number, event_type::ADDR_ERROR, -libc::ETIMEDOUT, |_| ());
        }
    }

    /// An id waits no more.
    pub fn forget_neighbour(&mut self, number: u32) {
        if self.neighbours.waiting.remove(&number).is_some() {
            self.end_watch();
        }
    }

    /// Ends the watch if no id waits.
    fn end_watch(&mut self) {
        if self.neighbours.waiting.is_empty()
            && let Some(watch) = self.neighbours.watch.take()
        {
            self.discarded.push(Discarded::Watch(watch));
        }
    }
}

/// The port of the datagram by which the kernel begins to ask (RFC 863). It is not that of RoCE:
/// the soft-RoCE of Linux 6.1 ends its kernel at an empty datagram over IPv6.
const DISCARD: u16 = 9;

/// Has the kernel ask for a neighbour. Whether there is an answer to wait for: it may come
/// meanwhile, and the packet may be dropped on its way.
fn is_asked_for(neighbour: &Neighbour, kernel: &mut Connection) -> bool {
    if neighbour.state(kernel) != Known::Pending && neighbour.resolve(DISCARD).is_err() {
        return false;
    }
    matches!(neighbour.state(kernel), Known::Pending | Known::Failed)
}
