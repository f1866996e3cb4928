//! Few bytes by the key that was used last.

use super::*;

fn bytes(words: [u64; 4]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn fill(scratch: Scratch) -> Vec<u8> {
    let pattern: Vec<u8> = (0..=255).collect();
    scratch.memory().write(0, &pattern).expect("inside");
    pattern
}

#[test]
fn any_few_bytes_from_anywhere_are_read_and_zeros_behind_them() {
    let (keys, (scratch, at)) = (keys(), pages());
    let pattern = fill(scratch);
    let pd = Pd::new().id();
    let mr = register(&keys, pd, scratch, 0);
    let mut recent = None;
    for offset in 0..17u8 {
        for length in 1..=32u8 {
            let piece = sge(mr.key(), at + u64::from(offset), length.into());
            let from = usize::from(offset);
            let mut expected = pattern[from..from + usize::from(length)].to_vec();
            expected.resize(32, 0);
            // By the key as it is found, and as it is remembered.
            for _ in 0..2 {
                let words = keys.gather_words(pd, &piece, &mut recent);
                assert_eq!(words.map(bytes).as_ref(), Ok(&expected));
            }
            recent = (length % 2 == 0).then_some(recent).flatten();
        }
    }
    let long = sge(mr.key(), at, 33);
    assert_eq!(keys.gather_words(pd, &long, &mut recent), Err(Fault));
    assert_eq!(keys.gather_words(pd, &long, &mut None), Err(Fault));
}

#[test]
fn the_end_of_a_region_is_its_end() {
    let (keys, (scratch, at)) = (keys(), pages());
    let pd = Pd::new().id();
    let memory = scratch.range(64, 20).expect("a range");
    let (mr, _) = keys.register(pd, memory, at + 64, 0).expect("registered");
    let mut recent = None;
    let mut read = |offset: u64, length| {
        let piece = sge(mr.key(), (at + 64).wrapping_add(offset), length);
        keys.gather_words(pd, &piece, &mut recent).is_ok()
    };
    assert!(read(0, 8) && read(12, 8) && read(8, 12) && read(0, 20) && read(19, 1));
    for (offset, length) in [(13, 8), (0, 24), (20, 1), (u64::MAX, 1), (u64::MAX, 8)] {
        assert!(!read(offset, length), "{offset} {length}");
    }
    assert!(read(0, 16));
}

#[test]
fn what_a_key_was_is_forgotten_when_it_is_something_else() {
    let (keys, (scratch, at)) = (keys(), pages());
    let pattern = fill(scratch);
    let pd = Pd::new().id();
    let mr = register(&keys, pd, scratch, 0);
    let mut recent = None;
    let first = |key: u32, recent: &mut _| {
        let words = keys.gather_words(pd, &sge(key, at, 8), recent);
        words.map(|words| words[0].to_ne_bytes())
    };
    let whole = |offset: usize| *pattern[offset..].first_chunk().expect("long");
    assert_eq!(first(mr.key(), &mut recent), Ok(whole(0)));
    // Another key is another region.
    let other = scratch.range(32, 64).expect("a range");
    let (second, _) = keys.register(pd, other, at, 0).expect("registered");
    assert_eq!(first(second.key(), &mut recent), Ok(whole(32)));
    assert_eq!(first(mr.key(), &mut recent), Ok(whole(0)));
    // The same key at another place.
    let moved = scratch.range(96, 64).expect("a range");
    keys.rereg(&mr, Some(moved), None, None).expect("changed");
    let elsewhere = keys.gather_words(pd, &sge(mr.key(), at, 8), &mut recent);
    assert_eq!(elsewhere, Err(Fault));
    let there = keys.gather_words(pd, &sge(mr.key(), at + 96, 8), &mut recent);
    assert_eq!(there.map(|words| words[0].to_ne_bytes()), Ok(whole(96)));
    // Another domain's.
    keys.rereg(&mr, None, Some(Pd::new().id()), None)
        .expect("changed");
    let alien = keys.gather_words(pd, &sge(mr.key(), at + 96, 8), &mut recent);
    assert_eq!(alien, Err(Fault));
    // None's.
    assert_eq!(first(second.key(), &mut recent), Ok(whole(32)));
    assert_eq!(keys.deregister(&second), Ok(()));
    assert_eq!(first(second.key(), &mut recent), Err(Fault));
}

#[test]
fn a_region_that_comes_makes_nobody_forget() {
    let (keys, (scratch, at)) = (keys(), pages());
    let pd = Pd::new().id();
    let mr = register(&keys, pd, scratch, 0);
    let mut recent = None;
    let piece = sge(mr.key(), at, 8);
    assert!(keys.gather_words(pd, &piece, &mut recent).is_ok());
    let before = format!("{recent:?}");
    let more = register(&keys, pd, scratch, 0);
    assert!(keys.gather_words(pd, &piece, &mut recent).is_ok());
    assert_eq!(format!("{recent:?}"), before);
    assert_eq!(keys.deregister(&more), Ok(()));
    assert!(keys.gather_words(pd, &piece, &mut recent).is_ok());
    assert_ne!(format!("{recent:?}"), before);
}

#[test]
fn memory_on_demand_is_looked_at_each_time() {
    let (keys, (scratch, at)) = (keys(), pages());
    let pd = Pd::new().id();
    let mr = register(&keys, pd, scratch, IBV_ACCESS_ON_DEMAND);
    let mut recent = None;
    let piece = sge(mr.key(), at, 8);
    assert!(keys.gather_words(pd, &piece, &mut recent).is_ok());
    assert!(recent.is_none());
    scratch.unmap().expect("unmapped");
    assert_eq!(keys.gather_words(pd, &piece, &mut recent), Err(Fault));
}
