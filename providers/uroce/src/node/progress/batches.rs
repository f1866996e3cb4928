//! Queue pairs that have posted requests to send, which wait for others to leave together with.
//!
//! A thread that posts leaves them here instead of sending. They leave with whatever causes the
//! queue pair to send next: the post that completes a batch, the acknowledgement of earlier ones,
//! the next poll of an empty completion queue by a thread that attends the queue pair, or the
//! progress thread when they have waited for [`PATIENCE`]. Requests of several queue pairs leave by
//! one system call.
//!
//! *The timer* is a descriptor (timerfd_create(2)) in the set that wakes the progress thread also
//! while that leaves the sockets to pollers. The first request that waits sets it, or moves it on
//! if it was set for earlier ones: so it does not expire while a program posts and polls all the
//! time. Without a timer no request waits.
//!
//! *Invariant.* While a queue pair is in the list, the timer is set, or the progress thread is
//! about to take all, or a thread that could not set it is about to. [`Batches::expired`] notes
//! that the timer is not set before the list is taken, and [`Batches::add`] checks that after it
//! has added to the list.

use super::watch::{BATCHES, Watches};
use crate::node::registry::{Entry, Table};
use kit::errno::Result;
use kit::sync::Mutex;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_settime};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use uroce_engine::timer::Time;

/// How long requests wait at most, in nanoseconds.
const PATIENCE: u16 = 50_000;
/// The timer is moved on if it was set so long ago.
const MOVES: u64 = 20_000;

/// The queue pairs, by index.
pub(in crate::node) struct Batches {
    /// There may be some.
    any: AtomicBool,
    indices: Mutex<Vec<u32>>,
    timer: Option<OwnedFd>,
    /// When the timer was set, in nanoseconds; 0 if it is not.
    set: AtomicU64,
}

/// A timer that wakes the thread of these watches.
fn timer(watches: &Watches) -> Result<OwnedFd> {
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
    let data = EventData::new_u64(BATCHES);
    epoll::add(watches.set(), &timer, data, EventFlags::IN)?;
    Ok(timer)
}

/// The timer expires once, that many nanoseconds from now.
fn set(timer: &OwnedFd, nanos: u16) -> bool {
    let time = |nanos| Timespec {
        tv_sec: 0,
        tv_nsec: nanos,
    };
    let time = Itimerspec {
        it_interval: time(0),
        it_value: time(nanos.into()),
    };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &time).is_ok()
}

impl Batches {
    /// None yet. The timer wakes the thread of `watches`.
    pub fn new(watches: &Watches) -> Self {
        Self {
            any: AtomicBool::new(false),
            indices: Mutex::default(),
            timer: timer(watches).ok(),
            set: AtomicU64::new(0),
        }
    }

    /// The requests of a queue pair wait. Returns whether that will end: if not, the caller sends
    /// those of all.
    pub fn add(&self, entry: &Entry, index: u32, now: Time) -> bool {
        let Some(timer) = &self.timer else {
            return false;
        };
        if entry.batches.load(SeqCst) || entry.batches.swap(true, SeqCst) {
            return true;
        }
        let is_first = {
            let mut indices = self.indices.lock();
            indices.push(index);
            self.any.store(true, SeqCst);
            indices.len() == 1
        };
        let now = now.nanos().max(1);
        let before = self.set.load(SeqCst);
        if before != 0 && !(is_first && now.saturating_sub(before) >= MOVES) {
            return true;
        }
        self.set.store(now, SeqCst);
        let is_set = set(timer, PATIENCE);
        if !is_set {
            self.set.store(0, SeqCst);
        }
        is_set
    }

