//! Bells that could not be rung, and are rung again.
//!
//! A bell is a datagram. It finds no room in the socket of a peer that is stopped, and none in this
//! process's own buffer once that is full of datagrams to such peers, or when memory is short. A
//! peer is rung once for each sleep, so a bell that is lost would leave it asleep. Therefore
//! another is due after an interval that doubles, until the peer was rung, has woken by itself, or
//! is gone.
#![forbid(unsafe_code)]

use crate::clock;
use kit::errno::Result;
use kit::sync::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// The first and the longest interval, in nanoseconds.
const INTERVALS: [u64; 2] = [1_000_000, 128_000_000];
/// Nothing is due.
const NEVER: u64 = u64::MAX;

/// The peers that have to be rung again.
#[derive(Debug)]
pub(super) struct Bells {
    /// Ready to read when there is a peer for the thread that serves the timers to know of.
    event: OwnedFd,
    announced: AtomicBool,
    due: Mutex<Due>,
    /// When they are rung again.
    next: AtomicU64,
}

#[derive(Debug)]
struct Due {
    slots: BTreeSet<u16>,
    interval: u64,
}

impl Bells {
    /// None yet.
    ///
    /// # Errors
    /// Of eventfd(2).
    pub fn new() -> Result<Self> {
        Ok(Self {
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            announced: AtomicBool::new(false),
            due: Mutex::new(Due {
                slots: BTreeSet::new(),
                interval: INTERVALS[0],
            }),
            next: AtomicU64::new(NEVER),
        })
    }

    /// Ready to read when [`Bells::attend`] is to be called.
    pub fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// The bell of this peer could not be rung.
    #[cold]
    pub fn failed(&self, slot: u16) {
        let mut due = self.due.lock();
        if due.slots.is_empty() {
            due.interval = INTERVALS[0];
            self.plan(due.interval);
        }
        due.slots.insert(slot);
        drop(due);
        self.announced.store(true, SeqCst);
        // Fails only if the counter is full, and then it is ready to read.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    fn plan(&self, interval: u64) {
        let next = clock::now().nanos().saturating_add(interval);
        self.next.store(next, SeqCst);
    }

    /// The caller knows of [`Bells::deadline`] from now on.
    pub fn attend(&self) {
        if self.announced.load(SeqCst) && self.announced.swap(false, SeqCst) {
            let _ = rustix::io::read(&self.event, &mut [0; 8]);
        }
    }

    /// When [`Bells::on_time`] is to be called, in nanoseconds of the clock; `u64::MAX` if not at
    /// all.
    #[inline]
    pub fn deadline(&self) -> u64 {
        self.next.load(SeqCst)
    }

    /// Rings again, if it is time, by `ring`, which returns whether the peer needs no other bell.
    pub fn on_time(&self, mut ring: impl FnMut(u16) -> bool) {
        if self.deadline() > clock::now().nanos() {
            return;
        }
        let mut due = self.due.lock();
        due.slots.retain(|slot| !ring(*slot));
        if due.slots.is_empty() {
            self.next.store(NEVER, SeqCst);
        } else {
            due.interval = due.interval.saturating_mul(2).min(INTERVALS[1]);
            self.plan(due.interval);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_is_rung_again_until_it_was_delivered() {
        let bells = Bells::new().expect("an event");
        let ready = || {
            let mut count = [0; 8];
            rustix::io::read(bells.event(), &mut count).is_ok()
        };
        assert!(bells.deadline() == NEVER && !ready());
        bells.on_time(|_| panic!("no peer is to be rung"));
        for _ in 0..2 {
            bells.failed(7);
            bells.failed(3);
            assert!(ready() && bells.deadline() != NEVER);
            bells.attend();
            let mut rings = Vec::new();
            while bells.deadline() != NEVER {
                bells.on_time(|slot| {
                    rings.push(slot);
                    slot == 3 || rings.len() > 3
                });
            }
            assert_eq!(rings, [3, 7, 7, 7]);
        }
    }

    #[test]
    fn the_event_is_ready_once() {
        let bells = Bells::new().expect("an event");
        bells.failed(1);
        bells.attend();
        assert!(rustix::io::read(bells.event(), &mut [0; 8]).is_err());
    }
}
