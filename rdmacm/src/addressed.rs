#![forbid(unsafe_code)]
//! Objects that are found by their addresses.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Objects by their addresses.
pub struct Addressed<T>(HashMap<usize, T, BuildHasherDefault<AddressHasher>>);

/// Memory for so many objects is kept without them.
const KEPT: usize = 112;

impl<T> Addressed<T> {
    pub const fn new() -> Self {
        Self(HashMap::with_hasher(BuildHasherDefault::new()))
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

/// Spreads addresses. They are no input from outside, so no secret is needed.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    fn write_usize(&mut self, address: usize) {
        // 2^64 divided by the golden ratio. The halves of the product supply each other: addresses
        // differ little, in their middle bits.
        let product = u128::from(self.0 ^ address as u64) * 0x9e37_79b9_7f4a_7c15;
        let [low, high] = bytemuck::cast::<_, [u64; 2]>(product);
        self.0 = low ^ high;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

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

    #[test]
    fn addresses_at_equal_distances_are_spread() {
        // Of a table with 1024 places.
        let place = |address: usize| {
            let mut hasher = AddressHasher::default();
            hasher.write_usize(address);
            hasher.finish() & 1023
        };
        for distance in [16, 544, 4096] {
            let places: BTreeSet<_> = (0..512)
                .map(|n| place(0x7000_0000 + n * distance))
                .collect();
            assert!(places.len() > 300, "{distance}: {}", places.len());
        }
    }
}
