#![forbid(unsafe_code)]
//! Sets of descriptors: repoll_create, repoll_ctl, repoll_wait.
//!
//! A set is a list, checked in the same way as the descriptors of rpoll. The descriptor of a set is
//! an eventfd, by which a change of the set wakes waiting threads. Edge-triggered entries are
//! reported like level-triggered ones: as long as they are ready.

use super::call::{Answer, State, Step, watched};
use super::waiter::Waiter;
use super::{poll, table};
use kit::errno::{Errno, Result};
use kit::sync::Mutex;
use kit::sys::per_process::PerProcess;
use libc::pollfd;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Events that may be requested: bits that poll(2) has, too.
const EVENTS: u32 = 0x3fff;
const ONE_SHOT: u32 = 1 << 30;

/// A member of a set.
#[derive(Clone, Copy)]
struct Entry {
    events: u32,
    data: u64,
}

struct Set {
    /// Woken by changes.
    changed: Waiter,
    entries: Mutex<BTreeMap<i32, Entry>>,
}

#[derive(Default)]
struct Sets(Mutex<BTreeMap<i32, Arc<Set>>>);

/// A forked child has no sets.
static SETS: PerProcess<Sets> = PerProcess::new();

/// A change of a set.
pub enum Change {
    Add { events: u32, data: u64 },
    Modify { events: u32, data: u64 },
    Delete,
}

/// A reported event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    pub events: u32,
    pub data: u64,
}

/// A new set.
///
/// # Errors
/// EMFILE, ENFILE, ENOMEM.
pub fn create() -> Result<i32> {
    let set = Set {
        changed: Waiter::new()?,
        entries: Mutex::default(),
    };
    let fd = set.changed.fd();
    SETS.get()?.0.lock().insert(fd, Arc::new(set));
    Ok(fd)
}

fn set(fd: i32) -> Result<Arc<Set>> {
    let sets = SETS.made().ok_or(Errno(libc::EBADF))?;
    sets.0.lock().get(&fd).cloned().ok_or(Errno(libc::EBADF))
}

/// Destroys a set. False for a descriptor that is not a set.
pub fn close(fd: i32) -> bool {
    let Some(sets) = SETS.made() else {
        return false;
    };
    let removed = sets.0.lock().remove(&fd);
    if let Some(set) = &removed {
        set.changed.wake();
    }
    removed.is_some()
}

/// Changes a set.
///
/// # Errors
/// EBADF if it is not a set, EINVAL for a set as its own member; EEXIST, ENOENT as epoll_ctl(2).
pub fn change(fd: i32, of: i32, change: &Change) -> Result<()> {
    let set = set(fd)?;
    if fd == of {
        return Err(Errno::INVAL);
    }
    if of < 0 {
        return Err(Errno(libc::EBADF));
    }
    let mut entries = set.entries.lock();
    let is_there = entries.contains_key(&of);
    match change {
        Change::Add { .. } if is_there => return Err(Errno(libc::EEXIST)),
        Change::Modify { .. } | Change::Delete if !is_there => return Err(Errno::NOENT),
        Change::Add { events, data } | Change::Modify { events, data } => {
            let entry = Entry {
                events: *events,
                data: *data,
            };
            entries.insert(of, entry);
        }
        Change::Delete => {
            entries.remove(&of);
        }
    }
    drop(entries);
    set.changed.wake();
    Ok(())
}

/// The arguments of repoll_wait.
pub struct Wait {
    pub fd: i32,
    /// Maximum number of events.
    pub most: usize,
    pub timeout: Option<Duration>,
}

/// Executes a step of repoll_wait; ready events are appended to the list.
pub fn step(state: &mut State, wait: &Wait, interrupted: bool, ready: &mut Vec<Ready>) -> Step {
    try_step(state, wait, interrupted, ready).unwrap_or_else(|e| Step::Done(Err(e)))
}

