//! A message that is repeated until it is answered.
//!
//! A message without an answer is repeated when the time for the answer is over, which is seconds,
//! and counts as a retry. The first interval has early repetitions as well, after [`EARLY`] and
//! then at doubled distances, because one lost message would otherwise delay a connection by the
//! whole interval. They are not counted. The receiver of a repeated message is in a state that has
//! answered it or will answer it.

use super::event::Effects;
use crate::{times::EARLY, wire::Mad};

/// A message, and when to send it next.
#[derive(Debug)]
pub struct Repetition {
    mad: Mad,
    /// How long an answer may take, in milliseconds.
    interval: u64,
    retries_left: u8,
    /// When the first interval is over.
    first_until: u64,
    /// How long to wait for the next early repetition; 0 if there is none.
    wait: u64,
    deadline: u64,
}

/// What happened when a deadline had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeated {
    /// The message was sent early.
    Early,
    /// The message was sent again, after the time for an answer.
    Again,
    /// There is no retry left.
    No,
}

impl Repetition {
    /// Sends a message for the first time.
    pub fn begin(mad: Mad, interval: u64, retries: u8, now: u64, effects: &mut Effects) -> Self {
        effects.send(mad);
        let mut repetition = Self {
            mad,
            interval,
            retries_left: retries,
            first_until: now.saturating_add(interval),
            wait: EARLY,
            deadline: 0,
        };
        repetition.await_early(now);
        repetition
    }

    /// When [`Repetition::on_time`] is to be called, in milliseconds.
    pub fn deadline(&self) -> u64 {
        self.deadline
    }

    fn await_early(&mut self, now: u64) {
        self.deadline = self.first_until.min(now.saturating_add(self.wait));
    }

    /// The deadline has come.
    pub fn on_time(&mut self, now: u64, effects: &mut Effects) -> Repeated {
        if self.is_first(now) {
            effects.send(self.mad);
            self.wait = self.wait.saturating_mul(2);
            self.await_early(now);
            return Repeated::Early;
        }
        let Some(left) = self.retries_left.checked_sub(1) else {
            return Repeated::No;
        };
        effects.send(self.mad);
        self.retries_left = left;
        self.deadline = now.saturating_add(self.interval);
        Repeated::Again
    }

    /// Whether this is the first interval.
    pub fn is_first(&self, now: u64) -> bool {
        now < self.first_until
    }

    /// The peer has the message: no more early repetitions.
    pub fn end_early(&mut self) {
        self.deadline = self.first_until;
    }

    /// The peer needs longer.
    pub fn wait_until(&mut self, deadline: u64) {
        self.deadline = deadline;
    }
}
