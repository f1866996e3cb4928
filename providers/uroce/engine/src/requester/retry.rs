//! Going back, timers and acknowledged packets.

use super::Requester;
use super::lost::Lost;
use crate::counters::Counters;
use crate::psn::Psn;
use crate::qp::Attributes;
use crate::timer::{Moment, RnrTimer, Time};
use crate::work::Status;

/// The result of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expired {
    /// No action, or sending continues.
    Resume,
    /// The oldest request fails.
    Fail(Status),
}

/// A timeout may be noticed after so many times its length (IBTA volume 1, 9.7.6.1.3).
const LONGER: u64 = 4;
/// How often at most a peer that reports missing packets is asked once more when the timeout has
/// passed, before sending goes back. A peer does not answer the question while it waits for a
/// certain packet (RNR). Half of the retries are left for going back.
const LATE: u8 = 1;

impl Requester {
    /// Where in the sequence the next packet stands.
    pub(super) fn cursor(&self) -> Psn {
        match self.queue.get(self.next) {
            Some(entry) if entry.sent => entry.start.plus(self.offset),
            _ => self.next_psn,
        }
    }

    /// The oldest PSN that is not finished: acknowledged, or with its response.
    pub(crate) fn una(&self) -> Psn {
        match self.responses.oldest() {
            Some((oldest, missing)) if oldest.start.before(self.taken) => missing,
            _ => self.taken,
        }
    }

    /// The first PSN that the peer is not known to have taken.
    pub(crate) fn taken(&self) -> Psn {
        self.taken
    }

    /// Whether a PSN was used and is not finished.
    pub(crate) fn is_under_way(&self, psn: Psn) -> bool {
        let una = self.una();
        psn.within(una, self.next_psn.since(una))
    }

    /// Sends again from the first packet on that the peer has not taken.
    fn rewind(&mut self, counters: &mut Counters) {
        counters.retries += 1;
        self.go_back();
    }

    /// Requests the acknowledgement of packets that were sent without the request bit, because no
    /// later packet would request it. That is not a retry: no packet is known to be missing.
    pub(crate) fn probe(&mut self) {
        if self.since_ack_request > 0 && !self.rnr_wait.is_some() && self.taken != self.next_psn {
            self.go_back();
        }
    }

    /// Whether acknowledgements may be on their way: no packet has shown otherwise.
    pub(crate) fn expects_answers(&self) -> bool {
        self.una() != self.next_psn && !self.rewound && !self.rnr_wait.is_some()
    }

    fn go_back(&mut self) {
        self.rewound = true;
        self.timer = Moment::NONE;
        self.forget_reports();
        self.flight = 0;
        self.probing = true;
        self.since_ack_request = 0;
        self.next = self.untaken;
        self.offset = 0;
        self.catch_up();
    }

    /// A packet is missing on the way: go back, if that may be done once more.
    pub(crate) fn on_gap(&mut self, counters: &mut Counters) -> Expired {
        if self.rewound || self.rnr_wait.is_some() {
            return Expired::Resume;
        }
        self.spend_retry(counters)
    }

    fn spend_retry(&mut self, counters: &mut Counters) -> Expired {
        let Some(left) = self.retries_left.checked_sub(1) else {
            return Expired::Fail(Status::RetryExc);
        };
        self.retries_left = left;
        self.shrink_window();
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
        self.rewound = false;
        let now = self.latest(now);
        self.rnr_wait = Moment::at(now.plus(timer.nanos()));
        Expired::Resume
    }