    /// Whether there may be some.
    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(SeqCst)
    }

    /// Takes those that are wanted. A request that is posted from now on is added again, or is
    /// there when its queue pair is asked for packets after this. `wanted` is called with the list
    /// locked.
    pub fn take(&self, table: &Table, wanted: impl Fn(&Entry) -> bool) -> Vec<u32> {
        let mut indices = self.indices.lock();
        let wanted = |index: &mut u32| table.get(*index).is_none_or(&wanted);
        let taken: Vec<u32> = indices.extract_if(.., wanted).collect();
        self.any.store(!indices.is_empty(), SeqCst);
        drop(indices);
        for entry in taken.iter().filter_map(|index| table.get(*index)) {
            entry.batches.store(false, SeqCst);
        }
        taken
    }

    /// The timer has expired: the caller takes all.
    pub fn expired(&self) {
        if let Some(timer) = &self.timer {
            let mut count = [0; 8];
            // Fails if it was set again meanwhile.
            let _ = rustix::io::read(timer, &mut count);
        }
        self.set.store(0, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::progress::alarm::wait_exactly;
    use crate::node::tests::Idle;
    use kit::sys::fork_guard::ForkGuard;
    use std::sync::Arc;

    struct World {
        batches: Batches,
        table: Table,
        watches: Watches,
    }

    fn world() -> World {
        let table = Table::new();
        for _ in 0..2 {
            let index = table.reserve().expect("an index");
            table.put(index, Arc::new(Idle));
        }
        let guard = ForkGuard::new().expect("a guard");
        let watches = Watches::new(guard).expect("a set");
        World {
            batches: Batches::new(&watches),
            table,
            watches,
        }
    }

    impl World {
        fn add(&self, index: u32, nanos: u64) -> bool {
            let entry = self.table.get(index).expect("an entry");
            self.batches.add(entry, index, Time::from_nanos(nanos))
        }

        fn take_all(&self) -> Vec<u32> {
            self.batches.take(&self.table, |_| true)
        }

        fn set(&self) -> u64 {
            self.batches.set.load(SeqCst)
        }
    }

    #[test]
    fn a_queue_pair_is_there_once_until_it_is_taken() {
        let world = world();
        assert!(!world.batches.any());
        for index in [1, 1, 0] {
            assert!(world.add(index, 1));
        }
        assert!(world.batches.any());
        assert_eq!(world.take_all(), [1, 0]);
        assert!(!world.batches.any());
        assert_eq!(world.take_all(), []);
        assert!(world.add(1, 1));
        assert_eq!(world.take_all(), [1]);
    }

    #[test]
    fn those_that_are_not_wanted_stay() {
        let world = world();
        assert!(world.add(0, 1) && world.add(1, 1));
        let second = world.table.get(1).expect("an entry");
        let taken = world
            .batches
            .take(&world.table, |entry| std::ptr::eq(entry, second));
        assert_eq!(taken, [1]);
        assert!(world.batches.any());
        assert_eq!(world.take_all(), [0]);
    }

    #[test]
    fn the_first_sets_the_timer_and_a_later_first_moves_it() {
        let world = world();
        assert_eq!(world.set(), 0);
        assert!(world.add(0, 1000));
        assert_eq!(world.set(), 1000);
        assert!(world.add(1, 1000 + MOVES));
        assert_eq!(world.set(), 1000, "the first has waited since then");
        world.take_all();
        assert!(world.add(1, 999 + MOVES));
        assert_eq!(world.set(), 1000, "it is near enough");
        world.take_all();
        assert!(world.add(1, 1000 + MOVES));
        assert_eq!(world.set(), 1000 + MOVES);
    }

    #[test]
    fn the_timer_expires_once() {
        let world = world();
        assert!(world.add(0, 7));
        let mut found = [std::mem::MaybeUninit::uninit()];
        let events = kit::sys::epoll::wait(world.watches.set(), None, &mut found);
        let events: Vec<u64> = events
            .expect("events")
            .iter()
            .map(|event| event.data.u64())
            .collect();
        assert_eq!(events, [BATCHES]);
        world.batches.expired();
        assert_eq!(world.set(), 0);
        assert!(world.add(1, 8), "others wait meanwhile");
        assert_eq!(world.set(), 8, "so the timer is set again");
        wait_exactly(world.watches.set(), u64::MAX).expect("no error");
        assert_eq!(world.take_all(), [0, 1]);
    }

    #[test]
    fn without_a_timer_nothing_waits() {
        let mut world = world();
        world.batches.timer = None;
        assert!(!world.add(0, 1));
        assert!(!world.batches.any());
    }
}
