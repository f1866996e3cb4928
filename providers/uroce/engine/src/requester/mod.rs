//! The requester: turns the send queue into packets, keeps count of what is acknowledged, and goes
//! back to the oldest unacknowledged packet when something is missing (IBTA volume 1, 9.7.3).

mod emit;
mod entry;
mod retry;
mod window;

use std::collections::VecDeque;

pub(crate) use emit::Context;
pub(crate) use entry::Entry;
pub(crate) use retry::Expired;
use window::Window;

use crate::host::Host;
use crate::psn::Psn;
use crate::qp::Attributes;
use crate::timer::{Moment, Time};
use crate::work::{Completion, Status, WorkRequest};

/// State of the send queue.
#[derive(Debug)]
pub(crate) struct Requester {
    queue: VecDeque<Entry>,
    /// The entry that sends next.
    next: usize,
    /// The packet of it that is next.
    offset: u32,
    /// The first PSN never used.
    next_psn: Psn,
    /// The oldest PSN not acknowledged.
    una: Psn,
    /// Number of the latest message.
    ssn: Psn,
    /// The last message that the peer has credits for; `None` if it does not count.
    limit: Option<Psn>,
    /// Requests sent whose response is still to come.
    responses_due: u32,
    /// Request packets under way.
    flight: u32,
    /// Response packets asked for that have not come.
    awaited: u32,
    since_ack_request: u32,
    /// Every message asks for its acknowledgement until one comes.
    probing: bool,
    retries_left: u8,
    rnr_left: u8,
    /// Where sending last went back to, until progress is made: one gap is one retry, however many
    /// packets tell of it.
    rewound: Option<Psn>,
    timer: Option<Time>,
    rnr_wait: Moment,
    /// The latest time that was told.
    latest: Time,
    window: Window,
}

impl Requester {
    pub(crate) fn new(max_in_flight: u32) -> Self {
        Self {
            queue: VecDeque::new(),
            next: 0,
            offset: 0,
            next_psn: Psn::default(),
            una: Psn::default(),
            ssn: Psn::default(),
            limit: None,
            responses_due: 0,
            flight: 0,
            awaited: 0,
            since_ack_request: 0,
            probing: false,
            retries_left: 0,
            rnr_left: 0,
            rewound: None,
            timer: None,
            rnr_wait: Moment::NONE,
            latest: Time::default(),
            window: Window::new(max_in_flight),
        }
    }

    /// Takes the first PSN, on the way to RTS.
    pub(crate) fn start(&mut self, attributes: &Attributes) {
        self.window.fit(attributes.path_mtu.bytes());
        self.next_psn = attributes.sq_psn;
        self.una = attributes.sq_psn;
        self.renew_retries(attributes);
    }

    pub(crate) fn renew_retries(&mut self, attributes: &Attributes) {
        self.retries_left = attributes.retry_cnt;
        self.rnr_left = attributes.rnr_retry;
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn post(&mut self, wr: WorkRequest, length: u32, attributes: &Attributes) {
        let entry = Entry::new(wr, length, attributes.path_mtu);
        self.queue.push_back(entry);
    }

    /// Whether every request that began is finished.
    pub(crate) fn is_drained(&self) -> bool {
        self.queue
            .front()
            .is_none_or(|entry| !entry.sent && !entry.done)
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        match (self.timer, self.rnr_wait.get()) {
            (Some(timer), Some(wait)) => Some(timer.min(wait)),
            (timer, wait) => timer.or(wait),
        }
    }

    /// Tells the finished requests at the head of the queue. Answers the status of a failed one that
    /// has come to the head; it stays there.
    pub(crate) fn retire(&mut self, sq_sig_all: bool, host: &mut impl Host) -> Option<Status> {
        while let Some(entry) = self.queue.front() {
            if let Some(status) = entry.failed {
                return Some(status);
            }
            if !entry.done {
                return None;
            }
            let completion = entry.completion(Status::Success);
            if entry.wr.signaled || sq_sig_all {
                host.complete(completion);
            } else {
                host.ended(&completion);
            }
            self.pop();
        }
        None
    }

    /// Completes the head with an error, for the caller to deal with the rest. `None` if the queue
    /// is empty.
    pub(crate) fn fail_head(&mut self, status: Status) -> Option<Completion> {
        let completion = self.queue.front()?.completion(status);
        self.pop();
        Some(completion)
    }

    /// Empties the queue, everything as flushed: also a local operation that was carried out while
    /// others before it were under way.
    pub(crate) fn flush(&mut self, host: &mut impl Host) {
        while let Some(entry) = self.queue.pop_front() {
            host.complete(entry.completion(Status::WrFlush));
        }
        self.next = 0;
        self.offset = 0;
        self.una = self.next_psn;
        self.responses_due = 0;
        self.flight = 0;
        self.awaited = 0;
        self.timer = None;
        self.rnr_wait = Moment::NONE;
        self.rewound = None;
    }

    fn pop(&mut self) {
        let Some(entry) = self.queue.pop_front() else {
            return;
        };
        if entry.sent && entry.awaits_response() {
            self.responses_due = self.responses_due.saturating_sub(1);
        }
        match self.next.checked_sub(1) {
            Some(next) => self.next = next,
            None => self.offset = 0,
        }
    }
}
