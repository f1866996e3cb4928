#![forbid(unsafe_code)]
//! The fast path: a range whose pages lie in one leaf or in two neighbours that exist already, as
//! most do where many ranges are live. The tree is unchanged, so no memory is needed, and above the
//! leaves only one of the nodes found last is read.
//!
//! The shortest cases change no mark: [`PageCounts::add_again`] and [`PageCounts::remove_spare`].
//! Next are ranges in one leaf, a [`One`], and then those in two, a [`Spot`].

use super::super::leaf::{LEAF_PAGES, Leaf, runs};
use super::{NODE_BITS, NONE, PageCounts, Pages, SLOTS, Slot, TOP, index};

/// Some of 64 neighbouring pages, one bit a page.
#[derive(Clone, Copy)]
pub struct Block {
    base: u64,
    bits: u64,
}

impl Block {
    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// From the first to the last, whatever lies between.
    pub fn span(self) -> Pages {
        let (before, behind) = (self.bits.trailing_zeros(), self.bits.leading_zeros());
        let end = u64::BITS.saturating_sub(behind);
        self.base + u64::from(before.min(end))..self.base + u64::from(end)
    }

    /// Every longest run, in ascending order.
    pub fn runs(self) -> impl Iterator<Item = Pages> {
        let base = self.base;
        runs(self.bits).map(move |(from, to)| base + from..base + to)
    }

    /// Whether the pages are one run, or none.
    pub fn is_run(self) -> bool {
        let low = self.bits & self.bits.wrapping_neg();
        self.bits & self.bits.wrapping_add(low) == 0
    }
}

/// Where the pages of a range are counted. Good until the tree changes.
pub struct Spot {
    start: u64,
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

/// Pages below one leaf that no range counted further up covers. Good until the tree changes.
pub struct One {
    /// The leaf's first page.
    base: u64,
    leaf: u32,
    mask: u64,
}

/// The nodes of level 0 that were found last. Good until something changes above that level.
pub(super) struct LastNodes([Found; RECENT]);

/// That many neighbouring nodes have a place each: with pages of 4 KiB, those of 1 GiB.
const RECENT: usize = 16;

#[derive(Clone, Copy)]
struct Found {
    /// Number of each leaf below, without the lowest bits.
    prefix: u64,
    node: u32,
    covered: bool,
}

impl LastNodes {
    /// None: no page number has this prefix.
    pub(super) const NONE: Self = Self(
        [Found {
            prefix: u64::MAX,
            node: NONE,
            covered: false,
        }; RECENT],
    );

    #[inline(always)]
    fn get(&self, prefix: u64) -> Option<Found> {
        let found = self.0[place(prefix)];
        (found.prefix == prefix).then_some(found)
    }

    fn keep(&mut self, found: Found) {
        self.0[place(found.prefix)] = found;
    }
}

fn place(prefix: u64) -> usize {
    index(prefix) % RECENT
}

/// Up to 64 neighbouring pages, as bits of the leaf of the first and of the one behind it.
struct Window {
    leaf: u64,
    first: u64,
    /// Empty where one leaf is enough.
    second: u64,
}

impl Window {
    /// None for more pages, and where the two leaves are not below one node.
    #[inline(always)]
    fn of(pages: &Pages) -> Option<Self> {
        if pages.end <= pages.start {
            return None;
        }
        let leaf = pages.start / LEAF_PAGES;
        let from = pages.start % LEAF_PAGES;
        let len = pages.end - pages.start;
        if len > LEAF_PAGES {
            return None;
        }
        let to = from + len;
        if to <= LEAF_PAGES {
            return Some(Self {
                leaf,
                first: !0 >> (LEAF_PAGES - len) << from,
                second: 0,
            });
        }
        if index(leaf) == SLOTS - 1 {
            return None;
        }
        Some(Self {
            leaf,
            first: !0 << from,
            second: !0 >> (2 * LEAF_PAGES - to),
        })
    }
}

impl PageCounts {
    /// The pages of a range whose count is 0, and where to [add](Self::add_at) it. None where the
    /// slow path is needed.
    #[inline(always)]
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

