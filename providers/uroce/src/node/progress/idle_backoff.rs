//! When the progress thread leaves the sockets to polling threads, and for how long.
//!
//! Values of the progress thread alone; no lock.

use super::alarm::{Alarm, BUSY};
use crate::clock;
use crate::node::transport::Transport;
use kit::sys::thread::Thread;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

pub(super) const MILLISECOND: u64 = 1_000_000;
/// How long a backoff takes, at least.
pub(super) const BACKOFF: u64 = MILLISECOND;
/// And at most, while a thread has polled for [`SHARE`] times as long. A peer waits so long for an
/// answer when a program that has polled stops without notice; the peer's timeout should be longer.
pub(in crate::node) const LONG_BACKOFF: u64 = 8_000_000;
const SHARE: u64 = 8;
/// How long the progress thread does not back off after it found packets that were left: the
/// program polls rarely, and in between spins on memory that a peer writes.
pub(super) const AWAKE: u64 = 10_000_000;
/// When the progress thread backs off, and for how long.
pub(super) struct IdleBackoff {
    /// When it woke last.
    pub now: u64,
    pub is_on: bool,
    /// How long it has backed off, one time after the other.
    lasted: u64,
    /// The remaining time of a backoff that was interrupted; 0 for a new one.
    rest: u64,
    /// Calls of `polled` that it knows of.
    seen: u64,
    /// The time since which polls are counted, and their number then. The count does not begin when
    /// the progress thread last woke: packets wake it, and then a poller with many packets would
    /// look like one that hardly polls.
    since: (u64, u64),
    /// The processor time of the poller then.
    used: Option<Duration>,
    /// Until then it does not back off.
    awake_until: u64,
}

impl IdleBackoff {
    pub fn new(alarm: &Alarm) -> Self {
        let seen = alarm.polls.load(Relaxed);
        let now = clock::now().nanos();
        Self {
            now,
            is_on: false,
            lasted: 0,
            rest: 0,
            seen,
            since: (now, seen),
            used: None,
            awake_until: 0,
        }
    }

    /// How long the backoff takes, or the rest of one that was interrupted.
    pub fn time(&self, hasty: bool) -> u64 {
        match self.rest {
            0 => self.length(hasty),
            rest => rest,
        }
    }

    /// A backoff has ended, after so much of its time.
    pub fn ended(&mut self, time: u64, after: u64) {
        self.lasted = self.lasted.saturating_add(after);
        self.rest = time.saturating_sub(after);
    }

    /// Whether a backoff continues that was interrupted, perhaps by the timer of batches alone: a
    /// moment within it does not show whether a thread polls. If not, the next one is new.
    pub fn continues(&mut self, for_batches: bool, alarm: &Alarm) -> bool {
        let continues = for_batches && self.is_on && self.rest != 0 && !alarm.waiting.load(SeqCst);
        if !continues {
            self.rest = 0;
        }
        continues
    }

    fn length(&self, hasty: bool) -> u64 {
        let most = if hasty { BACKOFF } else { LONG_BACKOFF };
        (self.lasted / SHARE).clamp(BACKOFF, most)
    }

    /// Whether a backoff is followed by the next without other work in between: a thread polled all
    /// the time.
    pub fn is_undisturbed(&mut self, transport: &Transport, woken_for_nothing: bool) -> bool {
        let polls = transport.alarm.polls.load(Relaxed);
        let calm = self.is_on
            && polls != self.seen
            && woken_for_nothing
            && !transport.alarm.waiting.load(SeqCst)
            && transport
                .directory
                .as_ref()
                .is_none_or(|known| !known.awaits());
        if calm {
            self.seen = polls;
        }
        calm
    }

    /// Decides whether it backs off next. Returns whether a thread waits without polling.
    pub fn decide(&mut self, alarm: &Alarm) -> bool {
        let polls = alarm.polls.load(Relaxed);
        let waited_for = alarm.waiting.swap(false, SeqCst);
        let busy = polls.wrapping_sub(self.since.1) >= BUSY;
        let polled = if self.is_on { polls != self.seen } else { busy };
        self.is_on = polled && !waited_for && self.now >= self.awake_until;
        if !self.is_on {
            self.lasted = 0;
        }
        self.seen = polls;
        let time = || alarm.poller().and_then(Thread::time);
        let ran = || Some(time()?.saturating_sub(self.used?));
        if waited_for || busy || is_over(self.now.saturating_sub(self.since.0), ran) {
            self.since = (self.now, polls);
            self.used = time();
        }
        waited_for
    }

    /// Packets were left: it does not back off soon.
    pub fn found_some_left(&mut self) {
        self.now = clock::now().nanos();
        self.awake_until = self.now + AWAKE;
    }

    pub fn found_some(&mut self) {
        if self.now < self.awake_until {
            self.awake_until = self.now + AWAKE;
        }
    }
}

/// Whether polls have been counted for long enough: while the poller ran for [`BACKOFF`]. Other
/// programs may have the processor in between.
fn is_over(lasted: u64, ran: impl FnOnce() -> Option<Duration>) -> bool {
    let waits = || ran().is_some_and(|ran| ran < Duration::from_nanos(BACKOFF));
    lasted > BACKOFF && (lasted > LONG_BACKOFF || !waits())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The backoff while a thread polls all the time.
    fn backing_off(lasted: u64) -> IdleBackoff {
        IdleBackoff {
            now: 0,
            is_on: true,
            lasted,
            rest: 0,
            seen: 0,
            since: (0, 0),
            used: None,
            awake_until: 0,
        }
    }

    #[test]
    fn backoff_grows_with_the_time_of_polling() {
        let length = |lasted| backing_off(lasted).length(false);
        assert_eq!(length(0), BACKOFF);
        assert_eq!(length(SHARE * BACKOFF), BACKOFF);
        assert_eq!(length(24 * BACKOFF), 3 * BACKOFF);
        assert_eq!(length(u64::MAX), LONG_BACKOFF);
    }

    #[test]
    fn an_interrupted_backoff_has_a_rest() {
        let mut backoff = backing_off(0);
        backoff.ended(BACKOFF, BACKOFF / 4);
        assert_eq!(backoff.time(false), BACKOFF - BACKOFF / 4);
        backoff.ended(backoff.time(false), BACKOFF);
        assert_eq!(backoff.rest, 0);
        assert_eq!(backoff.lasted, BACKOFF / 4 + BACKOFF);
    }

    #[test]
    fn polls_are_counted_while_the_poller_runs() {
        let ran = |nanos| move || Some(Duration::from_nanos(nanos));
        assert!(!is_over(BACKOFF, ran(BACKOFF)));
        assert!(is_over(BACKOFF + 1, ran(BACKOFF)));
        assert!(is_over(BACKOFF + 1, || None));
        assert!(!is_over(LONG_BACKOFF, ran(BACKOFF / 2)), "it waits");
        assert!(is_over(LONG_BACKOFF + 1, ran(0)));
    }

    #[test]
    fn backoff_stays_short_where_a_timeout_is() {
        assert_eq!(backing_off(u64::MAX).length(true), BACKOFF);
    }
}
