//! Going back, timers and acknowledged packets.

use super::Requester;
use crate::counters::Counters;
use crate::psn::Psn;
use crate::qp::Attributes;
use crate::timer::{Moment, RnrTimer, Time};
use crate::work::Status;

/// What a deadline led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expired {
    /// Nothing, or sending goes on.
    Resume,
    /// The oldest request fails.
    Fail(Status),
}

impl Requester {
    /// Where in the sequence the next packet stands.
    pub(super) fn cursor(&self) -> Psn {
        match self.queue.get(self.next) {
            Some(entry) if entry.sent => entry.start.plus(self.offset),
            _ => self.next_psn,
        }
    }

    pub(crate) fn una(&self) -> Psn {
        self.una
    }

    /// Whether a PSN was used and is not acknowledged.
    pub(crate) fn is_under_way(&self, psn: Psn) -> bool {
        psn.within(self.una, self.next_psn.since(self.una))
    }

    /// Sends again from the oldest unacknowledged packet on.
    fn rewind(&mut self, counters: &mut Counters) {
        counters.retries += 1;
        self.go_back();
    }

    /// Asks for the acknowledgement of what was sent without asking, because nothing that would ask
    /// follows any more. That is no retry: nothing is known to be missing.
    pub(crate) fn probe(&mut self) {
        if self.since_ack_request > 0 && !self.rnr_wait.is_some() && self.una != self.next_psn {
            self.go_back();
        }
    }

    /// Whether acknowledgements of what was sent may be on their way: nothing has told otherwise.
    pub(crate) fn expects_answers(&self) -> bool {
        self.una != self.next_psn && self.rewound.is_none() && !self.rnr_wait.is_some()
    }

    fn go_back(&mut self) {
        self.rewound = Some(self.una);
        self.timer = None;
        self.flight = 0;
        self.awaited = 0;
        self.probing = true;
        self.since_ack_request = 0;
        let head = self.queue.iter().position(|entry| !entry.done);
        self.next = head.unwrap_or(self.queue.len());
        self.offset = match self.queue.get(self.next) {
            Some(entry) if entry.sent => self.una.since(entry.start).min(entry.packets),
            _ => 0,
        };
    }

    /// A packet is missing on the way: go back, if that may be done once more.
    pub(crate) fn on_gap(&mut self, counters: &mut Counters) -> Expired {
        if self.rewound == Some(self.una) || self.rnr_wait.is_some() {
            return Expired::Resume;
        }
        self.spend_retry(counters)
    }

    fn spend_retry(&mut self, counters: &mut Counters) -> Expired {
        let Some(left) = self.retries_left.checked_sub(1) else {
            return Expired::Fail(Status::RetryExc);
        };
        self.retries_left = left;
        self.window.on_loss();
        self.rewind(counters);
        Expired::Resume
    }

    /// The peer had no receive request: go back after a while.
    pub(crate) fn on_rnr(
        &mut self,
        now: Time,
        timer: RnrTimer,
        rnr_retry: u8,
        counters: &mut Counters,
    ) -> Expired {
        if self.rnr_wait.is_some() {
            return Expired::Resume;
        }
        if rnr_retry != 7 {
            let Some(left) = self.rnr_left.checked_sub(1) else {
                return Expired::Fail(Status::RnrRetryExc);
            };
            self.rnr_left = left;
        }
        self.rewind(counters);
        self.rewound = None;
        let now = self.latest(now);
        self.rnr_wait = Moment::at(now.plus(timer.nanos()));
        Expired::Resume
    }

    /// Acts on the deadlines that have passed.
    pub(crate) fn on_time(&mut self, now: Time, counters: &mut Counters) -> Expired {
        let now = self.latest(now);
        if self.rnr_wait.has_passed(now) {
            self.rnr_wait = Moment::NONE;
        }
        if self.timer.is_some_and(|timer| timer <= now) {
            self.timer = None;
            counters.timeouts += 1;
            return self.spend_retry(counters);
        }
        Expired::Resume
    }

