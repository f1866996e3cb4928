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
    // Whole leaves, too, which the tree may count in either of two places.
    let offset = prop_oneof![4 => 0..200u64, 1 => (0..3u64).prop_map(move |i| i * leaf)];
    (base, offset, length).prop_map(|(base, offset, length)| {
        let start = base + offset;
        start..start + length
    })
}

#[derive(Clone, Debug)]
enum Step {
    Add(Pages, Method),
    /// Gives back one of the live ranges.
    Remove(prop::sample::Index, Method),
    /// Removes a range that was not added in this shape.
    Cut(Pages),
}

/// The shortest method that is tried; where it does not lead there, the next longer one is.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Method {
    /// No page starts or ends to count.
    Quick,
    OneLeaf,
    Near,
    Far,
}

fn method() -> impl Strategy<Value = Method> {
    prop_oneof![
        4 => Just(Method::Quick),
        2 => Just(Method::OneLeaf),
        1 => Just(Method::Near),
        1 => Just(Method::Far),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (pages(), method()).prop_map(|(pages, method)| Step::Add(pages, method)),
        4 => (any::<prop::sample::Index>(), method()).prop_map(|(which, method)| Step::Remove(which, method)),
        1 => pages().prop_map(Step::Cut),
    ]
}

/// A plain model of the tree.
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

/// Adds the pages; returns those that were clear before.
fn add(tree: &mut PageCounts, pages: &Pages, method: Method) -> Vec<Pages> {
    if method == Method::Quick && tree.add_again(pages) {
        return Vec::new();
    }
    if method <= Method::OneLeaf
        && let Some(one) = tree.in_one_leaf(pages)
    {
        let clear = tree.clear_of(&one);
        tree.add_to(&one);
        return runs_in(clear);
    }
    if method <= Method::Near
        && let Some((spot, clear)) = tree.clear_near(pages)
    {
        tree.add_at(&spot);
        return runs_in(clear);
    }
    let clear = runs_of(tree, pages.clone(), 0);
    tree.add(pages.clone());
    clear
}

/// Removes the pages; returns those whose count was 1.
fn remove(tree: &mut PageCounts, pages: &Pages, method: Method) -> Vec<Pages> {
    if method == Method::Quick && tree.remove_spare(pages) {
        return Vec::new();
    }
    if method <= Method::OneLeaf
        && let Some(one) = tree.in_one_leaf(pages)
        && let Some((one, single)) = tree.single_of(one)
    {
        tree.take_from(&one);
        return runs_in(single);
    }
    if method <= Method::Near
        && let Some((spot, single)) = tree.single_near(pages)
    {
        tree.remove_at(&spot);
        return runs_in(single);
    }
    let single = runs_of(tree, pages.clone(), 1);
    tree.remove(pages.clone());
    single
}

fn runs_in(block: Block) -> Vec<Pages> {
    let runs: Vec<_> = block.runs().collect();
    assert_eq!(block.is_run(), runs.len() < 2);
    assert_eq!(block.is_empty(), runs.is_empty());
    runs
}

fn no_leaf_or_node_is_lost(counts: &mut PageCounts) {
    counts.drop_idle();
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
                Step::Add(pages, method) => {
                    let clear = add(&mut tree, &pages, method);
                    prop_assert_eq!(map.runs(pages.clone(), 0), clear);
                    map.add(pages.clone());
                    live.push(pages.clone());
                    pages
                }
                Step::Remove(..) if live.is_empty() => continue,
                Step::Remove(which, method) => {
                    let pages = live.swap_remove(which.index(live.len()));
                    let single = remove(&mut tree, &pages, method);
                    prop_assert_eq!(map.runs(pages.clone(), 1), single);
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
        no_leaf_or_node_is_lost(&mut tree);
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
    no_leaf_or_node_is_lost(&mut counts);
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
    no_leaf_or_node_is_lost(&mut counts);
    assert_eq!(runs_of(&counts, 0..9, 0).first(), Some(&(0..9)));
}

/// The fast path is taken exactly where the pages already count.
#[test]
fn the_fast_path_is_for_pages_that_count_already() {
    let mut counts = PageCounts::new();
    let (one, across) = (3..9, 60..70);
    assert!(!counts.add_again(&one) && !counts.remove_spare(&one));
    counts.reserve().unwrap();
    counts.add(0..70);
    counts.add(70..200);
    assert!(!counts.add_again(&one), "not found yet");
    assert!(
        counts.clear_near(&one).is_none(),
        "one range covers the leaf"
    );
    counts.reserve().unwrap();
    counts.add(0..40);
    counts.add(60..64);
    assert!(counts.counts_near(0));
    for pages in [one, across] {
        assert!(!counts.remove_spare(&pages));
        assert!(counts.add_again(&pages));
        assert!(counts.remove_spare(&pages));
        assert!(!counts.remove_spare(&pages));
    }
    assert!(!counts.add_again(&(60..71)) || counts.remove_spare(&(60..71)));
    assert!(
        !counts.add_again(&(39..41)),
        "page 40 counts in the slot above alone"
    );
}

/// Two leaves stay when their last range goes, and go when others do or memory is given back.
#[test]
fn two_leaves_stay_in_their_place() {
    let mut counts = PageCounts::new();
    let apart = |i: u64| i * 1000..i * 1000 + 1;
    for i in [3, 3, 9, 3, 5, 9, 7] {
        counts.reserve().unwrap();
        let pages = apart(i);
        add(&mut counts, &pages, Method::Near);
        assert!(counts.counts_near(pages.start));
        assert_eq!(remove(&mut counts, &pages, Method::OneLeaf).len(), 1);
        assert!(
            !counts.counts_near(pages.start),
            "an empty leaf is no neighbour"
        );
        let in_place = counts.leaves.len() - 1 - counts.spare_leaves.len;
        assert!(in_place <= 2);
        let one = counts.in_one_leaf(&pages);
        assert!(one.is_some_and(|one| counts.is_idle(&one)));
    }
    let across = 126..130;
    counts.add(across.clone());
    let one_run = std::slice::from_ref(&across);
    for _ in 0..3 {
        assert_eq!(remove(&mut counts, &across, Method::Near), one_run);
        assert_eq!(counts.idle, [2, 1]);
        assert_eq!(add(&mut counts, &across, Method::Near), one_run);
    }
    remove(&mut counts, &across, Method::Near);
    for i in 0..1000 {
        counts.reserve().unwrap();
        add(&mut counts, &apart(i), Method::Quick);
    }
    for i in 0..1000 {
        counts.reserve().unwrap();
        remove(&mut counts, &apart(i), Method::Quick);
    }
    assert!(counts.leaves.capacity() <= KEPT && counts.nodes.capacity() <= KEPT);
    no_leaf_or_node_is_lost(&mut counts);
}

/// Nodes come and go under the same place of those found last.
#[test]
fn a_node_that_went_is_not_found() {
    let mut counts = PageCounts::new();
    let node = LEAF_PAGES << NODE_BITS;
    for at in [0, 16 * node, 5 * node, 16 * node] {
        let pages = at + 1..at + 3;
        counts.reserve().unwrap();
        counts.add(pages.clone());
        assert!(counts.counts_near(at));
        assert!(counts.add_again(&pages) && counts.remove_spare(&pages));
        counts.remove(pages.clone());
        assert!(!counts.counts_near(at));
        assert!(!counts.add_again(&pages) && !counts.remove_spare(&pages));
    }
    no_leaf_or_node_is_lost(&mut counts);
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
