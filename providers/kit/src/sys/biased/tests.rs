use super::{FIRST, Mutex, RwLock, barrier};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::Arc;

/// Whether there can be favourites: where the kernel has no membarrier(2) there are none.
fn there_are_favourites() -> bool {
    let there = barrier::is_there();
    if !there {
        println!("skipped: no membarrier(2) here");
    }
    there
}

/// As often as makes a thread the favourite, and once more.
fn often(mut call: impl FnMut()) {
    for _ in 0..FIRST + 2 {
        call();
    }
}

#[test]
fn a_thread_that_is_alone_need_not_lock() {
    if !there_are_favourites() {
        return;
    }
    let mutex = Mutex::new(0);
    assert!(mutex.lock().held.is_some());
    often(|| *mutex.lock() += 1);
    assert!(mutex.lock().held.is_none());
    assert!(mutex.try_lock().is_some_and(|guard| guard.held.is_none()));
    // Another comes, and nothing is lost.
    std::thread::scope(|scope| {
        scope.spawn(|| *mutex.lock() += 1);
    });
    assert_eq!(*mutex.lock(), FIRST + 3);
    assert!(mutex.lock().held.is_some());
    // Now it takes longer.
    often(|| drop(mutex.lock()));
    assert!(mutex.lock().held.is_some());
    often(|| drop(mutex.lock()));
    assert!(mutex.lock().held.is_none());
}

#[test]
fn who_is_inside_is_waited_for() {
    if !there_are_favourites() {
        return;
    }
    let mutex = Mutex::new(Vec::new());
    often(|| drop(mutex.lock()));
    std::thread::scope(|scope| {
        let mut guard = mutex.lock();
        assert!(guard.held.is_none());
        let other = scope.spawn(|| mutex.lock().push(2));
        let tries = scope.spawn(|| mutex.try_lock().is_none());
        assert!(tries.join().expect("an answer"));
        std::thread::sleep(std::time::Duration::from_millis(5));
        guard.push(1);
        drop(guard);
        other.join().expect("pushed");
    });
    assert_eq!(*mutex.lock(), [1, 2]);
}

#[test]
fn nothing_is_lost_between_threads() {
    const EACH: u64 = 10_000;
    let mutex = Mutex::new(0u64);
    std::thread::scope(|scope| {
        for which in 0..3 {
            let mutex = &mutex;
            scope.spawn(move || {
                for at in 0..EACH {
                    let mut guard = match which {
                        0 => mutex.try_lock().unwrap_or_else(|| mutex.lock()),
                        _ => mutex.lock(),
                    };
                    let before = *guard;
                    core::hint::black_box(&mut guard);
                    *guard = before + 1;
                    drop(guard);
                    // The others come seldom, so that there is a favourite to be disturbed.
                    if which > 0 && at % 16 == 0 {
                        std::thread::sleep(std::time::Duration::from_micros(20));
                    }
                }
            });
        }
    });
    assert_eq!(*mutex.lock(), 3 * EACH);
}

#[test]
fn a_condition_is_waited_for_by_the_favourite_too() {
    if !there_are_favourites() {
        return;
    }
    let shared = Arc::new((Mutex::new(false), parking_lot::Condvar::new()));
    let (mutex, condition) = &*shared;
    often(|| drop(mutex.lock()));
    let mut guard = mutex.lock();
    assert!(guard.held.is_none());
    let other = Arc::clone(&shared);
    let news = std::thread::spawn(move || {
        *other.0.lock() = true;
        other.1.notify_all();
    });
    while !*guard {
        guard.wait(condition);
    }
    drop(guard);
    news.join().expect("told");
}

#[test]
fn a_favourite_reads_while_it_reads() {
    if !there_are_favourites() {
        return;
    }
    let lock = RwLock::new(7);
    often(|| assert_eq!(*lock.read(), 7));
    let first = lock.read();
    let second = lock.read();
    assert!(first.held.is_none() && second.held.is_none());
    drop(first);
    std::thread::scope(|scope| {
        // Others read beside it.
        scope.spawn(|| assert_eq!(*lock.read(), 7));
    });
    drop(second);
    *lock.write() = 8;
    assert!(lock.read().held.is_some());
    assert_eq!(*lock.read(), 8);
}

#[test]
fn nobody_reads_what_is_half_written() {
    let lock = RwLock::new((0u64, 0u64));
    let (over, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    let pair = lock.read();
                    assert_eq!(pair.0, pair.1);
                    drop(pair);
                    reads.fetch_add(1, Relaxed);
                }
            });
        }
        for round in 1..50 {
            let before = reads.load(Relaxed);
            while reads.load(Relaxed) < before + 200 {
                std::thread::yield_now();
            }
            let mut pair = lock.write();
            pair.0 = round;
            core::hint::black_box(&mut pair);
            pair.1 = round;
        }
        over.store(true, Relaxed);
    });
    assert_eq!(lock.read().0, 49);
}

#[test]
fn who_helps_out_is_no_favourite() {
    if !there_are_favourites() {
        return;
    }
    let mutex = Mutex::new(());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            super::helps();
            often(|| drop(mutex.lock()));
            often(|| assert!(mutex.lock().held.is_some()));
        });
    });
    often(|| drop(mutex.lock()));
    assert!(mutex.lock().held.is_none());
}
