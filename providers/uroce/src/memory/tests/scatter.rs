//! Messages that come together.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn read(scratch: Scratch, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    scratch.memory().read(0, &mut bytes).expect("inside");
    bytes
}

#[test]
fn each_message_uses_the_key_of_its_request() {
    let keys = keys();
    let ((one, first), (two, second)) = (pages(), pages());
    let (pd, other) = (Pd::new().id(), Pd::new().id());
    let mine = register(&keys, pd, one, IBV_ACCESS_LOCAL_WRITE);
    let also = register(&keys, pd, two, IBV_ACCESS_LOCAL_WRITE);
    let alien = register(&keys, other, two, IBV_ACCESS_LOCAL_WRITE);
    let fixed = register(&keys, pd, two, 0);
    let mut memory = Scattering::new(&keys, pd, AccessMode::Direct);
    let [a, b] = [(&mine, first), (&also, second)].map(|(mr, at)| (mr.key(), at));
    assert_eq!(memory.write(&[sge(a.0, a.1, 8)], b"one"), Ok(()));
    assert_eq!(memory.write(&[sge(a.0, a.1 + 3, 3)], b"two"), Ok(()));
    for refused in [a.0 ^ 1, alien.key(), fixed.key(), 0] {
        let piece = [sge(refused, second, 8)];
        assert_eq!(memory.write(&piece, b"no"), Err(Fault), "{refused:#x}");
        // A refused message leaves no state for the next one.
        assert_eq!(memory.write(&[sge(a.0, a.1 + 6, 1)], b"!"), Ok(()));
    }
    assert_eq!(memory.write(&[sge(b.0, b.1, 2)], b"ab"), Ok(()));
    let pieces = [sge(a.0, a.1 + 7, 2), sge(0, 0, 0), sge(b.0, b.1 + 2, 9)];
    assert_eq!(memory.write(&pieces, b"xycd"), Ok(()));
    // Beyond the region, though the piece is long enough.
    let end = first + 2 * page() - 1;
    assert_eq!(memory.write(&[sge(a.0, end, 8)], b"ab"), Err(Fault));
    drop(memory);
    assert_eq!(read(one, 10), b"onetwo!xy\0");
    assert_eq!(read(two, 5), b"abcd\0");
}

fn page() -> u64 {
    u64::try_from(rustix::param::page_size()).expect("small")
}

#[test]
fn too_little_room_is_found_before_anything_is_written() {
    let (keys, (scratch, at)) = (keys(), pages());
    let pd = Pd::new().id();
    let mr = register(&keys, pd, scratch, IBV_ACCESS_LOCAL_WRITE);
    let mut memory = Scattering::new(&keys, pd, AccessMode::Direct);
    let piece = |offset, length| sge(mr.key(), at + offset, length);
    assert_eq!(memory.write(&[piece(0, 2)], b"abc"), Err(Fault));
    assert_eq!(
        memory.write(&[piece(0, 1), piece(1, 1)], b"abc"),
        Err(Fault)
    );
    assert_eq!(memory.write(&[], b"a"), Err(Fault));
    assert_eq!(read(scratch, 3), [0; 3]);
    // Nothing goes anywhere, whatever the key.
    assert_eq!(memory.write(&[], b""), Ok(()));
    assert_eq!(memory.write(&[sge(0, 0, 8)], b""), Ok(()));
}

#[test]
fn a_region_in_use_is_deregistered_when_the_messages_are_through() {
    let (keys, (scratch, at)) = (keys(), pages());
    let pd = Pd::new().id();
    let mr = register(&keys, pd, scratch, IBV_ACCESS_LOCAL_WRITE);
    let piece = [sge(mr.key(), at, 8)];
    let gone = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut memory = Scattering::new(&keys, pd, AccessMode::Direct);
        assert_eq!(memory.write(&piece, b"first"), Ok(()));
        scope.spawn(|| {
            assert_eq!(keys.deregister(&mr), Ok(()));
            gone.store(true, Ordering::SeqCst);
        });
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(memory.write(&piece, b"again"), Ok(()));
        assert!(!gone.load(Ordering::SeqCst));
    });
    assert!(gone.load(Ordering::SeqCst));
    assert_eq!(
        Scattering::new(&keys, pd, AccessMode::Direct).write(&piece, b"late"),
        Err(Fault)
    );
    assert_eq!(read(scratch, 5), b"again");
}
