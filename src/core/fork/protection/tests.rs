//! The marks against a plain page map, with a kernel that fails at times.

use super::*;
use proptest::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

/// A kernel that keeps its marks in sets and works through a call page by page.
#[derive(Default)]
struct Memory {
    marked: BTreeSet<u64>,
    /// Pages that are not mapped: passed over, and ENOMEM at the end.
    holes: BTreeSet<u64>,
    /// Pages of mappings that no call may change, such as a part of a huge page: EINVAL, and later
    /// pages remain unchanged.
    odd: BTreeSet<u64>,
    /// No call can split or join a mapping: EAGAIN, nothing is done.
    exhausted: bool,
    calls: Vec<(char, Pages)>,
    prepared: Vec<u64>,
}

impl Memory {
    fn call(
        &mut self,
        name: char,
        pages: Pages,
        change: fn(&mut BTreeSet<u64>, u64),
    ) -> Result<()> {
        self.calls.push((name, pages.clone()));
        if self.exhausted {
            return Err(Errno::AGAIN);
        }
        let mut done = Ok(());
        for page in pages {
            if self.odd.contains(&page) {
                return Err(Errno::INVAL);
            }
            if self.holes.contains(&page) {
                done = Err(Errno::NOMEM);
            } else {
                change(&mut self.marked, page);
            }
        }
        done
    }

    /// The program unmaps pages: their marks are gone with them.
    fn unmap(&mut self, pages: Pages) {
        for page in pages {
            self.marked.remove(&page);
            self.holes.insert(page);
        }
    }
}

impl Marks for Memory {
    fn mark(&mut self, pages: Pages) -> Result<()> {
        self.call('+', pages, |marked, page| {
            marked.insert(page);
        })
    }

    fn prepare(&mut self, page: u64) {
        self.prepared.push(page);
    }

    fn clear(&mut self, pages: Pages) -> Result<()> {
        self.call('-', pages, |marked, page| {
            marked.remove(&page);
        })
    }
}

fn calls_of(protection: &mut Protection<Memory>) -> Vec<(char, Pages)> {
    std::mem::take(&mut protection.marks.calls)
}

/// As `protect` and `give_back` of the module above do it: the fast path first.
fn protect(protection: &mut Protection<Memory>, pages: Pages) -> Result<()> {
    if protection.protect_again(&pages) {
        return Ok(());
    }
    protection.protect(pages)
}

fn give_back(protection: &mut Protection<Memory>, pages: Pages) -> Result<()> {
    if protection.give_back_spare(&pages) {
        return Ok(());
    }
    protection.give_back(pages)
}

fn fresh() -> Protection<Memory> {
    Protection::new(Memory::default())
}

fn marked(protection: &Protection<Memory>) -> Vec<u64> {
    protection.marks.marked.iter().copied().collect()
}

#[derive(Clone, Debug)]
enum Step {
    Protect(Pages),
    GiveBack(prop::sample::Index),
    /// These pages were not protected in this shape.
    Stray(Pages),
    /// From now on, calls over this page are refused.
    Odd(u64),
    /// From now on, every call is refused, or none.
    Exhausted(bool),
}

fn range() -> impl Strategy<Value = Pages> {
    let length = prop_oneof![3 => 1..9u64, 2 => 1..80u64, 1 => 100..300u64];
    (0..260u64, length).prop_map(|(start, length)| start..start + length)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => range().prop_map(Step::Protect),
        10 => any::<prop::sample::Index>().prop_map(Step::GiveBack),
        1 => range().prop_map(Step::Stray),
        1 => (0..600u64).prop_map(Step::Odd),
        1 => any::<bool>().prop_map(Step::Exhausted),
    ]
}

/// Pages and in how many live ranges they lie.
#[derive(Default)]
struct Naive(BTreeMap<u64, u32>);

impl Naive {
    fn add(&mut self, pages: Range<u64>) {
        for page in pages {
            *self.0.entry(page).or_default() += 1;
        }
    }

