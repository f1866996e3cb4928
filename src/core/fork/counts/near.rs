#![forbid(unsafe_code)]
//! The short way: a range whose pages lie in one leaf or in two neighbours that are there
//! already, as most do where many ranges are live. The tree stays as it is, so no memory is
//! needed and nothing above the leaves is looked at but the node that was found last.

use super::super::leaf::{LEAF_PAGES, mask};
use super::{NODE_BITS, NONE, PageCounts, Pages, TOP, index};

/// Some of 128 neighbouring pages, one bit a page.
#[derive(Clone, Copy)]
pub struct Block {
    base: u64,
    bits: u128,
}

impl Block {
    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// From the first to the last, whatever lies between.
    pub fn span(self) -> Pages {
        let (before, behind) = (self.bits.trailing_zeros(), self.bits.leading_zeros());
        let end = u128::BITS.saturating_sub(behind);
        self.base + u64::from(before.min(end))..self.base + u64::from(end)
    }

    /// Every longest run, in ascending order.
    pub fn runs(self) -> impl Iterator<Item = Pages> {
        let Self { base, mut bits } = self;
        std::iter::from_fn(move || {
            if bits == 0 {
                return None;
            }
            let from = bits.trailing_zeros();
            let to = from + (bits >> from).trailing_ones();
            // Adding to the lowest bit of a run carries through the run.
            bits &= bits.wrapping_add(1 << from);
            Some(base + u64::from(from)..base + u64::from(to))
        })
    }

    /// Whether the pages are one run, or none.
    pub fn is_run(self) -> bool {
        let low = self.bits & self.bits.wrapping_neg();
        self.bits & self.bits.wrapping_add(low) == 0
    }
}

/// Where the pages of a range are counted. Good until the tree changes.
pub struct Spot {
    base: u64,
    /// The second has an empty mask where one leaf is enough.
    parts: [Part; 2],
}

/// Some pages of one leaf.
#[derive(Clone, Copy)]
struct Part {
    leaf: u32,
    mask: u64,
    /// Whether a range counted further up covers them.
    covered: bool,
}

/// A node of level 0 that was found, and the leaves below it.
#[derive(Clone, Copy)]
pub(super) struct Recent {
    /// Number of each leaf below, without the lowest bits.
    prefix: u64,
    node: u32,
    covered: bool,
}

impl Recent {
    /// None: no page number has this prefix.
    pub(super) const NONE: Self = Self {
        prefix: u64::MAX,
        node: NONE,
        covered: false,
    };
}

impl PageCounts {
    /// The pages of a range whose count is 0, and where to [add](Self::add_at) it. None where
    /// that takes the long way.
    pub fn clear_near(&mut self, pages: &Pages) -> Option<(Spot, Block)> {
        let spot = self.near(pages)?;
        let clear = spot.block(|part| {
            if part.covered {
                return 0;
            }
            self.leaves[part.leaf as usize].zeros()
        });
        Some((spot, clear))
    }

    /// The pages of a range whose count is 1, and where to [remove](Self::remove_at) it. None
    /// where that takes the long way: also for the last range of a leaf, which goes with it.
    pub fn single_near(&mut self, pages: &Pages) -> Option<(Spot, Block)> {
        let spot = self.near(pages)?;
        let mut short = true;
        let single = spot.block(|part| {
            let leaf = &self.leaves[part.leaf as usize];
            let (zeros, ones) = (leaf.zeros(), leaf.ones());
            // Those that count 0 or 1 here and more further up need a look at the tree.
            short &= !part.covered || (zeros | ones) & part.mask == 0;
            short &= !zeros & !(ones & part.mask) != 0;
            ones
        });
        short.then_some((spot, single))
    }

    /// Adds 1 to the count of each page of the spot.
    pub fn add_at(&mut self, spot: &Spot) {
        let [first, second] = spot.parts;
        self.leaves[first.leaf as usize].add(first.mask);
        if second.mask != 0 {
            self.leaves[second.leaf as usize].add(second.mask);
        }
    }

