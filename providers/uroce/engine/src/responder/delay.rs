//! Acknowledgements that wait briefly, so that they leave together with the next request.
//!
//! In a ping-pong, each message answers the one before. Its acknowledgement sent alone would cost
//! both sides one more packet, and cost a program that spins on memory a wake-up of the progress
//! thread. So the acknowledgement leaves directly behind the answer, in the same call. It is not
//! sent first, because a program that polls for the answer has then received it before the
//! acknowledgement arrives. IBTA volume 1, 9.7.5.1.2, leaves the time of an acknowledgement to the
//! responder. Between two ends of this make it leaves inside the answer
//! ([`crate::wire::Piggyback`]), so that a message costs one packet.
//!
//! An acknowledgement waits at most 100 µs. It waits only if it is that of a whole message, if this
//! side has sent a message for the previous one, has at most one unacknowledged request, and owes
//! no response. In an exchange both sides send at the same time, so that a message may arrive
//! before the answer to the previous one has left; so a side may be ahead by up to two messages,
//! which then count for later ones. After a wait in vain, the next acknowledgement is sent at once,
//! and twice as many after each further one, up to 16, until a wait succeeds. None waits if the
//! connection's timeout is under 1.6 ms. The carrier enables the delay: packets in a ring need no
//! system call and do not wait.

use crate::timer::{Moment, Time};

/// How long an acknowledgement waits at most, in nanoseconds.
const PATIENCE: u64 = 100_000;
/// A timeout of the connection has room for so many waits; a shorter one would pass meanwhile.
const SAFE: u64 = 16 * PATIENCE;
/// So many acknowledgements at most do not wait after one that waited in vain: one after the first,
/// and twice as many after each further one, until one has not waited in vain.
const PENALTY: u8 = 16;
/// So many messages at most count for acknowledgements that fall due later.
const AHEAD: u8 = 2;

/// Whether acknowledgements wait, and until when.
#[derive(Debug, Default)]
pub(crate) struct Delay {
    /// The carrier has something of it.
    wanted: bool,
    until: Moment,
    /// Messages sent for which no acknowledgement has waited.
    ahead: u8,
    /// A request was sent since the last acknowledgement fell due.
    spoke: bool,
    /// So many more do not wait.
    at_once: u8,
    /// So many did not after the last that waited in vain.
    penalty: u8,
}

impl Delay {
    /// Whether acknowledgements may wait at all.
    pub(crate) fn want(&mut self, wanted: bool) {
        self.wanted = wanted;
    }

    /// A message's acknowledgement has fallen due, and waits if it is this side's turn to speak: it
    /// has nothing else to answer, has sent a message for the one before, and hardly any other. One
    /// acknowledgement is enough for this message and an earlier one whose wait ends `earlier`.
    pub(super) fn begin(
        &mut self,
        now: Time,
        earlier: Option<Time>,
        idle: bool,
        timeout: Option<u64>,
    ) {
        self.until = Moment::NONE;
        let ahead = self.ahead > 0;
        self.ahead = self.ahead.saturating_sub(1);
        self.spoke = false;
        if !self.wanted || !idle || !ahead || timeout.is_some_and(|time| time < SAFE) {
            return;
        }
        if self.at_once > 0 {
            self.at_once -= 1;
            return;
        }
        self.until = Moment::at(earlier.unwrap_or_else(|| now.plus(PATIENCE)));
    }

    /// A packet of a request leaves, perhaps the last of a message.
    pub(super) fn speak(&mut self, ends: bool) {
        self.spoke = true;
        self.ahead = (self.ahead + u8::from(ends)).min(AHEAD);
        if self.until.is_some() {
            self.penalty = 0;
        }
    }

    /// Ends the delay. Returns whether an acknowledgement was waiting.
    pub(super) fn end(&mut self) -> bool {
        std::mem::take(&mut self.until).is_some()
    }

    /// Ends the wait if it was in vain.
    pub(super) fn expire(&mut self, now: Time) {
        if self.until.has_passed(now) {
            self.until = Moment::NONE;
            self.penalty = (2 * self.penalty).clamp(1, PENALTY);
            self.at_once = self.penalty;
        }
    }

    /// Whether a request was sent for which an acknowledgement waits.
    pub(super) fn is_over(&self) -> bool {
        self.spoke && self.until.is_some()
    }

    /// Until when an acknowledgement waits.
    pub(super) fn until(&self) -> Option<Time> {
        self.until.get()
    }
}