    /// Acts on the deadlines that have passed.
    pub(crate) fn on_time(
        &mut self,
        now: Time,
        attributes: &Attributes,
        counters: &mut Counters,
    ) -> Expired {
        let now = self.latest(now);
        self.responses.on_time(now, attributes.timeout.nanos());
        self.on_probe_time(now, attributes);
        if self.rnr_wait.has_passed(now) {
            self.rnr_wait = Moment::NONE;
        }
        if self.timer.has_passed(now) {
            self.timer = Moment::NONE;
            counters.timeouts += 1;
            if self.answer_may_be_late(attributes) {
                self.retries_left = self.retries_left.saturating_sub(1);
                self.ask_peer();
                self.arm(now, attributes);
                return Expired::Resume;
            }
            self.responses.all_lost(self.taken);
            return self.spend_retry(counters);
        }
        Expired::Resume
    }

    /// Whether an answer that has not come is waited for once more.
    fn answer_may_be_late(&self, attributes: &Attributes) -> bool {
        let spent = attributes.retry_cnt.saturating_sub(self.retries_left);
        let most = (attributes.retry_cnt / 2).min(LATE);
        spent < most && self.can_ask_peer()
    }

    /// The time: of several threads one may be late with it. A timer that was set by such a time
    /// would have passed already, and each packet that is repeated spend a retry at once.
    pub(super) fn latest(&mut self, now: Time) -> Time {
        self.latest = self.latest.max(now);
        self.latest
    }

    pub(super) fn arm(&mut self, now: Time, attributes: &Attributes) {
        let now = self.latest(now);
        let wait = self.patience(attributes);
        self.timer = wait.map_or(Moment::NONE, |nanos| Moment::at(now.plus(nanos)));
        self.arm_probe(now, attributes);
    }

    /// How long progress is waited for until that is a timeout, in nanoseconds: `None` for ever.
    pub(super) fn patience(&self, attributes: &Attributes) -> Option<u64> {
        let least = attributes.timeout.nanos()?;
        let most = least.saturating_mul(LONGER);
        Some(self.longest_trip().clamp(least, most))
    }

    /// Nothing can leave for want of room: the timeout runs all the same, and is a retry when it
    /// has passed.
    pub(crate) fn wait_for_room(&mut self, now: Time, attributes: &Attributes) {
        let waits = self.queue.iter().any(|entry| !entry.done);
        if waits && !self.timer.is_some() && !self.rnr_wait.is_some() {
            self.arm(now, attributes);
        }
    }

    /// There has been room: the timeout begins anew, if it has passed.
    pub(crate) fn postpone(&mut self, now: Time, attributes: &Attributes) {
        if self.timer.has_passed(self.latest.max(now)) {
            self.arm(now, attributes);
        }
    }

    /// Something has come that was not known.
    fn progress(&mut self, now: Time, attributes: &Attributes) {
        self.renew_retries(attributes);
        if let Some(path) = &mut self.path {
            path.probes = 0;
        }
        if self.una() == self.next_psn {
            self.timer = Moment::NONE;
            self.stop_probe();
        } else {
            self.arm(now, attributes);
        }
    }

    /// The peer has received everything before `upto`. Requests that it answers by acknowledgements
    /// are finished.
    pub(crate) fn acknowledge(&mut self, now: Time, upto: Psn, attributes: &Attributes) {
        if !self.taken.before(upto) {
            return;
        }
        let now = self.latest(now);
        let mut requests = 0;
        while let Some(entry) = self.queue.get_mut(self.untaken) {
            if entry.done {
                self.untaken += 1;
                continue;
            }
            if !entry.sent || entry.failed.is_some() || !entry.start.before(upto) {
                break;
            }
            let from = self.taken.since(entry.start);
            let from = if from < entry.packets { from } else { 0 };
            let to = upto.since(entry.start).min(entry.packets);
            let carries = !entry.wr.request.has_response();
            if carries {
                requests += to.saturating_sub(from);
            }
            if to < entry.packets {
                break;
            }
            entry.done |= carries;
            self.untaken += 1;
        }
        let before = self.taken;
        self.measure(now, before, upto.since(before));
        self.taken = upto;
        self.flight = self.flight.saturating_sub(requests);
        self.forget_missing();
        self.window_progresses(now, requests);
        self.probing = false;
        self.rewound = false;
        self.rnr_wait = Moment::NONE;
        self.progress(now, attributes);
        self.catch_up();
    }

