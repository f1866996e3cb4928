#![forbid(unsafe_code)]
//! Objects that are found by their addresses.

use kit::own_keys::Map;
use std::hash::BuildHasherDefault;

/// Objects by their addresses.
pub struct Addressed<T>(Map<usize, T>);

/// Memory for so many objects is kept without them.
const KEPT: usize = 112;

impl<T> Addressed<T> {
    pub const fn new() -> Self {
        Self(Map::with_hasher(BuildHasherDefault::new()))
    }

    pub fn get(&self, address: usize) -> Option<&T> {
        self.0.get(&address)
    }

    pub fn insert(&mut self, address: usize, object: T) {
        self.0.insert(address, object);
    }

    pub fn remove(&mut self, address: usize) -> Option<T> {
        let removed = self.0.remove(&address);
        // A process that had many objects gets their memory back.
        if self.0.capacity() > KEPT && self.0.len() <= self.0.capacity() / 8 {
            self.0.shrink_to(KEPT.max(2 * self.0.len()));
        }
        removed
    }

    pub fn has_memory(&self) -> bool {
        self.0.capacity() > 0
    }

    /// Gives the memory back, if there is no object.
    pub fn release(&mut self) {
        if self.0.is_empty() {
            self.0.shrink_to_fit();
        }
    }

    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.0.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_found_until_they_are_removed() {
        let mut table = Addressed::new();
        let addresses: Vec<_> = (1..=1000).map(|n| 0x5555_0000_0000 + n * 544).collect();
        for address in &addresses {
            table.insert(*address, *address);
        }
        assert_eq!(table.values().count(), 1000);
        for address in &addresses {
            assert_eq!(table.get(*address), Some(address));
            assert_eq!(table.remove(*address), Some(*address));
            assert_eq!(table.remove(*address), None);
        }
        assert!((1..2 * KEPT).contains(&table.0.capacity()));
        table.release();
        assert!(!table.has_memory());
    }
}