fn try_step(
    state: &mut State,
    &Wait { fd, most, timeout }: &Wait,
    interrupted: bool,
    ready: &mut Vec<Ready>,
) -> Result<Step> {
    let set = set(fd)?;
    let now = Instant::now();
    // The set may have changed during the sleep.
    let deadline = match state.pending.take() {
        Some(_) => state.deadline,
        None => timeout.and_then(|timeout| now.checked_add(timeout)),
    };
    loop {
        // Changes from now on end the sleep.
        set.changed.clear();
        let mut polled = set.polled();
        polled.push(watched(set.changed.fd(), libc::POLLIN));
        let now = Instant::now();
        let left = deadline.map(|deadline| deadline.saturating_duration_since(now));
        let step = poll::step(state, &mut polled, left, interrupted);
        polled.pop();
        state.deadline = deadline;
        let Step::Done(Ok(Answer { value: 1.., .. })) = step else {
            return Ok(step);
        };
        set.report(&polled, most, ready);
        if !ready.is_empty() {
            return Ok(Step::Done(Ok(Answer::from(ready.len()))));
        }
        // Only the set has changed.
        state.pending = None;
    }
}

impl Set {
    /// The armed members, as poll(2) takes them. A closed descriptor is left out, as in epoll(7).
    fn polled(&self) -> Vec<pollfd> {
        let entries = self.entries.lock();
        let armed = entries
            .iter()
            .filter(|(_, entry)| entry.events & EVENTS != 0);
        let polled = armed.map(|(fd, entry)| {
            let events = u16::try_from(entry.events & EVENTS).unwrap_or(0);
            watched(*fd, events.cast_signed())
        });
        polled.collect()
    }

    fn report(&self, polled: &[pollfd], most: usize, ready: &mut Vec<Ready>) {
        let mut entries = self.entries.lock();
        for polled in polled {
            let found = u32::from(polled.revents.cast_unsigned());
            let invalid = u32::from(libc::POLLNVAL.cast_unsigned());
            if found & invalid != 0 && table::get(polled.fd).is_none() {
                entries.remove(&polled.fd);
                continue;
            }
            let Some(entry) = entries.get_mut(&polled.fd) else {
                continue;
            };
            if found == 0 || ready.len() >= most {
                continue;
            }
            ready.push(Ready {
                events: found,
                data: entry.data,
            });
            if entry.events & ONE_SHOT != 0 {
                entry.events = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    fn wait(fd: i32, most: usize) -> Vec<Ready> {
        let mut ready = Vec::new();
        let timeout = Some(Duration::ZERO);
        let wait = Wait { fd, most, timeout };
        let step = step(&mut State::default(), &wait, false, &mut ready);
        assert!(matches!(step, Step::Done(Ok(_))));
        ready
    }

    #[test]
    fn descriptors_that_are_no_rsockets_are_reported_as_by_epoll() {
        let set = create().unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        let (events, data) = (u32::from(libc::POLLIN.cast_unsigned()), 7);
        let fd = reader.as_raw_fd();
        assert_eq!(change(set, fd, &Change::Delete), Err(Errno::NOENT));
        change(set, fd, &Change::Add { events, data }).unwrap();
        let again = change(set, fd, &Change::Add { events, data });
        assert_eq!(again, Err(Errno(libc::EEXIST)));
        assert_eq!(wait(set, 8), []);
        rustix::io::write(&writer, b"a").unwrap();
        assert_eq!(wait(set, 8), [Ready { events, data }]);
        let events_once = events | ONE_SHOT;
        let once = Change::Modify {
            events: events_once,
            data: 9,
        };
        change(set, fd, &once).unwrap();
        assert_eq!(wait(set, 8), [Ready { events, data: 9 }]);
        assert_eq!(wait(set, 8), []);
        assert!(close(set) && !close(set));
        assert_eq!(change(set, fd, &Change::Delete), Err(Errno(libc::EBADF)));
    }
}