    /// The peer has answered something behind `psn`: responses that it has sent before are lost, if
    /// they have not come.
    pub(crate) fn answered(&mut self, psn: Psn) {
        let lost = self.responses.answered(psn);
        self.on_lost(lost);
    }

    /// A packet of a response has arrived, and its bytes are where they belong.
    pub(crate) fn arrived(
        &mut self,
        now: Time,
        index: usize,
        packet: u32,
        attributes: &Attributes,
    ) {
        let now = self.latest(now);
        let Some(number) = self.responses.get(index).map(|pending| pending.entry) else {
            return;
        };
        let lost = self.responses.arrive(index, packet, now);
        self.responses.let_go();
        let entry = self.numbered(number);
        if let Some(entry) = entry.and_then(|entry| self.queue.get_mut(entry)) {
            entry.arrived += 1;
            entry.done = entry.arrived >= entry.packets;
        }
        self.window_progresses(now, 1);
        self.progress(now, attributes);
        self.on_lost(lost);
    }

    /// Packets are lost: the window may become smaller, once for the packets in flight at that
    /// time.
    pub(super) fn on_lost(&mut self, lost: Lost) {
        let Some(first) = lost.first else {
            return;
        };
        let reported = self.gets_reports();
        let Some(path) = &mut self.path else {
            return;
        };
        if reported {
            path.window.on_reported(lost.packets);
        }
        if !first.before(self.recovering) && (!reported || path.window.loses_many()) {
            self.recovering = self.next_psn;
            path.window.on_loss(reported);
        }
    }

    /// The request that a response answers.
    pub(crate) fn asked(&self, psn: Psn) -> Option<(usize, &super::Pending, &super::Entry)> {
        let index = self.responses.find(psn)?;
        let pending = self.responses.get(index)?;
        let entry = self.queue.get(self.numbered(pending.entry)?)?;
        Some((index, pending, entry))
    }

    /// Whether a response with this PSN answers no request.
    pub(crate) fn is_no_question(&self, psn: Psn) -> bool {
        let entry = self.queue.get(self.untaken).filter(|entry| entry.sent);
        entry.is_some_and(|entry| {
            !entry.wr.request.has_response() && psn.within(entry.start, entry.packets)
        })
    }

    /// After going back, acknowledgements may overtake the packets sent again.
    fn catch_up(&mut self) {
        while let Some(entry) = self.queue.get(self.next) {
            let behind = entry.sent && entry.start.plus(self.offset).before(self.taken);
            if behind {
                self.offset = self.taken.since(entry.start).min(entry.packets);
            }
            let over = entry.done || behind && self.offset >= entry.packets;
            if !over {
                return;
            }
            self.next += 1;
            self.offset = 0;
        }
    }

    /// Lets the request at a PSN fail once it is the oldest: the peer refuses it. Nothing for one
    /// that is finished.
    pub(crate) fn refuse(&mut self, psn: Psn, status: Status) {
        let index = match self
            .responses
            .find(psn)
            .and_then(|at| self.responses.get(at))
        {
            Some(pending) => self.numbered(pending.entry),
            None if psn == self.taken => Some(self.untaken),
            None => None,
        };
        let entry = index.and_then(|index| self.queue.get_mut(index));
        if let Some(entry) = entry.filter(|entry| entry.sent && !entry.done) {
            entry.failed = Some(status);
        }
    }

    /// The credits that the peer reported last.
    pub(crate) fn set_credits(&mut self, msn: Psn, credits: Option<u32>) {
        self.limit = credits.map(|credits| msn.plus(credits));
    }

    /// A switch on the way is full.
    pub(crate) fn on_congestion(&mut self) {
        if self.una().before(self.recovering) {
            return;
        }
        self.recovering = self.next_psn;
        if let Some(path) = &mut self.path {
            path.window.on_congestion();
        }
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
