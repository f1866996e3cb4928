//! The page counts against a map from page to count.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Page ranges of all sizes around the edges of leaves and nodes, in a few places.
fn pages() -> impl Strategy<Value = Pages> {
    let leaf = LEAF_PAGES;
    let node = leaf << NODE_BITS;
    let base = prop_oneof![
        Just(0),
        Just(node - leaf),
        Just(3 * node - 100),
        Just((node << NODE_BITS) - 70),
    ];
    let length = prop_oneof![4 => 1..20u64, 3 => 1..200u64, 1 => Just(leaf), 1 => Just(2 * leaf)];
    (base, 0..200u64, length).prop_map(|(base, offset, length)| {
        let start = base + offset;
        start..start + length
    })
}

#[derive(Clone, Debug)]
enum Step {
    Add(Pages),
    /// Gives back one of the live ranges.
    Remove(prop::sample::Index),
    /// Takes away a range that nobody added like this.
    Cut(Pages),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => pages().prop_map(Step::Add),
        4 => any::<prop::sample::Index>().prop_map(Step::Remove),
        1 => pages().prop_map(Step::Cut),
    ]
}

/// The plain statement of what the tree does.
#[derive(Default)]
struct Naive(BTreeMap<u64, u32>);

impl Naive {
    fn add(&mut self, pages: Pages) {
        for page in pages {
            *self.0.entry(page).or_default() += 1;
        }
    }

    fn remove(&mut self, pages: Pages) {
        for page in pages {
            if let Some(count) = self.0.get_mut(&page) {
                *count -= 1;
                if *count == 0 {
                    self.0.remove(&page);
                }
            }
        }
    }

    fn runs(&self, pages: Pages, count: u32) -> Vec<Pages> {
        let mut found: Vec<Pages> = Vec::new();
        for page in pages {
            if self.0.get(&page).copied().unwrap_or(0) != count {
                continue;
            }
            match found.last_mut() {
                Some(last) if last.end == page => last.end += 1,
                _ => found.push(page..page + 1),
            }
        }
        found
    }
}

fn runs_of(counts: &PageCounts, pages: Pages, count: u32) -> Vec<Pages> {
    let mut found = Vec::new();
    let Ok(()) = counts.runs::<std::convert::Infallible>(pages, count, |run| {
        found.push(run);
        Ok(())
    });
    found
}

fn no_leaf_or_node_is_lost(counts: &PageCounts) {
    let nodes: u32 = counts.nodes.iter().map(|n| n.used).sum();
    assert_eq!(nodes, 0, "a slot is still used");
    assert_eq!(counts.spare_nodes.len + 1, counts.nodes.len().max(1));
    assert_eq!(counts.spare_leaves.len + 1, counts.leaves.len().max(1));
}

proptest! {
    #[test]
    fn agrees_with_a_map(steps in prop::collection::vec(step(), 1..60)) {
        let (mut tree, mut map, mut live) = (PageCounts::new(), Naive::default(), Vec::new());
        for step in steps {
            tree.reserve().unwrap();
            let touched = match step {
                Step::Add(pages) => {
                    if let Some((spot, clear)) = tree.clear_near(&pages) {
                        let runs: Vec<_> = clear.runs().collect();
                        prop_assert_eq!(&map.runs(pages.clone(), 0), &runs);
                        prop_assert_eq!(clear.is_run(), runs.len() < 2);
                        tree.add_at(&spot);
                    } else {
                        tree.add(pages.clone());
                    }
                    map.add(pages.clone());
                    live.push(pages.clone());
                    pages
                }
                Step::Remove(_) if live.is_empty() => continue,
                Step::Remove(which) => {
                    let pages = live.swap_remove(which.index(live.len()));
                    if let Some((spot, single)) = tree.single_near(&pages) {
                        let runs: Vec<_> = single.runs().collect();
                        prop_assert_eq!(map.runs(pages.clone(), 1), runs);
                        tree.remove_at(&spot);
                    } else {
                        tree.remove(pages.clone());
                    }
                    map.remove(pages.clone());
                    pages
                }
                Step::Cut(pages) => {
                    tree.remove(pages.clone());
                    map.remove(pages.clone());
                    pages
                }
            };
            let around = touched.start.saturating_sub(150)..touched.end + 150;
            for count in [0, 1] {
                prop_assert_eq!(
                    runs_of(&tree, around.clone(), count),
                    map.runs(around.clone(), count)
                );
            }
        }
        for page in map.0.clone() {
            for _ in 0..page.1 {
                tree.reserve().unwrap();
                tree.remove(page.0..page.0 + 1);
            }
        }
        no_leaf_or_node_is_lost(&tree);
    }
}

#[test]
fn the_whole_address_space_counts() {
    let mut counts = PageCounts::new();
    counts.reserve().unwrap();
    counts.add(0..LIMIT);
    counts.reserve().unwrap();
    counts.add(5..6);
    assert_eq!(runs_of(&counts, 0..LIMIT, 1), [0..5, 6..LIMIT]);
    counts.reserve().unwrap();
    counts.remove(7..LIMIT - 1);
    assert_eq!(runs_of(&counts, 0..LIMIT, 0).first(), Some(&(7..LIMIT - 1)));
    for pages in [0..7, 5..6, LIMIT - 1..LIMIT] {
        counts.reserve().unwrap();
        counts.remove(pages);
    }
    no_leaf_or_node_is_lost(&counts);
}

#[test]
fn memory_goes_back_with_the_last_range() {
    let mut counts = PageCounts::new();
    let apart = |i: u64| i * 1000..i * 1000 + 1;
    for i in 0..5000 {
        counts.reserve().unwrap();
        counts.add(apart(i));
    }
    assert!(counts.leaves.len() >= 5000);
    for i in 0..5000 {
        counts.reserve().unwrap();
        counts.remove(apart(i));
    }
    assert!(counts.leaves.capacity() <= KEPT && counts.nodes.capacity() <= KEPT);
    no_leaf_or_node_is_lost(&counts);
    assert_eq!(runs_of(&counts, 0..9, 0).first(), Some(&(0..9)));
}

#[test]
fn a_failing_visitor_stops_the_walk() {
    let mut counts = PageCounts::new();
    counts.reserve().unwrap();
    counts.add(10..20);
    counts.reserve().unwrap();
    counts.add(30..40);
    let mut seen = Vec::new();
    let end = counts.runs(0..50, 0, |run| {
        seen.push(run.clone());
        if run.start == 20 { Err(run) } else { Ok(()) }
    });
    assert_eq!(end, Err(20..30));
    assert_eq!(seen, [0..10, 20..30]);
}
