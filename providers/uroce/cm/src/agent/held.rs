//! Requests for ports that are bound and do not listen yet. A server that replaces its listener has
//! such a port for a moment; a client that is quicker waits for the new one.
//!
//! A request is kept as it came, and received again when it has waited enough: when the owner of
//! the port listens, or gives the port up, or does not listen in time.

use std::collections::VecDeque;

use crate::wire::{Mad, Message};

/// How long a request waits, in milliseconds.
pub const PATIENCE: u64 = 2000;
/// Requests that wait for one owner at most.
pub const MOST: usize = 128;

/// A request that waits.
#[derive(Debug)]
struct Request<P> {
    owner: u64,
    from: P,
    mad: Mad,
    deadline: u64,
}

/// By which a request that is repeated is known again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Connection(u64, u32),
    Resolution(u32),
}

impl Key {
    fn of(mad: &Mad) -> Option<Self> {
        match &mad.message {
            Message::Req(req) => Some(Self::Connection(req.local_ca_guid, req.local_comm_id)),
            Message::SidrReq(req) => Some(Self::Resolution(req.request_id)),
            _ => None,
        }
    }
}

/// The requests that wait, the oldest first.
#[derive(Debug)]
pub struct Held<P>(VecDeque<Request<P>>);

impl<P> Default for Held<P> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<P: Copy + Eq> Held<P> {
    /// Keeps a request. One that waits already, and one too many, are dropped: a request without an
    /// answer is repeated.
    pub fn add(&mut self, owner: u64, from: P, mad: &Mad, now: u64) {
        let mut of_owner = self.0.iter().filter(|request| request.owner == owner);
        let is_same =
            |request: &Request<P>| request.from == from && Key::of(&request.mad) == Key::of(mad);
        if of_owner.clone().count() < MOST && !of_owner.any(is_same) {
            self.0.push_back(Request {
                owner,
                from,
                mad: *mad,
                deadline: now.saturating_add(PATIENCE),
            });
        }
    }

    /// When the oldest has waited enough.
    pub fn deadline(&self) -> Option<u64> {
        self.0.front().map(|request| request.deadline)
    }

    /// Takes out one that has waited enough.
    pub fn due(&mut self, now: u64) -> Option<(P, Mad)> {
        self.0.front().filter(|request| request.deadline <= now)?;
        let request = self.0.pop_front()?;
        Some((request.from, request.mad))
    }

    /// Takes out those that wait for an owner.
    pub fn take(&mut self, owner: u64) -> Vec<(P, Mad)> {
        let (of_owner, others) = std::mem::take(&mut self.0)
            .into_iter()
            .partition::<VecDeque<_>, _>(|request| request.owner == owner);
        self.0 = others;
        let requests = of_owner.into_iter();
        requests
            .map(|request| (request.from, request.mad))
            .collect()
    }

    /// Takes out all.
    pub fn take_all(&mut self) -> Vec<(P, Mad)> {
        let requests = std::mem::take(&mut self.0).into_iter();
        requests
            .map(|request| (request.from, request.mad))
            .collect()
    }

    /// Whether the request of a peer waits, by its GUID and communication id.
    pub fn has(&self, (guid, id): (u64, u32)) -> bool {
        let key = Some(Key::Connection(guid, id));
        self.0.iter().any(|request| Key::of(&request.mad) == key)
    }

    /// A peer has given up its request. Returns whether it waited.
    pub fn revoke(&mut self, from: P, (guid, id): (u64, u32)) -> bool {
        let key = Some(Key::Connection(guid, id));
        let before = self.0.len();
        self.0
            .retain(|request| request.from != from || Key::of(&request.mad) != key);
        self.0.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Req, SidrReq};

    fn request(id: u32) -> Mad {
        let req = Req {
            local_ca_guid: 5,
            local_comm_id: id,
            ..Req::default()
        };
        Mad {
            transaction: 0,
            modifier: 0,
            message: req.into(),
        }
    }

    #[test]
    fn a_request_waits_once_and_for_its_owner() {
        let mut held = Held::default();
        for now in 0..3 {
            held.add(1, 'a', &request(7), now);
        }
        held.add(1, 'b', &request(7), 3);
        held.add(2, 'a', &request(8), 4);
        assert_eq!(held.deadline(), Some(PATIENCE));
        assert!(held.has((5, 8)) && !held.has((5, 9)) && !held.has((6, 8)));
        assert_eq!(held.take(1), [('a', request(7)), ('b', request(7))]);
        assert_eq!(held.take(1), []);
        assert_eq!(held.due(PATIENCE + 3), None);
        assert_eq!(held.due(PATIENCE + 4), Some(('a', request(8))));
        assert_eq!(held.deadline(), None);
    }

    #[test]
    fn no_more_wait_for_an_owner_than_the_limit() {
        let mut held = Held::default();
        for id in 0..1000 {
            held.add(1, (), &request(id), 0);
        }
        held.add(2, (), &request(1), 0);
        assert_eq!(held.take(1).len(), MOST);
        assert_eq!(held.take_all().len(), 1);
    }

    #[test]
    fn a_request_is_revoked_by_its_sender() {
        let mut held = Held::default();
        held.add(1, 'a', &request(7), 0);
        assert!(!held.revoke('b', (5, 7)));
        assert!(!held.revoke('a', (5, 8)));
        assert!(held.revoke('a', (5, 7)));
        let resolution = Mad {
            message: SidrReq {
                request_id: 7,
                ..SidrReq::default()
            }
            .into(),
            ..request(0)
        };
        held.add(1, 'a', &resolution, 0);
        held.add(1, 'a', &resolution, 0);
        assert!(!held.revoke('a', (0, 7)));
        assert_eq!(held.take_all(), [('a', resolution)]);
    }
}
