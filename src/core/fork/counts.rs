#![forbid(unsafe_code)]
//! How many live ranges each page of the process lies in.
//!
//! A tree as a processor's page table has it: leaves of 64 pages, above them nodes of 256
//! slots. A range adds 1 to each slot that it covers whole, and goes down only at its two ends;
//! the count of a page is the sum along its path. So a range costs a few cache lines whatever
//! its length, and how many others it overlaps does not matter.

mod near;

use super::leaf::{LEAF_PAGES, Leaf, mask, runs};
use kit::errno::{Errno, Result};
pub use near::Block;
use near::LastNodes;
use std::ops::Range;

/// Page numbers: address divided by page size.
pub type Pages = Range<u64>;

const NODE_BITS: u32 = 8;
const SLOTS: usize = 1 << NODE_BITS;
/// Level of the root; the slots of level 0 refer to leaves.
const TOP: u32 = 4;
/// Page numbers below this can be counted: with pages of 4 KiB, addresses below 2^58.
pub const LIMIT: u64 = LEAF_PAGES << (NODE_BITS * (TOP + 1));

/// Neither a child nor the next spare; index 0 is the root, which is neither.
const NONE: u32 = 0;
const ROOT: u32 = 0;

/// No leaf has this number.
const NO_LEAF: u64 = u64::MAX;

/// The most nodes below the root that one call can add: one a level at each end of its range.
const NODES_A_CALL: usize = 2 * TOP as usize;
/// The same for leaves.
const LEAVES_A_CALL: usize = 2;
/// Memory for this many nodes (2 KiB each) and leaves (256 bytes each) is kept when the last range
/// is removed: too little for malloc(3) to make a separate mapping.
const KEPT: usize = 48;

#[derive(Clone, Copy)]
struct Slot {
    /// Ranges that cover the slot whole (and are not counted further down).
    whole: u32,
    /// Index of the node or leaf below.
    child: u32,
}

impl Slot {
    const EMPTY: Self = Self {
        whole: 0,
        child: NONE,
    };

    fn is_empty(self) -> bool {
        self.whole == 0 && self.child == NONE
    }

    /// A count that reached the largest value stays there: the page errs on the protected side.
    fn add(&mut self) {
        self.whole = self.whole.saturating_add(1);
    }

    fn remove(&mut self) {
        if self.whole != u32::MAX {
            self.whole = self.whole.saturating_sub(1);
        }
    }
}

#[derive(Clone)]
struct Node {
    slots: [Slot; SLOTS],
    /// Slots that are not empty.
    used: u32,
    next_spare: u32,
}

impl Node {
    const EMPTY: Self = Self {
        slots: [Slot::EMPTY; SLOTS],
        used: 0,
        next_spare: NONE,
    };
}

/// The position of a slot: the level of its node, and its pages.
#[derive(Clone, Copy)]
struct SlotPosition {
    level: u32,
    first: u64,
}

impl SlotPosition {
    const ROOT: Self = Self {
        level: TOP,
        first: 0,
    };

    /// Pages of one slot of a node here.
    fn slot_pages(self) -> u64 {
        LEAF_PAGES << (NODE_BITS * self.level)
    }

    /// The slots of a node here that `pages` touches: index, place below it, and the part of
    /// `pages` in it.
    fn slots(self, pages: Pages) -> impl Iterator<Item = (usize, Part)> {
        let each = self.slot_pages();
        let shift = each.trailing_zeros();
        let from = (pages.start - self.first) >> shift;
        let to = (pages.end - 1 - self.first) >> shift;
        (from..=to).map(move |slot| {
            let first = self.first + (slot << shift);
            let inside = pages.start.max(first)..pages.end.min(first + each);
            let part = Part {
                below: Self {
                    level: self.level.wrapping_sub(1),
                    first,
                },
                whole: inside.end - inside.start == each,
                pages: inside,
            };
            (index(slot), part)
        })
    }
}

/// The part of a slot that a range covers.
struct Part {
    /// Where the slot's child lies; of a leaf only `first` is meant.
    below: SlotPosition,
    pages: Pages,
    whole: bool,
}

