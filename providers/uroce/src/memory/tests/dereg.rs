//! Regions that go while they are in use.

use super::*;
use kit::sys::application::FoundPage;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn after_deregistering_no_byte_changes_any_more() {
    let (keys, (scratch, at)) = (keys(), pages());
    let pd = Pd::new().id();
    let who = Peer { pd, qpn: 7 };
    let memory = scratch.memory();
    let length = memory.length();
    let current = std::sync::atomic::AtomicU32::new(0);
    let done = AtomicBool::new(false);
    let hits = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for fill in [0x55, 0xaa] {
            let (keys, current, done, hits) = (&keys, &current, &done, &hits);
            scope.spawn(move || {
                let data = vec![fill; length];
                while !done.load(Ordering::Relaxed) {
                    let key = current.load(Ordering::Relaxed);
                    if keys
                        .using(AccessMode::Direct)
                        .write(who, key, at, &data)
                        .is_ok()
                    {
                        hits.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let mut rounds = 0;
        while rounds < 100 || hits.load(Ordering::Relaxed) < 100 {
            let mr = register(&keys, pd, scratch, FULL);
            current.store(mr.key(), Ordering::Relaxed);
            std::thread::yield_now();
            assert_eq!(keys.deregister(&mr), Ok(()));
            memory.write(0, &vec![0; length]).expect("inside");
            std::thread::yield_now();
            let mut bytes = vec![1; length];
            memory.read(0, &mut bytes).expect("inside");
            assert!(bytes.iter().all(|byte| *byte == 0));
            rounds += 1;
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn an_old_key_does_not_open_its_successor() {
    let (keys, (scratch, at)) = (keys(), pages());
    let pd = Pd::new().id();
    let mut seen = std::collections::HashSet::new();
    let mut old = Vec::new();
    for _ in 0..5000 {
        let mr = register(&keys, pd, scratch, 0);
        assert!(seen.insert(mr.key()), "a key came again too soon");
        old.push(mr.key());
    }
    let live = register(&keys, pd, scratch, 0);
    for key in old {
        assert_eq!(
            keys.using(AccessMode::Direct)
                .gather(pd, sge(key, at, 1), &mut [0]),
            Err(Fault)
        );
    }
    assert_eq!(
        keys.using(AccessMode::Direct)
            .gather(pd, sge(live.key(), at, 1), &mut [0]),
        Ok(())
    );
}

#[test]
fn binding_and_deregistering_at_once_never_leave_a_window_of_nothing() {
    let (keys, (scratch, at)) = (keys(), pages());
    let pd = Pd::new().id();
    let who = Peer { pd, qpn: 1 };
    let (mw, first) = keys.alloc_mw(pd, IBV_MW_TYPE_2).expect("allocated");
    let mw = Arc::new(mw);
    for round in 0..300 {
        let mr = Arc::new(register(&keys, pd, scratch, FULL));
        let binding = Binding {
            mw: Arc::clone(&mw),
            rkey: first,
            mr: Some(Arc::clone(&mr)),
            address: at,
            length: 8,
            access: IBV_ACCESS_REMOTE_READ,
        };
        let gone = std::thread::scope(|scope| {
            let binder = scope.spawn(|| keys.bind(who, &binding).is_ok());
            while round % 3 == 0 && !binder.is_finished() {
                std::thread::yield_now();
            }
            let gone = keys.deregister(&mr);
            let was_bound = binder.join().expect("it ends");
            assert_eq!(gone.is_err(), was_bound);
            assert!(was_bound || round % 3 != 0);
            gone
        });
        let read = keys.using(AccessMode::Direct).read(
            who,
            first,
            at,
            &mut [0; 8],
            &mut FoundPage::default(),
        );
        assert_eq!(read.is_ok(), gone == Err(Errno::BUSY));
        if gone.is_err() {
            assert_eq!(keys.invalidate(who, first, false), Ok(()));
            assert_eq!(keys.deregister(&mr), Ok(()));
        }
    }
}
