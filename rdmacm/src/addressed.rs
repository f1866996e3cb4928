#![forbid(unsafe_code)]
//! Objects that are found by their addresses: each call of a program looks for one or two.
//!
//! A table of places, at most half of which are taken. An object is at the place that its address
//! selects, or at the next free one behind it, so that a search usually ends at the first place.

/// An object that is found by its address.
pub trait Addressed {
    fn address(&self) -> usize;
}

/// Such objects.
pub struct Table<T> {
    /// None, or a power of two.
    places: Vec<Option<T>>,
    count: usize,
}

/// Places that are made for the first object.
const FIRST: usize = 16;
/// So many places are kept without objects.
const KEPT: usize = 256;

/// The place that an address selects. Addresses differ in their middle bits.
#[inline(always)]
fn home(address: usize, mask: usize) -> usize {
    // 2^64 divided by the golden ratio.
    let product = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from(product >> 32).unwrap_or(0) & mask
}

impl<T: Addressed> Table<T> {
    pub const fn new() -> Self {
        Self {
            places: Vec::new(),
            count: 0,
        }
    }

    /// The place of the object at an address, or the free one for it; none without places.
    #[inline(always)]
    fn place(&self, address: usize) -> Option<usize> {
        let mask = self.places.len().wrapping_sub(1);
        let mut at = home(address, mask);
        // A free place ends the search: at least half of them are free.
        while let Some(object) = self.places.get(at)? {
            if object.address() == address {
                break;
            }
            at = (at + 1) & mask;
        }
        Some(at)
    }

    #[inline]
    pub fn get(&self, address: usize) -> Option<&T> {
        self.places.get(self.place(address)?)?.as_ref()
    }

    /// Adds an object, in place of one at the same address.
    pub fn insert(&mut self, object: T) {
        if 2 * (self.count + 1) > self.places.len() {
            self.resize(FIRST.max(2 * self.places.len()));
        }
        let place = self.place(object.address());
        if let Some(place) = place.and_then(|at| self.places.get_mut(at)) {
            self.count += usize::from(place.is_none());
            *place = Some(object);
        }
    }

    pub fn remove(&mut self, address: usize) -> Option<T> {
        let at = self.place(address)?;
        let removed = self.places.get_mut(at)?.take()?;
        self.count -= 1;
        self.close(at);
        // A process that had many objects gets their memory back.
        if self.places.len() > KEPT && 16 * self.count <= self.places.len() {
            self.resize(KEPT.max((4 * self.count).next_power_of_two()));
        }
        Some(removed)
    }

    /// Moves objects that were put behind a place which is free now, so that a search finds them.
    fn close(&mut self, mut hole: usize) {
        let mask = self.places.len().wrapping_sub(1);
        let mut at = (hole + 1) & mask;
        while let Some(Some(object)) = self.places.get(at) {
            let distance = at.wrapping_sub(home(object.address(), mask)) & mask;
            if distance >= at.wrapping_sub(hole) & mask {
                self.places.swap(hole, at);
                hole = at;
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn resize(&mut self, places: usize) {
        let mut new = Vec::new();
        new.resize_with(places, || None);
        let old = std::mem::replace(&mut self.places, new);
        for object in old.into_iter().flatten() {
            let place = self.place(object.address());
            if let Some(place) = place.and_then(|at| self.places.get_mut(at)) {
                *place = Some(object);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn has_memory(&self) -> bool {
        !self.places.is_empty()
    }

    /// Gives the memory back, if there is no object.
    pub fn release(&mut self) {
        if self.count == 0 {
            self.places = Vec::new();
        }
    }

    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct At(usize);

    impl Addressed for At {
        fn address(&self) -> usize {
            self.0
        }
    }

    #[test]
    fn objects_are_found_until_they_are_removed() {
        let mut table = Table::new();
        assert_eq!(table.get(0), None);
        assert_eq!(table.remove(0), None);
        let objects: Vec<_> = (1..=1000).map(|n| At(0x5555_0000_0000 + n * 544)).collect();
        for object in &objects {
            table.insert(*object);
            table.insert(*object);
        }
        assert_eq!(table.values().count(), 1000);
        for object in &objects {
            assert_eq!(table.get(object.0), Some(object));
            assert_eq!(table.remove(object.0), Some(*object));
            assert_eq!(table.get(object.0), None);
            assert_eq!(table.remove(object.0), None);
        }
        assert_eq!(table.places.len(), KEPT);
        table.release();
        assert!(!table.has_memory());
    }

    /// Objects that the same place is for, at the end of the table, among others.
    #[test]
    fn objects_behind_a_removed_one_are_found() {
        let mask = FIRST - 1;
        let last: Vec<_> = (1..).filter(|n| home(*n, mask) == mask).take(4).collect();
        let first = (1..).find(|n| home(*n, mask) == 0).unwrap();
        for removed in 0..5 {
            let mut all = last.clone();
            all.insert(2, first);
            let mut table = Table::new();
            all.iter().for_each(|address| table.insert(At(*address)));
            let address = all.remove(removed);
            assert_eq!(table.remove(address), Some(At(address)));
            assert_eq!(table.get(address), None);
            assert!(all.iter().all(|address| table.get(*address).is_some()));
        }
    }

    /// As a map of the standard library, whatever the order.
    #[test]
    fn it_has_the_objects_that_were_put_in_and_not_removed() {
        let mut expected = std::collections::BTreeSet::new();
        let mut table = Table::new();
        let mut number = 1_usize;
        for _ in 0..20_000 {
            number = number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let address = (number >> 40) % 300 * 16;
            if number >> 33 & 1 == 0 {
                table.insert(At(address));
                expected.insert(address);
            } else {
                assert_eq!(table.remove(address).is_some(), expected.remove(&address));
            }
        }
        assert_eq!(table.values().count(), expected.len());
        for address in (0..300).map(|n| n * 16) {
            assert_eq!(table.get(address).is_some(), expected.contains(&address));
        }
    }
}
