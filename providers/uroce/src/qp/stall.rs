//! Whether a peer consumes its messages on the eager path: a deadline of the queue pair, besides
//! those of its engine.
//!
//! The protocol does not know messages in flight in a ring, and packets of unreliable services that
//! wait for room in a full ring. So their queue pair checks the ring when a timeout has passed. A
//! check that finds the peer at the same position counts like a repeated packet without an answer:
//! after `retry_cnt` and one more of them the request fails. The thread that executes the timers
//! makes the check, so the program need not poll.
//!
//! One timeout is looked at after the other, and each begins when the one before was looked at. So
//! a pause of this process, or of the whole machine, counts for no more than one of them.

use uroce_engine::qp::Attributes;
use uroce_engine::timer::Time;

/// The least time in which a peer of this host is given up: it may be waiting for a processor.
const LEAST: u64 = 100_000_000;
/// The time after which unacknowledged messages are lost.
const UNRELIABLE: u64 = 1_000_000_000;

/// How long a peer may take nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Patience {
    /// Nanoseconds from one look to the next.
    timeout: u64,
    /// Looks that find the peer where it was.
    looks: u32,
}

impl Patience {
    /// That of a connection; `None` if it waits for ever (timeout 0).
    pub fn of(attributes: &Attributes, reliable: bool) -> Option<Self> {
        if !reliable {
            return Some(Self {
                timeout: UNRELIABLE,
                looks: 1,
            });
        }
        let looks = u32::from(attributes.retry_cnt) + 1;
        let timeout = attributes.timeout.nanos()?;
        Some(Self {
            timeout: timeout.max(LEAST / u64::from(looks)),
            looks,
        })
    }
}

/// The deadline, while there is something to wait for.
#[derive(Debug, Default)]
pub(super) struct Stall {
    due: Option<Time>,
    /// Up to where the peer had taken records at the latest look.
    taken: u64,
    /// Looks in a row that found it there.
    vain: u32,
}

impl Stall {
    /// When to look.
    #[inline]
    pub fn deadline(&self) -> Option<Time> {
        self.due
    }

    /// Looks from now on at a peer that has taken records up to `taken`. Returns when first.
    pub fn begin(&mut self, now: Time, patience: Patience, taken: u64) -> Time {
        let due = now.plus(patience.timeout);
        *self = Self {
            due: Some(due),
            taken,
            vain: 0,
        };
        due
    }

    /// There is nothing to wait for.
    pub fn end(&mut self) {
        self.due = None;
    }

    /// Whether it is time to look.
    pub fn is_due(&self, now: Time) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// Checks whether the peer has consumed nothing for its whole time limit. `oldest` is the
    /// position of the oldest message in flight: once the peer has consumed it, only this process
    /// has not learned the outcome yet.
    pub fn look(&mut self, now: Time, patience: Patience, taken: u64, oldest: Option<u64>) -> bool {
        let is_taken = oldest.is_some_and(|position| position < taken);
        if is_taken || taken != self.taken {
            self.begin(now, patience, taken);
            return false;
        }
        self.vain += 1;
        self.due = Some(now.plus(patience.timeout));
        self.vain >= patience.looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uroce_engine::timer::AckTimeout;

    fn attributes(timeout: u8, retry_cnt: u8) -> Attributes {
        Attributes {
            timeout: AckTimeout::new(timeout).expect("a code"),
            retry_cnt,
            ..Attributes::default()
        }
    }

    /// Looks whenever it is due, at a peer that takes a record at these looks; the time at which it
    /// is given up.
    fn given_up(patience: Patience, takes: &[u32]) -> u64 {
        let mut stall = Stall::default();
        let (mut now, mut taken) = (stall.begin(Time::from_nanos(0), patience, 0), 0);
        for look in 0.. {
            if takes.contains(&look) {
                taken += 64;
            }
            assert!(stall.is_due(now));
            if stall.look(now, patience, taken, Some(taken)) {
                break;
            }
            now = stall.deadline().expect("a deadline");
        }
        now.nanos()
    }

    #[test]
    fn a_peer_that_takes_nothing_is_given_up_when_retries_are_used_up() {
        let timeout = 4096 << 14;
        let patience = Patience::of(&attributes(14, 7), true).expect("a limit");
        assert_eq!(given_up(patience, &[]), 8 * timeout);
        assert_eq!(given_up(patience, &[0, 3]), (4 + 8) * timeout);
        let patience = Patience::of(&attributes(20, 0), true).expect("a limit");
        assert_eq!(given_up(patience, &[]), 4096 << 20);
    }

    #[test]
    fn short_timeouts_leave_time_to_be_scheduled_and_none_is_for_ever() {
        let patience = Patience::of(&attributes(1, 3), true).expect("a limit");
        assert_eq!(given_up(patience, &[]), LEAST);
        assert_eq!(Patience::of(&attributes(0, 7), true), None);
        let patience = Patience::of(&attributes(0, 7), false).expect("a limit");
        assert_eq!(given_up(patience, &[]), UNRELIABLE);
    }

    #[test]
    fn a_peer_that_has_taken_all_does_not_stall() {
        let patience = Patience::of(&attributes(14, 0), true).expect("a limit");
        let mut stall = Stall::default();
        // It was faster than the first look.
        let mut now = stall.begin(Time::from_nanos(0), patience, 64);
        for _ in 0..10 {
            assert!(!stall.look(now, patience, 64, Some(0)));
            now = stall.deadline().expect("a deadline");
        }
        assert!(stall.look(now, patience, 64, Some(64)));
    }

    #[test]
    fn a_pause_of_this_process_is_one_look() {
        let patience = Patience::of(&attributes(14, 7), true).expect("a limit");
        let mut stall = Stall::default();
        stall.begin(Time::from_nanos(0), patience, 0);
        let late = Time::from_nanos(1 << 40);
        assert!(!stall.look(late, patience, 0, Some(0)));
        assert!(!stall.is_due(late));
        stall.end();
        assert_eq!(stall.deadline(), None);
    }
}