    fn remove(&mut self, pages: Range<u64>) {
        for page in pages {
            let left = self.0.remove(&page).unwrap_or(0).saturating_sub(1);
            if left > 0 {
                self.0.insert(page, left);
            }
        }
    }

    fn live(&self) -> BTreeSet<u64> {
        self.0.keys().copied().collect()
    }
}

/// Which calls one step made: none over pages that need none, except that a mark may run over
/// marked pages from one clear page to another.
fn no_needless_call(calls: &[(char, Pages)], before: &BTreeSet<u64>, after: &BTreeSet<u64>) {
    let marks: Vec<_> = calls.iter().filter(|(name, _)| *name == '+').collect();
    assert!(marks.len() <= 1, "{calls:?}");
    for (_, pages) in marks {
        assert!(!before.contains(&pages.start), "{calls:?}");
        assert!(!before.contains(&(pages.end - 1)), "{calls:?}");
    }
    let cleared = calls.iter().filter(|(name, _)| *name == '-');
    for page in cleared.flat_map(|(_, pages)| pages.clone()) {
        assert!(
            before.contains(&page) && !after.contains(&page),
            "{calls:?}"
        );
    }
}

proptest! {
    #[test]
    fn a_page_is_marked_while_it_is_in_a_live_range(
        steps in prop::collection::vec(step(), 1..80)
    ) {
        let (mut protection, mut map, mut live) = (fresh(), Naive::default(), Vec::new());
        for step in steps {
            let before = map.live();
            let nothing_owed = protection.owed.is_empty();
            match step {
                Step::Protect(pages) => {
                    let bad = |page: u64| protection.marks.odd.contains(&page);
                    let must_fail = protection.marks.exhausted || pages.clone().any(bad);
                    let need = pages.clone().any(|page| !before.contains(&page));
                    match protect(&mut protection, pages.clone()) {
                        Ok(()) => {
                            map.add(pages.clone());
                            live.push(pages);
                        }
                        Err(_) => prop_assert!(need && must_fail),
                    }
                }
                Step::GiveBack(_) if live.is_empty() => continue,
                Step::GiveBack(which) => {
                    let pages = live.swap_remove(which.index(live.len()));
                    give_back(&mut protection, pages.clone()).unwrap();
                    map.remove(pages);
                }
                Step::Stray(pages) => {
                    give_back(&mut protection, pages.clone()).unwrap();
                    map.remove(pages);
                }
                Step::Odd(page) => {
                    // The mapping there is new: it has no mark.
                    protection.marks.odd.insert(page);
                    protection.marks.marked.remove(&page);
                }
                Step::Exhausted(now) => protection.marks.exhausted = now,
            }
            let calls = calls_of(&mut protection);
            let marks = &protection.marks;
            if marks.odd.is_empty() && nothing_owed && !marks.exhausted {
                no_needless_call(&calls, &before, &map.live());
            }
            let mut wanted = map.live();
            wanted.retain(|page| !marks.odd.contains(page));
            let owed: BTreeSet<u64> = protection.owed.iter().cloned().flatten().collect();
            prop_assert!(wanted.is_subset(&marks.marked));
            for extra in marks.marked.difference(&wanted) {
                prop_assert!(owed.contains(extra), "page {} is marked", extra);
            }
        }
        protection.marks.exhausted = false;
        for pages in live {
            give_back(&mut protection, pages).unwrap();
        }
        // The outstanding pages are cleared with the next page that is cleared.
        protect(&mut protection, 5000..5001).unwrap();
        give_back(&mut protection, 5000..5001).unwrap();
        prop_assert_eq!(marked(&protection), []);
    }
}

#[test]
fn overlapping_ranges_are_marked_once() {
    let mut protection = fresh();
    protect(&mut protection, 0..10).unwrap();
    protect(&mut protection, 0..10).unwrap();
    protect(&mut protection, 5..12).unwrap();
    assert_eq!(calls_of(&mut protection), [('+', 0..10), ('+', 10..12)]);
    give_back(&mut protection, 0..10).unwrap();
    assert_eq!(calls_of(&mut protection), []);
    give_back(&mut protection, 0..10).unwrap();
    assert_eq!(calls_of(&mut protection), [('-', 0..5)]);
    give_back(&mut protection, 5..12).unwrap();
    assert_eq!(calls_of(&mut protection), [('-', 5..12)]);
}

