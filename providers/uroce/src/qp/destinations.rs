//! Where datagrams go, between being posted and leaving (ibv_create_ah(3)).
//!
//! A program may destroy an address handle as soon as it has posted a request with it: cards copy
//! the address vector into the entry of the send queue. So each request keeps its path.
//!
//! Datagrams of a queue pair leave in the order in which they were posted. The paths are a queue,
//! and a path is named by its place in the sequence of all. A path of a flushed request is never
//! asked for. It is dropped when a later datagram leaves, or when the queue holds more paths than
//! there can be requests.

use crate::carrier::udp::Path;
use std::collections::VecDeque;

/// Paths by the names that the engine has for them.
#[derive(Default)]
pub struct Destinations {
    waiting: VecDeque<Path>,
    /// The name of the first.
    first: u64,
}

impl Destinations {
    /// Keeps the path of a request of a send queue with room for so many; returns its name.
    pub fn keep(&mut self, path: Path, max_send_wr: usize) -> u64 {
        self.waiting.push_back(path);
        // A request is refused only after it was converted: there may be one more.
        let old = self.waiting.len().saturating_sub(max_send_wr + 1);
        self.drop_first(old);
        self.next() - 1
    }

    /// Takes the path of a datagram that leaves.
    pub fn take(&mut self, name: u64) -> Option<Path> {
        let before = usize::try_from(name.checked_sub(self.first)?).ok()?;
        if before >= self.waiting.len() {
            return None;
        }
        self.drop_first(before);
        self.first += 1;
        self.waiting.pop_front()
    }

    /// A request was refused after its path was kept. Those kept later are of refused requests,
    /// too.
    pub fn discard(&mut self, name: u64) {
        let before = name.saturating_sub(self.first);
        if let Ok(before) = usize::try_from(before) {
            self.waiting.truncate(before);
        }
    }

    /// Forgets those of requests that were flushed.
    pub fn clear(&mut self) {
        self.first = self.next();
        self.waiting.clear();
    }

    /// The name of the next.
    fn next(&self) -> u64 {
        // As many as fit into memory.
        self.first + self.waiting.len() as u64
    }

    fn drop_first(&mut self, count: usize) {
        self.first += self.waiting.drain(..count).len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn path(number: u8) -> Path {
        let address = Ipv4Addr::new(127, 0, 0, number).into();
        Path {
            source: address,
            destination: address,
            interface: 1,
            traffic_class: 0,
            hop_limit: 0,
            local: true,
        }
    }

    #[test]
    fn each_request_has_its_path_once() {
        let mut destinations = Destinations::default();
        let names = [1, 2, 3].map(|number| destinations.keep(path(number), 4));
        for (name, number) in names.into_iter().zip(1..) {
            assert_eq!(destinations.take(name), Some(path(number)));
            assert_eq!(destinations.take(name), None);
        }
        assert_eq!(destinations.take(names[2] + 1), None);
    }

    #[test]
    fn flushed_requests_are_passed_over() {
        let mut destinations = Destinations::default();
        let names = [1, 2, 3].map(|number| destinations.keep(path(number), 4));
        assert_eq!(destinations.take(names[2]), Some(path(3)));
        assert_eq!(destinations.take(names[0]), None);
        let old = destinations.keep(path(4), 4);
        destinations.clear();
        assert_eq!(destinations.take(old), None);
        let new = destinations.keep(path(5), 4);
        assert_ne!(old, new);
        assert_eq!(destinations.take(new), Some(path(5)));
    }

    #[test]
    fn flushed_requests_take_no_room() {
        let mut destinations = Destinations::default();
        for _ in 0..1000 {
            destinations.keep(path(1), 4);
        }
        assert_eq!(destinations.waiting.len(), 5);
        let name = destinations.keep(path(2), 4);
        assert_eq!(destinations.take(name), Some(path(2)));
    }

    #[test]
    fn a_full_queue_loses_none_to_a_refused_request() {
        let mut destinations = Destinations::default();
        let names = [1, 2, 3, 4].map(|number| destinations.keep(path(number), 4));
        for _ in 0..10 {
            let refused = destinations.keep(path(9), 4);
            destinations.discard(refused);
        }
        for (name, number) in names.into_iter().zip(1..) {
            assert_eq!(destinations.take(name), Some(path(number)));
        }
    }
}
