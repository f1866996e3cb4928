//! The MR cache: few bytes by the key that was used last.

use super::*;
use kit::sync::Mutex;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};

/// A sender, which reads under its own lock.
struct Sender(Mutex<MrCache>);

/// One of a domain.
fn new_sender(pd: PdId) -> Arc<Sender> {
    Arc::new_cyclic(|me: &Weak<Sender>| Sender(Mutex::new(MrCache::new(pd, me.clone()))))
}

impl InvalidationListener for Sender {
    fn forget(&self, key: u32) {
        self.0.lock().forget(key);
    }
}

fn gather(keys: &Keys, sender: &Sender, piece: Sge) -> Result<Vec<u8>, Fault> {
    let words = keys.gather_few(piece, &mut sender.0.lock())?;
    Ok(words.iter().flat_map(|word| word.to_ne_bytes()).collect())
}

fn received(sender: &Sender, pieces: &[Sge], data: &[u8]) -> Option<()> {
    let length = u32::try_from(data.len()).ok()?;
    let place = sender.0.lock().place(pieces, length)?;
    place.write(0, data).ok()
}

fn caches(sender: &Sender) -> bool {
    !sender.0.lock().is_empty()
}

fn fill(scratch: Scratch) -> Vec<u8> {
    let pattern: Vec<u8> = (0..=255).collect();
    scratch.memory().write(0, &pattern).expect("inside");
    pattern
}

#[test]
fn a_piece_to_be_sent_is_lent_from_its_second_use_on() {
    let (keys, (scratch, at)) = (keys(), pages());
    let pd = Pd::new().id();
    let mr = register(&keys, pd, scratch, 0);
    let length = u32::try_from(scratch.memory().length()).expect("small");
    let sender = new_sender(pd);
    let lent = |address, length| {
        let bytes = keys.lend(sge(mr.key(), address, length), &mut sender.0.lock())?;
        Some((bytes.address() as u64, bytes.length()))
    };
    assert_eq!(lent(at, 64), None);
    assert_eq!(lent(at, 64), Some((at, 64)));
    let last = at + u64::from(length) - 4;
    assert_eq!(lent(last, 4), Some((last, 4)));
    assert_eq!(lent(last, 5), None, "beyond the end");
    assert_eq!(lent(at - 1, 4), None, "before the beginning");
    keys.deregister(&mr).expect("it was registered");
    assert_eq!(lent(at, 64), None);
}

#[test]
fn any_few_bytes_from_anywhere_are_read_and_zeros_behind_them() {
    let (keys, (scratch, at)) = (keys(), pages());
    let pattern = fill(scratch);
    let pd = Pd::new().id();
    let mr = register(&keys, pd, scratch, 0);
    for offset in 0..17u8 {
        for length in 1..=32u8 {
            let piece = sge(mr.key(), at + u64::from(offset), length.into());
            let from = usize::from(offset);
            let mut expected = pattern[from..from + usize::from(length)].to_vec();
            expected.resize(32, 0);
            let sender = new_sender(pd);
            for known in [false, false, true, true] {
                assert_eq!(caches(&sender), known);
                let read = gather(&keys, &sender, piece);
                assert_eq!(read.as_ref(), Ok(&expected), "{offset} {length}");
            }
            let long = sge(mr.key(), at, 33);
            assert_eq!(gather(&keys, &sender, long), Err(Fault));
        }
    }
}

#[test]
fn the_end_of_a_region_is_its_end() {
    let (keys, (scratch, at)) = (keys(), pages());
    let pd = Pd::new().id();
    let memory = scratch.range(64, 20).expect("a range");
    let (mr, _) = keys.register(pd, memory, at + 64, 0).expect("registered");
    let sender = new_sender(pd);
    let read = |offset: u64, length| {
        let piece = sge(mr.key(), (at + 64).wrapping_add(offset), length);
        gather(&keys, &sender, piece).is_ok()
    };
    assert!(read(0, 8) && read(12, 8) && read(8, 12) && read(0, 20) && read(19, 1));
    for (offset, length) in [(13, 8), (0, 24), (20, 1), (u64::MAX, 1), (u64::MAX, 8)] {
        assert!(!read(offset, length), "{offset} {length}");
    }
    assert!(read(0, 16) && caches(&sender));
}

#[test]
fn a_reused_key_is_forgotten() {
    let (keys, (scratch, at)) = (keys(), pages());
    let pattern = fill(scratch);
    let (pd, other) = (Pd::new().id(), Pd::new().id());
    let mr = register(&keys, pd, scratch, 0);
    let sender = new_sender(pd);
    let first = |key, at| {
        let read = gather(&keys, &sender, sge(key, at, 8));
        read.map(|bytes| bytes[..8].to_vec())
    };
    let there = |key, at, offset: usize| {
        for _ in 0..3 {
            assert_eq!(first(key, at), Ok(pattern[offset..offset + 8].to_vec()));
        }
        assert!(caches(&sender));
    };
    there(mr.key(), at, 0);
    // Another key is another region.
    let part = scratch.range(32, 64).expect("a range");
    let (second, _) = keys.register(pd, part, at, 0).expect("registered");
    there(second.key(), at, 32);
    there(mr.key(), at, 0);
    // The same key at another place.
    let moved = scratch.range(96, 64).expect("a range");
    keys.rereg(&mr, Some(moved), None, None).expect("changed");
    assert!(!caches(&sender));
    assert_eq!(first(mr.key(), at), Err(Fault));
    there(mr.key(), at + 96, 96);
    // Another domain's.
    keys.rereg(&mr, None, Some(other), None).expect("changed");
    assert_eq!(first(mr.key(), at + 96), Err(Fault));
    // None's.
    there(second.key(), at, 32);
    assert_eq!(keys.deregister(&second), Ok(()));
    assert!(!caches(&sender));
    assert_eq!(first(second.key(), at), Err(Fault));
    assert_eq!(keys.deregister(&second), Err(Errno::INVAL));
}

