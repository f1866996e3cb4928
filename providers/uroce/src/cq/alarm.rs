//! The times at which events that are held back are due. A thread waits for them that exists only
//! while there are such events, and a little longer.

use crate::threads;
use kit::errno::Result;
use kit::sync::{Condvar, Mutex};
use kit::sys::per_process::PerProcess;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long the thread stays when there is nothing to wait for.
const LINGER: Duration = Duration::from_secs(1);

/// The thread exists only in one process, so a forked child has separate alarms.
static ALARMS: PerProcess<Alarms> = PerProcess::new();

#[derive(Default)]
struct Alarms {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    alarms: BinaryHeap<Reverse<Alarm>>,
    /// Whether the thread exists.
    is_served: bool,
}

/// An object that is called at a time.
pub trait OnTime: Send + Sync {
    /// The time of an event that was held back has come.
    fn on_time(self: Arc<Self>, number: u64);
}

struct Alarm {
    at: Instant,
    listener: Weak<dyn OnTime>,
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

/// Calls [`OnTime::on_time`] with the number when the time has come.
///
/// # Errors
/// EAGAIN if there cannot be a thread; then it is not called.
pub fn set(at: Instant, listener: Weak<dyn OnTime>, number: u64) -> Result<()> {
    let all = ALARMS.get()?;
    let mut waiting = all.waiting.lock();
    if !waiting.is_served {
        threads::spawn("uroce-moderate", || serve(all))?;
        waiting.is_served = true;
    }
    waiting.alarms.push(Reverse(Alarm {
        at,
        listener,
        number,
    }));
    all.changed.notify_one();
    Ok(())
}

fn serve(all: &Alarms) {
    loop {
        for alarm in due(all) {
            if let Some(listener) = alarm.listener.upgrade() {
                listener.on_time(alarm.number);
            }
        }
        let waiting = all.waiting.lock();
        let first = waiting.alarms.peek().map(|Reverse(alarm)| alarm.at);
        if let Some(at) = first {
            let _ = all.changed.wait_until(waiting, at);
            continue;
        }
        let (mut waiting, late) = all.changed.wait_for(waiting, LINGER);
        if late && waiting.alarms.is_empty() {
            waiting.is_served = false;
            return;
        }
    }
}

/// Takes the alarms whose time has come.
fn due(all: &Alarms) -> Vec<Alarm> {
    let mut waiting = all.waiting.lock();
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
