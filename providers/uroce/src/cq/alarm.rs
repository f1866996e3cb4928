//! The times at which events that are held back are due. A thread waits for them that exists only
//! while there are such events, and a little longer.

use super::moderation::Moderation;
use crate::threads;
use kit::errno::Result;
use parking_lot::{Condvar, Mutex};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Weak;
use std::time::{Duration, Instant};

/// How long the thread stays when there is nothing to wait for.
const LINGER: Duration = Duration::from_secs(1);

static ALARMS: Alarms = Alarms {
    waiting: Mutex::new(Waiting {
        alarms: BinaryHeap::new(),
        is_served: false,
    }),
    changed: Condvar::new(),
};

struct Alarms {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

struct Waiting {
    alarms: BinaryHeap<Reverse<Alarm>>,
    /// Whether the thread exists.
    is_served: bool,
}

struct Alarm {
    at: Instant,
    whom: Weak<Moderation>,
    number: u64,
}

impl PartialEq for Alarm {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Alarm {}

impl PartialOrd for Alarm {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Alarm {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.cmp(&other.at)
    }
}

/// Calls [`Moderation::on_time`] with the number when the time has come.
///
/// # Errors
/// EAGAIN if there cannot be a thread; then it is not called.
pub fn set(at: Instant, whom: Weak<Moderation>, number: u64) -> Result<()> {
    let mut waiting = ALARMS.waiting.lock();
    if !waiting.is_served {
        threads::spawn("uroce-moderate", serve)?;
        waiting.is_served = true;
    }
    waiting.alarms.push(Reverse(Alarm { at, whom, number }));
    ALARMS.changed.notify_one();
    Ok(())
}

fn serve() {
    loop {
        for alarm in due() {
            if let Some(moderation) = alarm.whom.upgrade() {
                moderation.on_time(alarm.number);
            }
        }
        let mut waiting = ALARMS.waiting.lock();
        let first = waiting.alarms.peek().map(|Reverse(alarm)| alarm.at);
        if let Some(at) = first {
            ALARMS.changed.wait_until(&mut waiting, at);
        } else if ALARMS.changed.wait_for(&mut waiting, LINGER).timed_out()
            && waiting.alarms.is_empty()
        {
            waiting.is_served = false;
            return;
        }
    }
}

/// Takes those whose time has come.
fn due() -> Vec<Alarm> {
    let mut waiting = ALARMS.waiting.lock();
    let now = Instant::now();
    let mut due = Vec::new();
    while let Some(Reverse(first)) = waiting.alarms.peek() {
        if first.at > now {
            break;
        }
        due.extend(waiting.alarms.pop().map(|Reverse(alarm)| alarm));
    }
    due
}