#[test]
fn deregistration_waits_for_a_thread_that_reads_by_the_key() {
    let (keys, (scratch, at)) = (keys(), pages());
    let pd = Pd::new().id();
    let mr = register(&keys, pd, scratch, 0);
    let sender = new_sender(pd);
    let piece = sge(mr.key(), at, 8);
    for _ in 0..2 {
        assert!(gather(&keys, &sender, piece).is_ok());
    }
    let gone = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut cache = sender.0.lock();
        let other = scope.spawn(|| {
            assert_eq!(keys.deregister(&mr), Ok(()));
            gone.store(true, Ordering::SeqCst);
        });
        // From then on it waits for the cache's lock.
        while !mr.identity.listeners.is_changing() && !other.is_finished() {
            std::thread::yield_now();
        }
        assert!(keys.gather_few(piece, &mut cache).is_ok());
        assert!(!gone.load(Ordering::SeqCst));
        // A sender that comes now uses the key, and does not cache it.
        let late = new_sender(pd);
        for _ in 0..3 {
            assert!(gather(&keys, &late, piece).is_ok());
        }
        assert!(!caches(&late));
    });
    assert!(gone.load(Ordering::SeqCst));
    assert_eq!(gather(&keys, &sender, piece), Err(Fault));
}

#[test]
fn listeners_that_are_gone_are_not_kept() {
    let (keys, (scratch, at)) = (keys(), pages());
    let pd = Pd::new().id();
    let mr = register(&keys, pd, scratch, 0);
    let piece = sge(mr.key(), at, 8);
    let stays = new_sender(pd);
    let mut gone: Vec<Weak<Sender>> = Vec::new();
    for _ in 0..1000 {
        let sender = new_sender(pd);
        for sender in [&sender, &stays] {
            for _ in 0..2 {
                assert!(gather(&keys, sender, piece).is_ok());
            }
        }
        assert!(caches(&sender) && caches(&stays));
        gone.push(Arc::downgrade(&sender));
    }
    assert!(gone.iter().all(|sender| sender.strong_count() == 0));
    let count = mr.identity.listeners.count();
    keys.rereg(&mr, None, Some(pd), None).expect("changed");
    assert!(!caches(&stays));
    assert!((1..=8).contains(&count), "{count}");
}

#[test]
fn memory_on_demand_is_looked_at_each_time() {
    let (keys, (scratch, at)) = (keys(), pages());
    let pd = Pd::new().id();
    let mr = register(&keys, pd, scratch, IBV_ACCESS_ON_DEMAND);
    let sender = new_sender(pd);
    let piece = sge(mr.key(), at, 8);
    for _ in 0..3 {
        assert!(gather(&keys, &sender, piece).is_ok());
    }
    assert!(!caches(&sender));
    scratch.unmap().expect("unmapped");
    assert_eq!(gather(&keys, &sender, piece), Err(Fault));
}

#[test]
fn a_message_goes_into_a_piece_whose_region_is_cached() {
    let (keys, (scratch, at)) = (keys(), pages());
    fill(scratch);
    let pd = Pd::new().id();
    let mr = register(&keys, pd, scratch, IBV_ACCESS_LOCAL_WRITE);
    let sender = new_sender(pd);
    let piece = sge(mr.key(), at + 8, 16);
    let receive = |piece: Sge, data: &[u8]| received(&sender, &[piece], data);
    let to_receive = |piece: Sge| keys.is_to_receive(piece, &mut sender.0.lock());
    assert_eq!(receive(piece, &[1; 4]), None);
    assert!(!to_receive(piece) && to_receive(piece) && to_receive(piece));
    assert_eq!(receive(piece, &[1; 16]), Some(()));
    assert_eq!(receive(piece, &[]), Some(()));
    let mut bytes = [0; 32];
    scratch.memory().read(0, &mut bytes).expect("inside");
    assert_eq!(bytes[7..10], [7, 1, 1]);
    assert_eq!(bytes[22..26], [1, 1, 24, 25]);
    // Too long, by another key, in two pieces, outside.
    assert_eq!(receive(piece, &[2; 17]), None);
    assert_eq!(receive(sge(mr.key() ^ 1, at, 16), &[2; 4]), None);
    assert_eq!(received(&sender, &[piece, piece], &[2; 4]), None);
    let end = at + u64::try_from(scratch.memory().length()).expect("64 bits");
    for outside in [sge(mr.key(), end - 8, 16), sge(mr.key(), at - 8, 16)] {
        assert!(!to_receive(outside));
        assert_eq!(receive(outside, &[2; 4]), None);
    }
    let mut after = [0; 32];
    scratch.memory().read(0, &mut after).expect("inside");
    assert_eq!(after, bytes);
    keys.deregister(&mr).expect("gone");
    assert_eq!(receive(piece, &[3; 4]), None);
}

#[test]
fn nothing_is_received_into_memory_that_is_only_read() {
    let (keys, (scratch, at)) = (keys(), pages());
    let pd = Pd::new().id();
    let mr = register(&keys, pd, scratch, 0);
    let sender = new_sender(pd);
    let piece = sge(mr.key(), at, 16);
    for _ in 0..3 {
        assert!(!keys.is_to_receive(piece, &mut sender.0.lock()));
    }
    assert!(caches(&sender));
    assert_eq!(received(&sender, &[piece], &[1]), None);
}