impl Part {
    /// The part as bits of a leaf.
    fn mask(&self) -> u64 {
        mask(
            self.pages.start - self.below.first,
            self.pages.end - self.below.first,
        )
    }
}

/// The slot of a number that is shifted to its level.
#[expect(
    clippy::cast_possible_truncation,
    reason = "only the lowest bits are taken"
)]
fn index(shifted: u64) -> usize {
    shifted as usize & (SLOTS - 1)
}

/// Counts of live ranges by page.
pub struct PageCounts {
    nodes: Vec<Node>,
    leaves: Vec<Leaf>,
    spare_nodes: Spare,
    spare_leaves: Spare,
    /// The nodes that the fast path found last.
    last_nodes: LastNodes,
    /// Whether something above level 0 has changed since.
    stale: bool,
    /// Numbers of leaves that were left in their place when their last range went, the latest
    /// first: programs that have one range at a time mostly have the next one there, and one of
    /// few pages lies in two leaves at most.
    idle: [u64; 2],
}

/// A list of unused entries, linked through their `next_spare`.
#[derive(Clone, Copy)]
struct Spare {
    first: u32,
    len: usize,
}

impl Spare {
    const NONE: Self = Self {
        first: NONE,
        len: 0,
    };
}

impl PageCounts {
    /// All counts 0; takes no memory before [`PageCounts::reserve`].
    pub const fn new() -> Self {
        Self {
            nodes: Vec::new(),
            leaves: Vec::new(),
            spare_nodes: Spare::NONE,
            spare_leaves: Spare::NONE,
            last_nodes: LastNodes::NONE,
            stale: false,
            idle: [NO_LEAF; 2],
        }
    }