    /// Takes 1 from the count of each page of the spot that has one.
    pub fn remove_at(&mut self, spot: &Spot) {
        let [first, second] = spot.parts;
        self.leaves[first.leaf as usize].remove(first.mask);
        if second.mask != 0 {
            self.leaves[second.leaf as usize].remove(second.mask);
        }
    }

    /// Whether a range ends among the 64 pages around `page`.
    pub fn counts_near(&mut self, page: u64) -> bool {
        self.near(&(page..page + 1)).is_some()
    }

    #[inline(always)]
    fn near(&mut self, pages: &Pages) -> Option<Spot> {
        let last = pages.end.checked_sub(1)?;
        let (first_leaf, last_leaf) = (pages.start / LEAF_PAGES, last / LEAF_PAGES);
        let prefix = first_leaf >> NODE_BITS;
        if last_leaf.wrapping_sub(first_leaf) > 1 || prefix != last_leaf >> NODE_BITS {
            return None;
        }
        if self.recent.prefix != prefix {
            self.recent = self.find(prefix)?;
        }
        let Recent { node, covered, .. } = self.recent;
        let slots = &self.nodes[node as usize].slots;
        let part = |leaf: u64, mask: u64| {
            let slot = slots[index(leaf)];
            (slot.child != NONE).then_some(Part {
                leaf: slot.child,
                mask,
                covered: covered || slot.whole > 0,
            })
        };
        let (from, to) = (pages.start % LEAF_PAGES, last % LEAF_PAGES + 1);
        let base = first_leaf * LEAF_PAGES;
        if first_leaf == last_leaf {
            let first = part(first_leaf, mask(from, to))?;
            let none = Part { mask: 0, ..first };
            let parts = [first, none];
            return Some(Spot { base, parts });
        }
        let first = part(first_leaf, mask(from, LEAF_PAGES))?;
        let parts = [first, part(last_leaf, mask(0, to))?];
        Some(Spot { base, parts })
    }

    /// The node of level 0 with that prefix.
    #[inline(never)]
    fn find(&self, prefix: u64) -> Option<Recent> {
        let (mut node, mut covered) = (super::ROOT, false);
        for level in (0..TOP).rev() {
            let slots = &self.nodes.get(node as usize)?.slots;
            let slot = slots[index(prefix >> (NODE_BITS * level))];
            covered |= slot.whole > 0;
            if slot.child == NONE {
                return None;
            }
            node = slot.child;
        }
        Some(Recent {
            prefix,
            node,
            covered,
        })
    }
}

impl Spot {
    /// The pages of the spot whose bit `of` sets.
    fn block(&self, mut of: impl FnMut(Part) -> u64) -> Block {
        let [first, second] = self.parts;
        let mut bits = u128::from(of(first) & first.mask);
        if second.mask != 0 {
            bits |= u128::from(of(second) & second.mask) << LEAF_PAGES;
        }
        Block {
            base: self.base,
            bits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bits: u128) -> Block {
        Block { base: 640, bits }
    }

    #[test]
    fn runs_cross_from_leaf_to_leaf() {
        let found: Vec<_> = block(0b1011 | 0b11 << 63 | 1 << 127).runs().collect();
        assert_eq!(found, [640..642, 643..644, 703..705, 767..768]);
        assert!(block(!0).runs().eq(std::iter::once(640..768)));
        assert_eq!(block(0).runs().next(), None);
    }

    #[test]
    fn a_span_is_from_the_first_to_the_last() {
        assert_eq!(block(1 << 3 | 1 << 100).span(), 643..741);
        assert_eq!(block(!0).span(), 640..768);
        assert!(block(0).span().is_empty() && block(0).is_empty());
    }

    #[test]
    fn one_run_is_told_from_two() {
        for one in [0, 1, 0b110, !0, 1 << 127, 0b11 << 63] {
            assert!(block(one).is_run(), "{one:b}");
        }
        for two in [0b101, 1 | 1 << 127, !0 ^ 1 << 64] {
            assert!(!block(two).is_run(), "{two:b}");
        }
    }
}