    /// The pages of a range whose count is 1, and where to [remove](Self::remove_at) it. None where
    /// the slow path is needed: also for the last range of a leaf that is freed with it.
    #[inline(always)]
    pub fn single_near(&mut self, pages: &Pages) -> Option<(Spot, Block)> {
        let spot = self.near(pages)?;
        let (mut short, small) = (true, self.is_small());
        let single = spot.block(|part| {
            let leaf = &self.leaves[part.leaf as usize];
            let (zeros, ones) = (leaf.zeros(), leaf.ones());
            // Those that count 0 or 1 here and more further up need a look at the tree.
            short &= !part.covered || (zeros | ones) & part.mask == 0;
            short &= small || zeros | ones & part.mask != !0;
            ones
        });
        short.then_some((spot, single))
    }

    /// Adds 1 to the count of each page of the spot.
    #[inline(always)]
    pub fn add_at(&mut self, spot: &Spot) {
        let [first, second] = spot.parts;
        self.leaves[first.leaf as usize].add(first.mask);
        if second.mask != 0 {
            self.leaves[second.leaf as usize].add(second.mask);
        }
    }

    /// Takes 1 from the count of each page of the spot that has one.
    #[inline(always)]
    pub fn remove_at(&mut self, spot: &Spot) {
        let [first, second] = spot.parts;
        let number = spot.start / LEAF_PAGES;
        self.remove_bits(number, first.leaf, first.mask);
        if second.mask != 0 {
            self.remove_bits(number + 1, second.leaf, second.mask);
        }
    }

    #[inline(always)]
    fn remove_bits(&mut self, number: u64, leaf: u32, mask: u64) {
        let leaf = &mut self.leaves[leaf as usize];
        leaf.remove(mask);
        if leaf.is_empty() {
            self.leave(number);
        }
    }

    /// Whether a range ends among the 64 pages around `page`.
    pub fn counts_near(&mut self, page: u64) -> bool {
        let leaf = page / LEAF_PAGES;
        let found = self.found(leaf >> NODE_BITS);
        let node = found.and_then(|found| self.nodes.get(found.node as usize));
        node.is_some_and(|node| self.counts_in(node.slots[index(leaf)]))
    }

    /// Whether a range ends below the slot. The leaf that slots without one name is empty.
    #[inline(always)]
    fn counts_in(&self, slot: Slot) -> bool {
        !self.leaves[slot.child as usize].is_empty()
    }

    #[inline(always)]
    fn near(&mut self, pages: &Pages) -> Option<Spot> {
        let window = Window::of(pages)?;
        let found = self.found(window.leaf >> NODE_BITS)?;
        let slots = &self.nodes.get(found.node as usize)?.slots;
        let part = |leaf: u64, mask: u64| {
            let slot = slots[index(leaf)];
            (slot.child != NONE).then_some(Part {
                leaf: slot.child,
                mask,
                covered: found.covered || slot.whole > 0,
            })
        };
        let first = part(window.leaf, window.first)?;
        let second = if window.second == 0 {
            Part { mask: 0, ..first }
        } else {
            part(window.leaf + 1, window.second)?
        };
        Some(Spot {
            start: pages.start,
            parts: [first, second],
        })
    }

    /// Adds 1 to the count of each page, if none is 0 in the leaves; else changes nothing.
    /// Returns which. Most calls where many ranges overlap come to this, in which no mark changes,
    /// so it does without all that others need: it only reads the counts that it changes.
    #[inline(always)]
    pub fn add_again(&mut self, pages: &Pages) -> bool {
        let Some((leaf, mask)) = self.one_leaf(pages) else {
            return self.add_again_across(pages);
        };
        let all = leaf.has(mask);
        if all {
            leaf.add(mask);
        }
        all
    }

    #[inline(never)]
    fn add_again_across(&mut self, pages: &Pages) -> bool {
        let Some([(first, some), (second, others)]) = self.two_leaves(pages) else {
            return false;
        };
        let all = first.has(some) && second.has(others);
        if all {
            first.add(some);
            second.add(others);
        }
        all
    }

