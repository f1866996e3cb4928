//! The GID table of a port: RoCE v2 GIDs, which are the interface's addresses
//! (ibv_query_gid_table(3); IBTA volume 1, annex A17).

use std::net::IpAddr;

/// Places of the table: as many as an address vector can name (`sgid_index` has 8 bits).
pub const PLACES: u32 = 256;

/// The table. An address keeps its place as long as the interface has it; a new one takes the
/// first that is free, so that place 0 of a new table is in use if there is any address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gids(Vec<Option<IpAddr>>);

impl Gids {
    /// Updates the table from the present addresses, in the order in which new ones are to be
    /// placed. Those beyond the end of the table wait for a free place. Returns whether the table
    /// has changed.
    pub fn follow(&mut self, addresses: &[IpAddr]) -> bool {
        let before = self.0.clone();
        for place in &mut self.0 {
            *place = place.filter(|known| addresses.contains(known));
        }
        for address in addresses {
            if !self.has(*address) {
                self.add(*address);
            }
        }
        while let Some(None) = self.0.last() {
            self.0.pop();
        }
        self.0 != before
    }

    fn add(&mut self, address: IpAddr) {
        let full = u32::try_from(self.0.len()).is_ok_and(|len| len >= PLACES);
        match self.0.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(address),
            None if full => {}
            None => self.0.push(Some(address)),
        }
    }

    /// Whether an address is in the table.
    pub fn has(&self, address: IpAddr) -> bool {
        self.0.contains(&Some(address))
    }

    /// The address at a place, if it is in use.
    pub fn at(&self, place: u32) -> Option<IpAddr> {
        let place = usize::try_from(place).ok()?;
        self.0.get(place).copied().flatten()
    }

    /// Places in use, and their addresses.
    pub fn in_use(&self) -> impl Iterator<Item = (u32, IpAddr)> {
        let places = (0..).zip(&self.0);
        places.filter_map(|(place, address)| Some((place, (*address)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::net::Ipv4Addr;

    fn ip(n: u32) -> IpAddr {
        Ipv4Addr::from_bits(n).into()
    }

    #[test]
    fn places_stay() {
        let mut gids = Gids::default();
        assert!(gids.follow(&[ip(1), ip(2), ip(3)]));
        assert!(
            !gids.follow(&[ip(3), ip(1), ip(2)]),
            "only the order changed"
        );
        assert!(gids.follow(&[ip(2), ip(3)]));
        assert_eq!((gids.at(0), gids.at(1)), (None, Some(ip(2))));
        assert!(gids.follow(&[ip(2), ip(3), ip(4)]));
        assert_eq!((gids.at(0), gids.at(3)), (Some(ip(4)), None));
        assert!(gids.follow(&[]));
        assert_eq!(gids, Gids::default());
        assert!(!gids.has(ip(2)));
    }

    #[test]
    fn a_full_table_takes_more_when_a_place_is_free() {
        let all: Vec<_> = (1..=PLACES + 2).map(ip).collect();
        let mut gids = Gids::default();
        gids.follow(&all);
        assert_eq!(gids.in_use().count(), 256);
        assert_eq!(gids.at(PLACES - 1), Some(ip(PLACES)));
        assert_eq!(gids.at(PLACES), None);
        gids.follow(&all[1..]);
        assert_eq!(gids.at(0), Some(ip(PLACES + 1)));
        assert!(!gids.has(ip(PLACES + 2)));
    }

    proptest! {
        #[test]
        fn the_table_is_the_addresses_and_none_moves(
            lists in prop::collection::vec(prop::collection::hash_set(0u32..40, 0..30), 1..20),
        ) {
            let mut gids = Gids::default();
            let mut places = HashMap::new();
            for list in lists {
                let addresses: Vec<_> = list.iter().copied().map(ip).collect();
                let before = gids.clone();
                prop_assert_eq!(gids.follow(&addresses), gids != before);
                let now: HashMap<_, _> = gids.in_use().map(|(place, ip)| (ip, place)).collect();
                prop_assert_eq!(now.len(), addresses.len());
                for address in &addresses {
                    let place = now.get(address);
                    prop_assert!(place.is_some());
                    if let Some(was) = places.get(address) {
                        prop_assert_eq!(place, Some(was));
                    }
                }
                places = now;
            }
        }
    }
}
