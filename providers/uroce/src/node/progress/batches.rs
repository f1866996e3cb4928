//! Queue pairs that have posted requests to send, which wait for others to leave together with.
//!
//! A thread that posts leaves them here instead of sending. They leave with whatever causes the
//! queue pair to send next: the post that completes a batch, the acknowledgement of earlier ones,
//! the next poll of an empty completion queue by a thread that attends the queue pair, or the
//! progress thread when they have waited for [`PATIENCE`]. Requests of several queue pairs leave by
//! one system call.
//!
//! *The timer* is a descriptor (timerfd_create(2)) in the set that wakes the progress thread also
//! while that leaves the sockets to pollers. It is set for the queue pair that has waited longest.
//! The next one that begins to wait moves it on, if those before have sent meanwhile. So it expires
//! rarely while a program posts all the time, and then perhaps for nothing. Without a timer no
//! request waits.
//!
//! *Records.* A queue pair that begins to wait is added to the list with the time. The thread that
//! makes it send only clears [`Entry::waits_since`], without a lock; the record is then out of
//! date, and dropped when it is found.
//!
//! *Invariant.* While a queue pair waits, its record is in the list and the timer is set, or the
//! progress thread is about to take all, or the thread that has begun the wait is about to add it,
//! or to send because it cannot set the timer. [`Batches::expired`] notes that the timer is not set
//! before the list is taken, and [`Batches::add`] checks that after it has added to the list.

use super::watch::{BATCHES, Watches};
use crate::node::registry::{Entry, Table};
use kit::errno::Result;
use kit::sync::Mutex;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_settime};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use uroce_engine::timer::Time;

/// How long requests wait at most, in nanoseconds.
const PATIENCE: u64 = 200_000;
/// How long requests have waited that a thread sends while it posts others.
pub(super) const OLD: u64 = PATIENCE / 4;
/// The timer is moved on if it would expire so long before its time.
const MOVES: u64 = 100_000;

/// A queue pair that began to wait, and when.
#[derive(Clone, Copy)]
struct Record {
    index: u32,
    /// The value of [`Entry::waits_since`] while the record is up to date.
    since: u64,
}

impl Record {
    /// The queue pair, if it has waited since then.
    fn waiting(self, table: &Table) -> Option<&Entry> {
        let entry = table.get(self.index)?;
        (entry.waits_since.load(SeqCst) == self.since).then_some(entry)
    }
}

/// The queue pairs, those that have waited longest first.
pub(in crate::node) struct Batches {
    /// There may be some.
    any: AtomicBool,
    records: Mutex<VecDeque<Record>>,
    timer: Option<OwnedFd>,
    /// The beginning of the wait that the timer bounds, in nanoseconds; 0 if it is not set.
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
fn set(timer: &OwnedFd, nanos: u64) -> bool {
    // Zero would stop it.
    let nanos = i64::try_from(nanos.clamp(1, PATIENCE)).unwrap_or(1);
    let time = |nanos| Timespec {
        tv_sec: 0,
        tv_nsec: nanos,
    };
    let time = Itimerspec {
        it_interval: time(0),
        it_value: time(nanos),
    };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &time).is_ok()
}

impl Batches {
    /// None yet. The timer wakes the thread of `watches`.
    pub fn new(watches: &Watches) -> Self {
        Self {
            any: AtomicBool::new(false),
            records: Mutex::default(),
            timer: timer(watches).ok(),
            set: AtomicU64::new(0),
        }
    }

    /// The requests of a queue pair wait. Returns whether that will end: if not, the caller sends
    /// those of all.
    pub fn add(&self, table: &Table, index: u32, now: Time) -> bool {
        let (Some(timer), Some(entry)) = (&self.timer, table.get(index)) else {
            return false;
        };
        let since = now.nanos().max(1);
        if entry.waits_since.load(SeqCst) != 0 || !entry.waits(since) {
            return true;
        }
        let Some(oldest) = self.add_record(table, Record { index, since }) else {
            return true;
        };
        let before = self.set.load(SeqCst);
        if before != 0 && oldest < before.saturating_add(MOVES) {
            return true;
        }
        self.set.store(oldest, SeqCst);
        let is_set = set(timer, PATIENCE.saturating_sub(since.saturating_sub(oldest)));
        if !is_set {
            self.set.store(0, SeqCst);
        }
        is_set
    }

    /// Returns since when the first has waited; `None` if all have sent meanwhile.
    fn add_record(&self, table: &Table, record: Record) -> Option<u64> {
        let mut records = self.records.lock();
        if records.len() == records.capacity() {
            records.retain(|record| record.waiting(table).is_some());
            // So the next look at all is not the next call's.
            let more = records.len().max(1);
            records.reserve(more);
        }
        records.push_back(record);
        while let Some(first) = records.front() {
            if first.waiting(table).is_some() {
                self.any.store(true, SeqCst);
                return Some(first.since);
            }
            records.pop_front();
        }
        None
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
        let mut taken = Vec::new();
        let mut records = self.records.lock();
        records.retain(|record| {
            let Some(entry) = record.waiting(table) else {
                return false;
            };
            let is_wanted = wanted(entry);
            if is_wanted {
                entry.sends();
                taken.push(record.index);
            }
            !is_wanted
        });
        self.any.store(!records.is_empty(), SeqCst);
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
            self.batches
                .add(&self.table, index, Time::from_nanos(nanos))
        }

        fn send(&self, index: u32) {
            self.table.get(index).expect("an entry").sends();
        }

        fn records(&self) -> usize {
            self.batches.records.lock().len()
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
    fn a_queue_pair_that_has_sent_waits_anew() {
        let world = world();
        assert!(world.add(0, 1000));
        world.send(0);
        assert!(world.add(0, 1000 + MOVES));
        assert_eq!(world.set(), 1000 + MOVES, "the timer has moved on");
        assert_eq!(world.records(), 1);
        world.send(0);
        assert_eq!(world.take_all(), []);
        assert!(!world.batches.any());
    }

    #[test]
    fn the_timer_is_for_the_one_that_has_waited_longest() {
        let world = world();
        assert!(world.add(0, 1000) && world.add(1, 2000));
        world.send(0);
        assert!(world.add(0, 2000 + MOVES));
        assert_eq!(
            world.set(),
            1000,
            "the second has waited for nearly as long"
        );
        world.send(0);
        world.send(1);
        assert!(world.add(0, 3000 + MOVES) && world.add(1, 4000 + MOVES));
        assert_eq!(world.set(), 3000 + MOVES);
        assert_eq!(world.take_all(), [0, 1]);
    }

    #[test]
    fn queue_pairs_that_have_sent_take_no_room() {
        let world = world();
        assert!(world.add(0, 1));
        for nanos in 2..10_000 {
            assert!(world.add(1, nanos));
            world.send(1);
        }
        assert!(world.records() <= 8, "{}", world.records());
        assert_eq!(world.take_all(), [0]);
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
        assert_eq!(world.set(), 7, "so the timer is set again, for the first");
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