    /// Takes 1 from the count of each page, if none gets to 0 in the leaves; else changes nothing.
    /// Returns which; as [`add_again`](Self::add_again).
    #[inline(always)]
    pub fn remove_spare(&mut self, pages: &Pages) -> bool {
        let Some((leaf, mask)) = self.one_leaf(pages) else {
            return self.remove_spare_across(pages);
        };
        let all = leaf.can_spare(mask);
        if all {
            leaf.take(mask);
        }
        all
    }

    #[inline(never)]
    fn remove_spare_across(&mut self, pages: &Pages) -> bool {
        let Some([(first, some), (second, others)]) = self.two_leaves(pages) else {
            return false;
        };
        let all = first.can_spare(some) && second.can_spare(others);
        if all {
            first.take(some);
            second.take(others);
        }
        all
    }

    /// The leaf that counts the pages, and their bits in it. A missing leaf is reported as the
    /// first of all, which never counts pages.
    #[inline(always)]
    fn one_leaf(&mut self, pages: &Pages) -> Option<(&mut Leaf, u64)> {
        let (slot, _) = self.one_slot(pages)?;
        let leaf = self.leaves.get_mut(slot.child as usize)?;
        Some((leaf, bits(pages)))
    }

    /// The slot that covers all of the pages, and whether it is covered.
    #[inline(always)]
    fn one_slot(&self, pages: &Pages) -> Option<(Slot, bool)> {
        let number = pages.start / LEAF_PAGES;
        if number != pages.end.wrapping_sub(1) / LEAF_PAGES {
            return None;
        }
        let found = self.last_nodes.get(number >> NODE_BITS)?;
        let slot = self.nodes.get(found.node as usize)?.slots[index(number)];
        Some((slot, found.covered || slot.whole > 0))
    }

    /// Where the pages are counted, if that takes no look at the tree.
    #[inline(always)]
    pub fn in_one_leaf(&self, pages: &Pages) -> Option<One> {
        let (slot, covered) = self.one_slot(pages)?;
        if covered || slot.child == NONE {
            return None;
        }
        Some(One {
            base: pages.start & !(LEAF_PAGES - 1),
            leaf: slot.child,
            mask: bits(pages),
        })
    }

    /// Those of the pages whose count is 0.
    #[inline(always)]
    pub fn clear_of(&self, one: &One) -> Block {
        let leaf = &self.leaves[one.leaf as usize];
        Block {
            base: one.base,
            bits: leaf.zeros() & one.mask,
        }
    }

    /// Whether nothing is counted around the pages.
    #[inline(always)]
    pub fn is_idle(&self, one: &One) -> bool {
        self.leaves[one.leaf as usize].is_empty()
    }

    /// Those of the pages whose count is 1. None for the last range of a leaf that is freed with
    /// it.
    #[inline(always)]
    pub fn single_of(&self, one: One) -> Option<(One, Block)> {
        let leaf = &self.leaves[one.leaf as usize];
        let (zeros, single) = (leaf.zeros(), leaf.ones() & one.mask);
        if zeros | single == !0 && !self.is_small() {
            return None;
        }
        let base = one.base;
        Some((one, Block { base, bits: single }))
    }

    /// Adds 1 to the count of each of the pages.
    #[inline(always)]
    pub fn add_to(&mut self, one: &One) {
        self.leaves[one.leaf as usize].add(one.mask);
    }

    /// Takes 1 from the count of each of the pages that has one.
    #[inline(always)]
    pub fn take_from(&mut self, one: &One) {
        self.remove_bits(one.base / LEAF_PAGES, one.leaf, one.mask);
    }

    /// Leaves an empty leaf in its place, instead of the first of those that were left before.
    fn leave(&mut self, number: u64) {
        let [latest, before] = self.idle;
        if number == latest || number == before {
            return;
        }
        self.drop_leaf(before);
        self.refresh();
        self.idle = [number, latest];
    }