    /// Makes sure that the next [`add`](Self::add) and the next [`remove`](Self::remove) need
    /// no memory.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn reserve(&mut self) -> Result<()> {
        if self.nodes.is_empty() {
            grow(&mut self.nodes, 1, Node::EMPTY)?;
        }
        if self.leaves.is_empty() {
            grow(&mut self.leaves, 1, Leaf::EMPTY)?;
        }
        while self.spare_nodes.len < 2 * NODES_A_CALL {
            let index = grow(&mut self.nodes, NODES_A_CALL, Node::EMPTY)?;
            self.spare_node(index);
        }
        while self.spare_leaves.len < 2 * LEAVES_A_CALL {
            let index = grow(&mut self.leaves, LEAVES_A_CALL, Leaf::EMPTY)?;
            self.spare_leaf(index);
        }
        Ok(())
    }

    /// Adds 1 to the count of each page; [`reserve`](Self::reserve) comes before it.
    pub fn add(&mut self, pages: Pages) {
        let first = pages.start;
        if !pages.is_empty() {
            self.add_below(ROOT, SlotPosition::ROOT, pages);
        }
        self.refresh();
        // The next call is mostly for the same pages, or for others near them.
        self.look_up(first);
    }

    /// Takes 1 from the count of each page that has one; [`reserve`](Self::reserve) comes
    /// before it.
    pub fn remove(&mut self, pages: Pages) {
        if !pages.is_empty() {
            self.remove_below(ROOT, SlotPosition::ROOT, pages);
        }
        if !self.is_small() {
            self.drop_idle();
            if self.nodes.first().is_some_and(|root| root.used == 0) {
                self.shrink();
            }
        }
        self.refresh();
    }

    /// Whether the memory is no more than is kept anyway.
    fn is_small(&self) -> bool {
        self.leaves.capacity().max(self.nodes.capacity()) <= KEPT
    }

    /// Clears the nodes of the fast path if they may be outdated.
    fn refresh(&mut self) {
        if self.stale {
            self.stale = false;
            self.last_nodes = LastNodes::NONE;
        }
    }

    /// Takes the idle leaves out of the tree.
    fn drop_idle(&mut self) {
        let idle = std::mem::replace(&mut self.idle, [NO_LEAF; 2]);
        idle.into_iter().for_each(|number| self.drop_leaf(number));
    }

    /// Takes a leaf out of the tree, if it is there and empty.
    fn drop_leaf(&mut self, number: u64) {
        if number == NO_LEAF {
            return;
        }
        let mut path = [(ROOT, 0); TOP as usize + 1];
        let mut node = ROOT;
        for (level, step) in (0..TOP + 1).zip(&mut path).rev() {
            let slot = index(number >> (NODE_BITS * level));
            *step = (node, slot);
            node = self.slot(node, slot).child;
            if node == NONE {
                return;
            }
        }
        for (level, (node, slot)) in (0..TOP + 1).zip(path) {
            self.drop_if_empty(node, slot, level);
        }
    }

    /// Gives back the memory of an empty tree.
    fn shrink(&mut self) {
        self.nodes.truncate(1);
        self.nodes.shrink_to(KEPT);
        self.leaves.truncate(1);
        self.leaves.shrink_to(KEPT);
        self.spare_nodes = Spare::NONE;
        self.spare_leaves = Spare::NONE;
        self.stale = true;
    }

    /// Calls `each` with every longest run of `pages` whose count is `count` (0 or 1), in
    /// ascending order, until it fails.
    ///
    /// # Errors
    /// Those of `each`.
    pub fn runs<E>(
        &self,
        pages: Pages,
        count: u32,
        each: impl FnMut(Pages) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut join = Join {
            each,
            pending: 0..0,
        };
        if self.nodes.is_empty() {
            if count == 0 {
                join.push(pages)?;
            }
        } else if !pages.is_empty() {
            self.runs_below(ROOT, SlotPosition::ROOT, pages, count, &mut join)?;
        }
        join.flush()
    }

    fn add_below(&mut self, node: u32, place: SlotPosition, pages: Pages) {
        for (slot, part) in place.slots(pages) {
            if part.whole {
                self.change(node, slot, place.level, Slot::add);
                continue;
            }
            let child = self.child(node, slot, place.level);
            if place.level == 0 {
                self.leaves[child as usize].add(part.mask());
            } else {
                self.add_below(child, part.below, part.pages);
            }
        }
    }

    fn remove_below(&mut self, node: u32, place: SlotPosition, pages: Pages) {
        for (slot, part) in place.slots(pages) {
            let Slot { whole, child } = self.slot(node, slot);
            if part.whole && whole > 0 {
                self.change(node, slot, place.level, Slot::remove);
                continue;
            }
            if whole > 0 && self.lacks(child, &part, place.level) {
                self.push_down(node, slot, place.level);
            }
            let child = self.slot(node, slot).child;
            if child == NONE {
                continue;
            }
            if place.level == 0 {
                self.leaves[child as usize].remove(part.mask());
            } else {
                self.remove_below(child, part.below, part.pages);
            }
            self.drop_if_empty(node, slot, place.level);
        }
    }

    /// Whether a page of the part has count 0, from `child` downwards.
    fn lacks(&self, child: u32, part: &Part, level: u32) -> bool {
        if child == NONE {
            return true;
        }
        if level == 0 {
            return self.leaves[child as usize].zeros() & part.mask() != 0;
        }
        let mut found = Join {
            each: |_| Err(()),
            pending: 0..0,
        };
        let walk = self.runs_below(child, part.below, part.pages.clone(), 0, &mut found);
        walk.and_then(|()| found.flush()).is_err()
    }

    /// Counts one of the slot's whole ranges one level further down, so that a part of it can be
    /// taken away. Only a range given back in other pieces than it was protected in needs this.
    fn push_down(&mut self, node: u32, slot: usize, level: u32) {
        let child = self.child(node, slot, level);
        self.change(node, slot, level, Slot::remove);
        if level == 0 {
            self.leaves[child as usize].add(!0);
            return;
        }
        for below in 0..SLOTS {
            self.change(child, below, level - 1, Slot::add);
        }
    }

    fn runs_below<E, F: FnMut(Pages) -> std::result::Result<(), E>>(
        &self,
        node: u32,
        place: SlotPosition,
        pages: Pages,
        count: u32,
        join: &mut Join<F>,
    ) -> std::result::Result<(), E> {
        for (slot, part) in place.slots(pages) {
            let Slot { whole, child } = self.slot(node, slot);
            let Some(missing) = count.checked_sub(whole) else {
                continue;
            };
            if child == NONE {
                if missing == 0 {
                    join.push(part.pages)?;
                }
            } else if place.level > 0 {
                self.runs_below(child, part.below, part.pages, missing, join)?;
            } else {
                let leaf = &self.leaves[child as usize];
                let found = if missing == 0 {
                    leaf.zeros()
                } else {
                    leaf.ones()
                };
                let first = part.below.first;
                for (from, to) in runs(found & part.mask()) {
                    join.push(first + from..first + to)?;
                }
            }
        }
        Ok(())
    }

    fn slot(&self, node: u32, slot: usize) -> Slot {
        self.nodes[node as usize].slots[slot & (SLOTS - 1)]
    }

    /// Changes a slot, keeping its node's number of used slots right.
    fn change(&mut self, node: u32, slot: usize, level: u32, change: impl FnOnce(&mut Slot)) {
        self.stale |= level > 0;
        let node = &mut self.nodes[node as usize];
        let slot = &mut node.slots[slot & (SLOTS - 1)];
        let was_empty = slot.is_empty();
        change(slot);
        node.used += u32::from(was_empty);
        node.used -= u32::from(slot.is_empty());
    }

    /// The slot's child, made at its first use.
    fn child(&mut self, node: u32, slot: usize, level: u32) -> u32 {
        let child = self.slot(node, slot).child;
        if child != NONE {
            return child;
        }
        let child = if level == 0 {
            let index = self.spare_leaves.first;
            self.spare_leaves.first = self.leaves[index as usize].next_spare;
            self.spare_leaves.len -= 1;
            index
        } else {
            let index = self.spare_nodes.first;
            self.spare_nodes.first = self.nodes[index as usize].next_spare;
            self.spare_nodes.len -= 1;
            index
        };
        self.change(node, slot, level, |slot| slot.child = child);
        child
    }

    fn drop_if_empty(&mut self, node: u32, slot: usize, level: u32) {
        let child = self.slot(node, slot).child;
        if level == 0 {
            if !self.leaves[child as usize].is_empty() {
                return;
            }
            self.spare_leaf(child);
        } else {
            if self.nodes[child as usize].used > 0 {
                return;
            }
            self.spare_node(child);
        }
        self.change(node, slot, level, |slot| slot.child = NONE);
    }

    fn spare_leaf(&mut self, index: u32) {
        self.leaves[index as usize].next_spare = self.spare_leaves.first;
        self.spare_leaves.first = index;
        self.spare_leaves.len += 1;
    }

    fn spare_node(&mut self, index: u32) {
        self.nodes[index as usize].next_spare = self.spare_nodes.first;
        self.spare_nodes.first = index;
        self.spare_nodes.len += 1;
    }
}

/// Appends an empty entry and returns its index; makes room for `at_once` more where it has to.
fn grow<T>(entries: &mut Vec<T>, at_once: usize, empty: T) -> Result<u32> {
    let index = u32::try_from(entries.len()).map_err(|_| Errno::NOMEM)?;
    entries.try_reserve(at_once).map_err(|_| Errno::NOMEM)?;
    entries.push(empty);
    Ok(index)
}

/// Joins runs that touch.
struct Join<F> {
    each: F,
    pending: Pages,
}

impl<E, F: FnMut(Pages) -> std::result::Result<(), E>> Join<F> {
    fn push(&mut self, run: Pages) -> std::result::Result<(), E> {
        if run.start == self.pending.end && !self.pending.is_empty() {
            self.pending.end = run.end;
            return Ok(());
        }
        self.flush()?;
        self.pending = run;
        Ok(())
    }

    fn flush(&mut self) -> std::result::Result<(), E> {
        if self.pending.is_empty() {
            return Ok(());
        }
        (self.each)(std::mem::take(&mut self.pending))
    }
}

#[cfg(test)]
mod tests;
