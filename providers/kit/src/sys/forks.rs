//! Locks of the whole process that fork(2) waits for.
//!
//! A child has only the thread that forked. A lock that another thread held at that moment stays
//! taken in the child for ever, and the guarded data may be half changed. Therefore each lock
//! registered here is taken before fork(2), by handlers of pthread_atfork(3), and released after it
//! in both processes. A bare clone(2) has no such handlers.
//!
//! A lock that several threads take in turn is hardly ever free, and two such locks are never free
//! at the same time. Also, some data that a thread changes has no lock here: the dynamic linker's
//! list of objects while a provider loads, values of `Once` and `OnceLock`. Therefore functions
//! that list, load and open devices begin with [`enter`]: fork waits for the threads that are in
//! it, and no thread begins while another one forks. A fork within [`enter`] (a signal handler, a
//! constructor of a provider) does not wait, because it might wait for its own thread.
//!
//! State that a child may find half changed is therefore one of five kinds:
//!
//! - state that changes only within [`enter`];
//! - a lock that fork waits for, which is registered here;
//! - [`super::per_process::PerProcess`], which a child starts anew;
//! - [`super::first::First`], which is made without waiting for a thread that makes it, too;
//! - a lock that is only ever tried, where the work can be done without it (caches).
//!
//! `OnceLock::get_or_init`, `LazyLock` and `Once` are of the first kind only: in a child they wait
//! for a thread that is not there.
//!
//! Locks themselves are of [`crate::sync`] or [`super::lock`]. Those know nothing of each other:
//! threads that sleep at one, in the parent, are nothing to a child that uses another.

use super::lock::{Brief, Lock};
use crate::errno::{Errno, Result};
use core::cell::Cell;
use core::marker::PhantomData;
use core::ptr::{from_ref, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use lock_api::RawMutex;
use std::time::{Duration, Instant};

/// Locks at most.
const MOST: usize = 16;
/// How long fork(2) is held up at most by a thread that is within [`enter`], or holds a lock, for
/// long: one that the machine does not run, or that waits for the kernel. A thread waits as long
/// for another one's fork.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_micros(20);
/// How often a thread tries to take a lock before it pauses.
const LOOKS: usize = 2000;

/// Held while a lock is registered: so none is between fork(2)'s look and the fork.
static REGISTERING: Brief = Brief::INIT;

/// That one, then the others in the order of their registration; null behind them.
static LOCKS: [AtomicPtr<Brief>; MOST] = {
    let mut locks = [const { AtomicPtr::new(null_mut()) }; MOST];
    locks[0] = AtomicPtr::new((&raw const REGISTERING).cast_mut());
    locks
};

/// Called when the library is loaded, before any thread is in it: handlers that live as long as it
/// does (glibc takes those of an unloaded library away).
#[used]
#[cfg(not(miri))]
// SAFETY: a function without arguments, as this section holds.
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn handle_forks() {
        // SAFETY: the handlers take and give back locks, and nothing else. Without memory there are
        // none.
        let _ = unsafe { libc::pthread_atfork(Some(prepare), Some(release), Some(release_child)) };
    }
    handle_forks
};

thread_local! {
    /// How many of the locks this thread has taken for its fork.
    static TAKEN: Cell<usize> = const { Cell::new(0) };
    /// How many times this thread is within [`enter`].
    static ENTERED: Cell<u32> = const { Cell::new(0) };
}

/// Threads that fork, and wait for others or have the locks.
static FORKING: AtomicU32 = AtomicU32::new(0);

/// Number of threads within [`enter`]. A thread that enters counts itself and then checks for
/// forks; a thread that forks announces it and then reads this. So one of the two sees the other.
static INSIDE: AtomicU32 = AtomicU32::new(0);

/// A thread is within [`enter`] until this is dropped.
#[derive(Debug)]
pub struct Entered(PhantomData<*mut ()>);

/// Called, without holding a registered lock, before changes that a child must not find half done.
/// Other threads fork first.
#[must_use]
pub fn enter() -> Entered {
    let within = ENTERED.get();
    if within == 0 {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        if TAKEN.get() == 0 && FORKING.load(Ordering::SeqCst) > 0 {
            let_others_fork();
        }
    }
    ENTERED.set(within.saturating_add(1));
    Entered(PhantomData)
}

