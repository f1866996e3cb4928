//! How a queue pair fails.

use super::{QueuePair, Service, State};
use crate::host::Host;
use crate::outgoing::Origin;
use crate::responder::Refusal;
use crate::work::{Event, Status};

impl QueuePair {
    /// The carrier or the memory below failed for good: the queue pair goes to ERR, and
    /// IBV_EVENT_QP_FATAL is reported. No effect in RESET and ERR.
    pub fn fatal(&mut self, host: &mut impl Host) {
        if matches!(self.state, State::Reset | State::Error) {
            return;
        }
        host.event(Event::QpFatal);
        self.enter_error(host);
    }

    /// The payload of the packet just handed out cannot be read: the memory went away after it was
    /// checked. The packet is not to be sent.
    pub fn gather_failed(&mut self, origin: Origin, host: &mut impl Host) {
        match origin {
            Origin::Request(psn) => {
                self.requester.fail_packet(psn, Status::LocProt);
                self.report_completed(host);
            }
            Origin::Reply(psn) => {
                if self.state == State::Error {
                    return;
                }
                self.responder.refuse_late(psn, &mut self.counters, host);
                self.enter_error(host);
            }
        }
    }

    /// The oldest request fails. Without acknowledgements only the send queue stops (SQE).
    pub(super) fn fail_request(&mut self, status: Status, host: &mut impl Host) {
        self.requester.retire(self.config.sq_sig_all, host);
        if let Some(completion) = self.requester.fail_head(status) {
            self.counters.errors += 1;
            host.complete(completion);
        }
        if matches!(self.config.service, Service::Uc | Service::Ud) {
            self.change_state(State::Sqe);
            self.requester.flush(host);
        } else {
            self.flush_all(host);
        }
    }

    /// Does the writes that the host has taken to be done later. To be called after
    /// [`QueuePair::receive`], before anything else, if there may be some. One that cannot be done
    /// is refused, and with it everything after it.
    pub fn settle(&mut self, host: &mut impl Host) {
        let Err(fault) = host.settle() else {
            return;
        };
        if self.config.service.reliable() {
            self.refuse(fault.into(), host);
        } else {
            self.counters.dropped += 1;
        }
    }

    /// A peer's request ends the connection. If a write before it could not be done, that does.
    pub(super) fn refuse(&mut self, refusal: Refusal, host: &mut impl Host) {
        let earlier = host.settle().err();
        let earlier = earlier.filter(|_| self.config.service.reliable());
        let refusal = earlier.map_or(refusal, Refusal::from);
        self.responder.refuse(refusal, &mut self.counters, host);
        self.enter_error(host);
    }

    /// ERR: finished requests complete with their status, all others as flushed. Queued answers are
    /// still sent.
    pub(super) fn enter_error(&mut self, host: &mut impl Host) {
        self.requester.retire(self.config.sq_sig_all, host);
        self.flush_all(host);
    }

    fn flush_all(&mut self, host: &mut impl Host) {
        let again = self.state == State::Error;
        self.change_state(State::Error);
        self.draining = false;
        self.requester.flush(host);
        self.flush_receives(host);
        if !again && !self.owns_receives() && self.config.service.responds() {
            host.event(Event::LastWqeReached);
        }
    }

    /// The receive request in use ends, and the others do unless they are still to receive
    /// something.
    pub(super) fn flush_receives(&mut self, host: &mut impl Host) {
        let all = self.owns_receives() && !self.keeps_receives;
        self.responder.flush(all, host);
    }

    /// Reports requests that have finished, and applies the consequences.
    #[inline]
    pub(super) fn report_completed(&mut self, host: &mut impl Host) {
        if !self.state.sends() {
            return;
        }
        if self.requester.has_ended()
            && let Some(status) = self.requester.retire(self.config.sq_sig_all, host)
        {
            self.fail_request(status, host);
            return;
        }
        if self.state == State::Sqd && self.draining && self.requester.is_drained() {
            self.draining = false;
            if self.attributes.en_sqd_async_notify {
                host.event(Event::SqDrained);
            }
        }
    }
}