    /// The two leaves that count the pages, and the bits in each.
    #[inline(always)]
    fn two_leaves(&mut self, pages: &Pages) -> Option<[(&mut Leaf, u64); 2]> {
        let window = Window::of(pages)?;
        if window.second == 0 {
            return None;
        }
        let found = self.last_nodes.get(window.leaf >> NODE_BITS)?;
        let slots = &self.nodes.get(found.node as usize)?.slots;
        let leaf = |number| slots[index(number)].child as usize;
        let both = [leaf(window.leaf), leaf(window.leaf + 1)];
        let [first, second] = self.leaves.get_disjoint_mut(both).ok()?;
        Some([(first, window.first), (second, window.second)])
    }

    /// Updates the nodes of the fast path to those around `page`.
    pub(super) fn look_up(&mut self, page: u64) {
        let _ = self.found((page / LEAF_PAGES) >> NODE_BITS);
    }

    /// The node of level 0 with that prefix.
    #[inline(always)]
    fn found(&mut self, prefix: u64) -> Option<Found> {
        if self.last_nodes.get(prefix).is_none() {
            let found = self.find(prefix)?;
            self.last_nodes.keep(found);
        }
        self.last_nodes.get(prefix)
    }

    #[cold]
    #[inline(never)]
    fn find(&self, prefix: u64) -> Option<Found> {
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
        Some(Found {
            prefix,
            node,
            covered,
        })
    }
}

/// The bits of pages that are all in one leaf.
#[inline(always)]
fn bits(pages: &Pages) -> u64 {
    let from = 1u64 << (pages.start % LEAF_PAGES);
    // One above the last bit; for bit 63 there is none, and 0 gives the right result.
    let behind = 2u64 << (pages.end.wrapping_sub(1) % LEAF_PAGES);
    behind.wrapping_sub(from)
}

impl Spot {
    /// The pages of the spot whose bit `of` sets.
    fn block(&self, mut of: impl FnMut(Part) -> u64) -> Block {
        let [first, second] = self.parts;
        let from = self.start % LEAF_PAGES;
        let mut bits = (of(first) & first.mask) >> from;
        if second.mask != 0 {
            bits |= (of(second) & second.mask) << (LEAF_PAGES - from);
        }
        Block {
            base: self.start,
            bits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bits: u64) -> Block {
        Block { base: 640, bits }
    }

    #[test]
    fn runs_begin_at_the_base() {
        let found: Vec<_> = block(0b1011 | 1 << 63).runs().collect();
        assert_eq!(found, [640..642, 643..644, 703..704]);
        assert!(block(!0).runs().eq(std::iter::once(640..704)));
        assert_eq!(block(0).runs().next(), None);
    }

    #[test]
    fn a_span_is_from_the_first_to_the_last() {
        assert_eq!(block(1 << 3 | 1 << 60).span(), 643..701);
        assert_eq!(block(!0).span(), 640..704);
        assert!(block(0).span().is_empty() && block(0).is_empty());
    }

    #[test]
    fn one_run_is_distinguished_from_two() {
        for one in [0, 1, 0b110, !0, 1 << 63, 0b11 << 62] {
            assert!(block(one).is_run(), "{one:b}");
        }
        for two in [0b101, 1 | 1 << 63, !0 ^ 1 << 33] {
            assert!(!block(two).is_run(), "{two:b}");
        }
    }

    #[test]
    fn a_window_has_the_pages_of_two_leaves() {
        let bits = |pages: Pages| Window::of(&pages).map(|w| (w.leaf, w.first, w.second));
        assert_eq!(bits(64..128), Some((1, !0, 0)));
        assert_eq!(bits(65..128), Some((1, !1, 0)));
        assert_eq!(bits(65..129), Some((1, !1, 1)));
        assert_eq!(bits(127..131), Some((1, 1 << 63, 0b111)));
        assert_eq!(bits(3..4), Some((0, 0b1000, 0)));
        assert_eq!(bits(65..130), None);
        assert_eq!(bits(5..5), None);
        let node = LEAF_PAGES << NODE_BITS;
        assert_eq!(bits(node - 1..node), Some((255, 1 << 63, 0)));
        assert_eq!(bits(node - 1..node + 1), None);
    }
}