    /// The time: of several threads one may be late with it. A timer that was set by such a time would
    /// have passed already, and each packet that is repeated spend a retry at once.
    fn latest(&mut self, now: Time) -> Time {
        self.latest = self.latest.max(now);
        self.latest
    }

    pub(super) fn arm(&mut self, now: Time, attributes: &Attributes) {
        let now = self.latest(now);
        self.timer = attributes.timeout.nanos().map(|nanos| now.plus(nanos));
    }

    /// Everything before `upto` is acknowledged, `requests` of it packets sent from here.
    fn progress(&mut self, now: Time, upto: Psn, requests: u32, attributes: &Attributes) {
        if upto == self.una {
            return;
        }
        self.una = upto;
        self.flight = self.flight.saturating_sub(requests);
        self.window.on_progress(requests);
        self.probing = false;
        self.rewound = None;
        self.rnr_wait = Moment::NONE;
        self.renew_retries(attributes);
        if upto == self.next_psn {
            self.timer = None;
        } else {
            self.arm(now, attributes);
        }
    }

    /// Takes packets before `upto` for acknowledged. `false` if a response before that is missing;
    /// then only what comes before it is.
    pub(crate) fn acknowledge(&mut self, now: Time, upto: Psn, attributes: &Attributes) -> bool {
        let mut index = 0;
        let mut complete = true;
        let mut una = self.una;
        while let Some(entry) = self.queue.get_mut(index) {
            if entry.done {
                index += 1;
                continue;
            }
            if !entry.sent || entry.failed.is_some() || !una.before(upto) {
                break;
            }
            if entry.wr.request.has_response() {
                complete = false;
                break;
            }
            if entry.end().before(upto) || entry.end() == upto {
                una = entry.end();
                entry.done = true;
                index += 1;
            } else {
                una = upto;
                break;
            }
        }
        let requests = una.since(self.una);
        self.progress(now, una, requests, attributes);
        self.catch_up();
        complete
    }

    /// One packet of the oldest request's response has arrived; `true` with the last.
    pub(crate) fn response_arrived(&mut self, now: Time, attributes: &Attributes) -> bool {
        let una = self.una.next();
        let Some(entry) = self.queue.iter_mut().find(|entry| !entry.done) else {
            return false;
        };
        entry.arrived += 1;
        let last = entry.arrived == entry.packets;
        if last {
            entry.done = true;
            self.responses_due = self.responses_due.saturating_sub(1);
        }
        self.awaited = self.awaited.saturating_sub(1);
        self.window.on_progress(1);
        self.progress(now, una, 0, attributes);
        self.catch_up();
        last
    }

    /// After going back, acknowledgements may overtake the packets sent again.
    fn catch_up(&mut self) {
        while let Some(entry) = self.queue.get(self.next) {
            if entry.done {
                self.next += 1;
                self.offset = 0;
                continue;
            }
            if entry.sent && entry.start.plus(self.offset).before(self.una) {
                self.offset = self.una.since(entry.start).min(entry.packets);
            }
            return;
        }
    }

    /// The oldest unfinished request, if its packets have been sent.
    pub(crate) fn oldest(&self) -> Option<&super::Entry> {
        self.queue
            .iter()
            .find(|entry| !entry.done)
            .filter(|entry| entry.sent && entry.failed.is_none())
    }

    /// What the peer last said about credits.
    pub(crate) fn set_credits(&mut self, msn: Psn, credits: Option<u32>) {
        self.limit = credits.map(|credits| msn.plus(credits));
    }

    pub(crate) fn on_congestion(&mut self) {
        self.window.on_loss();
    }

    /// Lets the request fail that the packet belongs to, once it is the oldest.
    pub(crate) fn fail_packet(&mut self, psn: Psn, status: Status) {
        let entry = self
            .queue
            .iter_mut()
            .find(|entry| entry.sent && psn.within(entry.start, entry.packets));
        if let Some(entry) = entry {
            entry.done = false;
            entry.failed = Some(status);
            self.probe();
        }
    }
}
