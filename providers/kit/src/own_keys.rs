//! Hash tables whose keys this process selects: addresses of its objects, numbers that it counts.
//! No peer can select keys that collide, so no secret is needed, and a key costs a multiplication.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table with such keys.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

/// Spreads a key.
#[derive(Default)]
pub struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_usize(&mut self, address: usize) {
        self.write_u64(address as u64);
    }

    fn write_u64(&mut self, key: u64) {
        // 2^64 divided by the golden ratio. The halves of the product supply each other: keys
        // differ little, addresses in their middle bits.
        let product = u128::from(self.0 ^ key) * 0x9e37_79b9_7f4a_7c15;
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
    fn keys_at_equal_distances_are_spread() {
        for distance in [1, 16, 544, 4096] {
            // Of a table with 1024 places.
            let places: BTreeSet<_> = (0..512)
                .map(|n| {
                    let mut hasher = Spread::default();
                    hasher.write_usize(0x7000_0000 + n * distance);
                    hasher.finish() & 1023
                })
                .collect();
            assert!(places.len() > 300, "{distance}: {}", places.len());
        }
    }

    #[test]
    fn equal_keys_are_found() {
        let mut map = Map::default();
        for key in 0..1000_u32 {
            map.insert(key, key);
        }
        assert!((0..1000).all(|key| map.get(&key) == Some(&key)));
        assert_eq!(map.get(&1000), None);
    }
}