#[test]
fn a_page_away_from_all_others_is_prepared() {
    let mut protection = fresh();
    for _ in 0..2 {
        protect(&mut protection, 70..72).unwrap();
        protect(&mut protection, 75..76).unwrap();
        give_back(&mut protection, 70..72).unwrap();
        give_back(&mut protection, 75..76).unwrap();
    }
    for _ in 0..2 {
        protect(&mut protection, 60..66).unwrap();
        give_back(&mut protection, 60..66).unwrap();
    }
    protect(&mut protection, 66..67).unwrap();
    protect(&mut protection, 62..68).unwrap();
    protect(&mut protection, 61..62).unwrap();
    assert_eq!(protection.marks.prepared, [70, 70, 60, 60, 66, 62]);
}

#[test]
fn gaps_between_marked_pages_are_filled_by_one_call() {
    let mut protection = fresh();
    for page in [2, 4, 6] {
        protect(&mut protection, page..page + 1).unwrap();
    }
    calls_of(&mut protection);
    protect(&mut protection, 2..8).unwrap();
    assert_eq!(calls_of(&mut protection), [('+', 3..8)]);
    give_back(&mut protection, 2..8).unwrap();
    assert_eq!(
        calls_of(&mut protection),
        [('-', 3..4), ('-', 5..6), ('-', 7..8)]
    );
}

#[test]
fn a_marked_page_that_is_gone_does_not_fail_its_neighbours() {
    let mut protection = fresh();
    protect(&mut protection, 4..5).unwrap();
    protection.marks.unmap(4..5);
    protect(&mut protection, 3..6).unwrap();
    assert_eq!(marked(&protection), [3, 5]);
}

#[test]
fn a_failed_mark_leaves_everything_as_before() {
    let mut protection = fresh();
    protect(&mut protection, 10..12).unwrap();
    protection.marks.unmap(14..15);
    assert_eq!(protect(&mut protection, 8..20), Err(Errno::NOMEM));
    assert_eq!(marked(&protection), [10, 11]);
    protection.marks.odd.insert(30);
    assert_eq!(protect(&mut protection, 20..40), Err(Errno::INVAL));
    assert_eq!(marked(&protection), [10, 11]);
    give_back(&mut protection, 10..12).unwrap();
    assert_eq!(marked(&protection), []);
    calls_of(&mut protection);
    give_back(&mut protection, 8..20).unwrap();
    assert_eq!(calls_of(&mut protection), [], "nothing was live");
}

#[test]
fn the_rest_of_a_range_is_given_back() {
    let mut protection = fresh();
    protect(&mut protection, 0..1000).unwrap();
    protection.marks.unmap(100..200);
    protection.marks.odd.extend(512..600);
    protection
        .marks
        .marked
        .retain(|page| !(512..600).contains(page));
    give_back(&mut protection, 0..1000).unwrap();
    assert_eq!(marked(&protection), []);
}

#[test]
fn want_of_map_entries_is_made_good_later() {
    let mut protection = fresh();
    protect(&mut protection, 0..30).unwrap();
    protect(&mut protection, 50..51).unwrap();
    protection.marks.exhausted = true;
    give_back(&mut protection, 0..30).unwrap();
    protection.marks.exhausted = false;
    assert_eq!(marked(&protection).len(), 31);
    protect(&mut protection, 7..9).unwrap();
    give_back(&mut protection, 50..51).unwrap();
    assert_eq!(marked(&protection), [7, 8]);
    assert!(protection.owed.is_empty());
}

#[test]
fn halves_are_round() {
    assert_eq!(middle(&(3..4)), None);
    assert_eq!(middle(&(4..4)), None);
    assert_eq!(middle(&(3..5)), Some(4));
    assert_eq!(middle(&(1..1023)), Some(512));
    assert_eq!(middle(&(512..1024)), Some(768));
}
