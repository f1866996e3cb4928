//! Deadlines of queue pairs, and of other tasks of the node.

use super::timers::Timers;
use crate::node::registry::{NEVER, Table};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use uroce_engine::timer::Time;

/// Timed tasks of the node, besides calling queue pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::node) enum Task {
    /// Sends packets that a bad network held.
    HeldPackets,
    /// Forwards packets that wait for another process.
    Backlog,
    /// Continues the rendezvous with other processes.
    Rendezvous,
    /// Calls the connection manager.
    ConnectionManager,
    /// Unmaps regions of peers that are not used any more.
    IdleRegions,
}

impl Task {
    const ALL: [Self; 5] = [
        Self::HeldPackets,
        Self::Backlog,
        Self::Rendezvous,
        Self::ConnectionManager,
        Self::IdleRegions,
    ];

    /// The task's index in the timers; differs from any queue pair's.
    fn index(self) -> u32 {
        match self {
            Self::HeldPackets => u32::MAX,
            Self::Backlog => u32::MAX - 1,
            Self::Rendezvous => u32::MAX - 2,
            Self::ConnectionManager => u32::MAX - 3,
            Self::IdleRegions => u32::MAX - 4,
        }
    }

    fn of(index: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|task| task.index() == index)
    }
}

/// A task that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::node) enum Due {
    /// The queue pair of an index is to be called.
    QueuePair(u32),
    /// Something of the node's own.
    Task(Task),
}

/// Tasks and their times.
///
/// Each deadline is noted where it belongs: a queue pair's in its place of the table, that of a
/// task here. The timers have it as well, and there it counts only as long as it is noted.
pub(in crate::node) struct Deadlines {
    timers: Timers,
    held_packets: AtomicU64,
    backlog: AtomicU64,
    rendezvous: AtomicU64,
    connection_manager: AtomicU64,
    idle_regions: AtomicU64,
}

impl Deadlines {
    pub fn new() -> Self {
        Self {
            timers: Timers::new(),
            held_packets: AtomicU64::new(NEVER),
            backlog: AtomicU64::new(NEVER),
            rendezvous: AtomicU64::new(NEVER),
            connection_manager: AtomicU64::new(NEVER),
            idle_regions: AtomicU64::new(NEVER),
        }
    }

    /// The earliest deadline; `NEVER` without one.
    #[inline]
    pub fn next(&self) -> u64 {
        self.timers.next()
    }

    fn noted(&self, task: Task) -> &AtomicU64 {
        match task {
            Task::HeldPackets => &self.held_packets,
            Task::Backlog => &self.backlog,
            Task::Rendezvous => &self.rendezvous,
            Task::ConnectionManager => &self.connection_manager,
            Task::IdleRegions => &self.idle_regions,
        }
    }

    /// Schedules a call of a queue pair at that time at the latest. Returns whether this is its
    /// earliest deadline.
    pub fn add(&self, table: &Table, index: u32, time: u64) -> bool {
        let Some(entry) = table.get(index) else {
            return false;
        };
        // Most calls change nothing, and a load costs less.
        let scheduled = &entry.scheduled;
        let is_earlier = scheduled.load(SeqCst) > time && scheduled.fetch_min(time, SeqCst) > time;
        if is_earlier {
            self.push(table, time, index);
        }
        is_earlier
    }

    /// Schedules a task at that time at the latest. Returns whether this is its earliest deadline.
    pub fn add_task(&self, table: &Table, task: Task, time: u64) -> bool {
        let is_earlier = self.noted(task).fetch_min(time, SeqCst) > time;
        if is_earlier {
            self.push(table, time, task.index());
        }
        is_earlier
    }

    fn push(&self, table: &Table, time: u64, index: u32) {
        self.timers.add(time, index, |time, index| {
            let noted = match Task::of(index) {
                Some(task) => Some(self.noted(task)),
                None => table.get(index).map(|entry| &entry.scheduled),
            };
            noted.is_some_and(|noted| noted.load(SeqCst) == time)
        });
    }

    /// Removes a task whose time has come.
    pub fn expired(&self, table: &Table, now: Time) -> Option<Due> {
        loop {
            let (time, index) = self.timers.expired(now)?;
            if let Some(task) = Task::of(index) {
                self.noted(task).store(NEVER, SeqCst);
                return Some(Due::Task(task));
            }
            let Some(entry) = table.get(index) else {
                continue;
            };
            // Otherwise an earlier one took its place.
            let taken = entry
                .scheduled
                .compare_exchange(time, NEVER, SeqCst, SeqCst);
            if taken.is_ok() {
                return Some(Due::QueuePair(index));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_earliest_of_a_task_counts() {
        let (deadlines, table) = (Deadlines::new(), Table::new());
        assert!(deadlines.add_task(&table, Task::Backlog, 9));
        assert!(!deadlines.add_task(&table, Task::Backlog, 9));
        assert!(deadlines.add_task(&table, Task::Backlog, 5));
        assert!(deadlines.add_task(&table, Task::Rendezvous, 7));
        assert_eq!(deadlines.next(), 5);
        let due = |now| deadlines.expired(&table, Time::from_nanos(now));
        assert_eq!(due(4), None);
        assert_eq!(due(5), Some(Due::Task(Task::Backlog)));
        assert_eq!(due(6), None);
        assert_eq!(due(7), Some(Due::Task(Task::Rendezvous)));
    }

    #[test]
    fn a_queue_pair_that_there_is_not_has_none() {
        let (deadlines, table) = (Deadlines::new(), Table::new());
        assert!(!deadlines.add(&table, 3, 5));
        assert_eq!(deadlines.next(), NEVER);
    }
}