#[cold]
fn let_others_fork() {
    let until = Instant::now() + PATIENCE;
    while FORKING.load(Ordering::SeqCst) > 0 && Instant::now() < until {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
        super::sched::sleep(PAUSE);
        INSIDE.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let within = ENTERED.get().saturating_sub(1);
        ENTERED.set(within);
        if within == 0 {
            INSIDE.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Has fork(2) wait for a lock. To be called each time before it is taken; again for the same lock
/// is nothing new.
///
/// # Errors
/// ENOMEM if there are 15.
pub fn wait_for<T>(lock: &'static Lock<T>) -> Result<()> {
    // SAFETY: the raw lock is only taken, and only given back by the thread that took it.
    let lock = from_ref(unsafe { lock.raw() });
    if locks().any(|known| core::ptr::eq(known, lock)) {
        return Ok(());
    }
    REGISTERING.lock();
    let registered = register(lock);
    // SAFETY: taken above.
    unsafe { REGISTERING.unlock() };
    registered
}

fn register(lock: *const Brief) -> Result<()> {
    let free = |place: &&AtomicPtr<Brief>| {
        let there = place.load(Ordering::Acquire);
        there.is_null() || core::ptr::eq(there, lock)
    };
    let place = LOCKS.iter().find(free).ok_or(Errno::NOMEM)?;
    place.store(lock.cast_mut(), Ordering::Release);
    Ok(())
}

fn locks() -> impl Iterator<Item = &'static Brief> {
    // SAFETY: a pointer that is not null came from a lock that lives for ever.
    LOCKS
        .iter()
        .map_while(|place| unsafe { place.load(Ordering::Acquire).as_ref() })
}

/// Waits for the threads within [`enter`], and takes all locks, or none, because other threads may
/// wait for a thread that waits for one lock while it holds another. The lock that could not be
/// taken is waited for next, without holding others.
unsafe extern "C" fn prepare() {
    FORKING.fetch_add(1, Ordering::SeqCst);
    let patience = match ENTERED.get() {
        0 => PATIENCE,
        _ => Duration::ZERO,
    };
    let until = Instant::now() + patience;
    while INSIDE.load(Ordering::SeqCst) > 0 && Instant::now() < until {
        super::sched::sleep(PAUSE);
    }
    let mut wanted = 0;
    loop {
        match take_all_from(wanted) {
            Ok(taken) => {
                TAKEN.set(taken);
                return;
            }
            Err(lacking) => wanted = lacking,
        }
        if Instant::now() >= until {
            TAKEN.set(0);
            return;
        }
        super::sched::sleep(PAUSE);
    }
}

/// The number of taken locks, or the position of one that could not be taken.
fn take_all_from(wanted: usize) -> core::result::Result<usize, usize> {
    let Some(first) = locks().nth(wanted) else {
        return Err(0);
    };
    if !(0..LOOKS).any(|_| first.try_lock() || spin()) {
        return Err(wanted);
    }
    let others = || locks().enumerate().filter(|(at, _)| *at != wanted);
    let lacking = others().find(|(_, lock)| !lock.try_lock());
    let Some((lacking, _)) = lacking else {
        // With the lock of registrations in hand no other comes.
        return Ok(locks().count());
    };
    let taken = others().take_while(|(at, _)| *at < lacking);
    for lock in taken.map(|(_, lock)| lock).chain([first]) {
        // SAFETY: taken above.
        unsafe { lock.unlock() };
    }
    Err(lacking)
}

/// Waits for an instant; false.
fn spin() -> bool {
    core::hint::spin_loop();
    false
}

unsafe extern "C" fn release() {
    give_back(TAKEN.replace(0));
    FORKING.fetch_sub(1, Ordering::SeqCst);
}

/// Other threads that fork, or are within [`enter`], are not in the child.
unsafe extern "C" fn release_child() {
    give_back(TAKEN.replace(0));
    FORKING.store(0, Ordering::SeqCst);
    INSIDE.store(u32::from(ENTERED.get() > 0), Ordering::SeqCst);
}

fn give_back(taken: usize) {
    for lock in locks().take(taken) {
        // SAFETY: this thread has taken it.
        unsafe { lock.unlock() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Mutex;
    use crate::sys::fork_guard::ForkGuard;
    use crate::sys::in_child::{status_of, status_of_first};
    use core::ffi::c_int;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    static FIRST: Lock<u32> = Lock::new(0);
    static SECOND: Lock<u32> = Lock::new(0);

    fn child_ends_with(status: c_int, child: impl FnOnce() -> c_int) {
        assert_eq!(status_of(child), status);
    }

    /// Both are the first of their PID namespaces.
    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no fork(2)")]
    fn a_child_of_the_same_number_is_not_the_process_that_made_a_guard() {
        const NOT_PERMITTED: c_int = 7;
        let is_first = || std::process::id() == 1;
        let parent = || {
            let guard = ForkGuard::new().expect("a guard");
            let child = || c_int::from(!is_first() || guard.here().is_ok());
            if is_first() && guard.here().is_ok() {
                status_of_first(child).unwrap_or(NOT_PERMITTED)
            } else {
                2
            }
        };
        match status_of(|| status_of_first(parent).unwrap_or(NOT_PERMITTED)) {
            NOT_PERMITTED => eprintln!("skipped: a PID namespace needs root"),
            status => assert_eq!(status, 0),
        }
    }

    /// Two locks, one of which is always taken: fork finds a moment for both all the same.
    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no fork(2)")]
    fn a_fork_finds_a_moment_for_locks_that_are_hardly_ever_free() {
        static LOCKS: [Lock<u32>; 2] = [Lock::new(0), Lock::new(0)];
        LOCKS.iter().for_each(|lock| wait_for(lock).unwrap());
        let end = AtomicBool::new(false);
        thread::scope(|threads| {
            for number in 0..4 {
                let end = &end;
                threads.spawn(move || {
                    while !end.load(Ordering::Relaxed) {
                        let _entered = enter();
                        for lock in &LOCKS {
                            *lock.lock() += 1;
                            thread::sleep(Duration::from_micros(200 + 50 * number));
                        }
                        let _both = LOCKS.each_ref().map(|lock| {
                            let guard = lock.lock();
                            thread::sleep(Duration::from_micros(100));
                            guard
                        });
                    }
                });
            }
            for _ in 0..50 {
                let free = || LOCKS.iter().all(|lock| lock.try_lock().is_some());
                child_ends_with(0, || c_int::from(!free()));
            }
            end.store(true, Ordering::Relaxed);
        });
    }

    /// Values without a lock, each changed by a thread in two steps: a child never meets one in
    /// between.
    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no fork(2)")]
    fn a_fork_waits_for_threads_that_are_within() {
        let steps = [const { [AtomicU32::new(0), AtomicU32::new(0)] }; 3];
        let end = AtomicBool::new(false);
        thread::scope(|threads| {
            for [first, second] in &steps {
                let end = &end;
                threads.spawn(move || {
                    while !end.load(Ordering::Relaxed) {
                        let _entered = enter();
                        let _again = enter();
                        first.fetch_add(1, Ordering::Relaxed);
                        thread::sleep(Duration::from_micros(300));
                        second.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let whole = || {
                steps.iter().all(|[first, second]| {
                    first.load(Ordering::Relaxed) == second.load(Ordering::Relaxed)
                })
            };
            for _ in 0..50 {
                child_ends_with(0, || c_int::from(!whole()));
            }
            end.store(true, Ordering::Relaxed);
        });
        assert!(
            steps
                .iter()
                .all(|[first, _]| first.load(Ordering::Relaxed) > 0)
        );
    }

    /// A thread that forks within does not wait for itself.
    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no fork(2)")]
    fn a_fork_within_continues_without_the_locks() {
        static OWN: Lock<u32> = Lock::new(0);
        wait_for(&OWN).unwrap();
        let entered = enter();
        let own = OWN.lock();
        child_ends_with(0, || {
            // Another fork of the child finds the same.
            c_int::from(OWN.try_lock().is_some() || FORKING.load(Ordering::Relaxed) != 0)
        });
        drop(own);
        drop(entered);
        child_ends_with(0, || c_int::from(OWN.try_lock().is_none()));
    }

    /// Three threads take locks in turn and go away from the processor with them.
    fn contend(locks: &[Mutex<u32>], turns: usize, end: &AtomicBool) {
        thread::scope(|threads| {
            for first in 0..3 {
                threads.spawn(move || {
                    for turn in first..first + turns {
                        if end.load(Ordering::Relaxed) {
                            return;
                        }
                        let mut count = locks[turn % locks.len()].lock();
                        *count = count.wrapping_add(1);
                        thread::yield_now();
                    }
                });
            }
        });
    }

    /// Threads that sleep at a lock or wake others there, in the parent, do not block a child whose
    /// threads wait for other locks.
    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no fork(2)")]
    fn a_child_waits_at_its_locks_independently_of_former_threads() {
        let end = AtomicBool::new(false);
        thread::scope(|threads| {
            threads.spawn(|| contend(&[Mutex::new(0)], usize::MAX - 3, &end));
            for _ in 0..100 {
                child_ends_with(0, || {
                    let locks: [Mutex<u32>; 16] = Default::default();
                    contend(&locks, 100, &AtomicBool::new(false));
                    let counts = locks.iter().map(|lock| *lock.lock());
                    c_int::from(counts.sum::<u32>() != 300)
                });
            }
            end.store(true, Ordering::Relaxed);
        });
    }

    /// Both are changed under one another's lock; a child finds both free, and both changed.
    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no fork(2)")]
    fn a_child_finds_locks_free_and_values_whole() {
        wait_for(&FIRST).unwrap();
        wait_for(&SECOND).unwrap();
        wait_for(&FIRST).unwrap();
        let end = AtomicBool::new(false);
        thread::scope(|threads| {
            threads.spawn(|| {
                while !end.load(Ordering::Relaxed) {
                    // The other order than that of their registration.
                    let mut second = SECOND.lock();
                    *second += 1;
                    *FIRST.lock() += 1;
                    drop(second);
                    thread::yield_now();
                }
            });
            for _ in 0..200 {
                child_ends_with(0, || c_int::from(*FIRST.lock() != *SECOND.lock()));
            }
            end.store(true, Ordering::Relaxed);
        });
        assert_eq!(*FIRST.lock(), *SECOND.lock());
    }
}
