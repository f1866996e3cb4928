//! The requester: turns the send queue into packets, tracks which packets the peer has received and
//! answered, retransmits what the peer lacks, and requests missing responses again (IBTA volume 1,
//! 9.7.3).
//!
//! The send queue is a deque of entries. A cursor (entry, packet) names the next packet; `taken` is
//! the first PSN that the peer is not known to have received; `next_psn` is the first unused PSN.
//!
//! *Sending.* `prepare` moves the cursor to a packet that may be sent. It executes local operations
//! on the way and stops at the limits of fence, reads in flight, [`congestion`], credits and SQD.
//! `account` assigns PSNs when a request begins. A NAK, a timeout or RNR sets the cursor back to
//! `taken`; later acknowledgements advance it. A peer that reports missing packets is asked first,
//! when the timeout passes for the first time. A NAK or RNR for a packet that the peer has received
//! meanwhile is stale and has no effect. One gap costs one retry, however many packets report it. A
//! request asks for an acknowledgement if it is signalled, if nothing can follow immediately, and
//! at least every 16 packets; after a retransmission every message asks.
//!
//! *Packets* ([`cut`]). Between two ends of this make, those of a message are of equal length.
//!
//! *Reads* ([`responses`]). A long read is sent as several read requests with consecutive PSNs,
//! which IBTA permits; each counts as a message for credits and as one request for `max_rd_atomic`.
//! Each asks for a quarter of the response window, or for more where `max_rd_atomic` allows fewer
//! than four. Response packets are placed in any order of arrival. A packet counts as missing after
//! one behind it has arrived. It is requested alone and once, and again only if the repetition is
//! lost too: a later packet of the repetition arrives first, or a few measured round trips pass (at
//! least 2 ms, doubling). Retries are not consumed by that; they count timeouts without progress.
//! For each request only the first gap is requested at a time, because soft-RoCE does not answer a
//! repeated read that lies before the latest repetition.
//!
//! *Loss* between two ends that understand reports is dealt with in [`recovery`].

mod batching;
mod congestion;
mod cut;
mod emit;
mod entry;
mod lost;
mod missing;
mod recovery;
mod responses;
mod retry;
mod round_trip;

use std::collections::VecDeque;

use batching::Load;
use cut::Cut;
pub(crate) use emit::Context;
pub(crate) use entry::Entry;
use missing::{Path, PeerKind};
pub(crate) use responses::Pending;
use responses::Responses;
pub(crate) use retry::Expired;
use round_trip::RoundTrip;

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
    /// The first PSN that the peer is not known to have taken.
    taken: Psn,
    /// The first entry that it is not known to have taken all of.
    untaken: usize,
    /// The number of the entry at the head; each has the next.
    head: u32,
    /// Number of the latest message.
    ssn: Psn,
    /// The last message that the peer has credits for; `None` if it does not count.
    limit: Option<Psn>,
    /// Requests whose responses are outstanding.
    responses: Responses,
    /// Request packets under way that are answered by acknowledgements.
    flight: u32,
    /// Losses before this PSN have made the window smaller.
    recovering: Psn,
    since_ack_request: u32,
    /// Every message asks for its acknowledgement until one comes.
    probing: bool,
    retries_left: u8,
    rnr_left: u8,
    /// Sending has gone back, and no progress was made since: one gap is one retry, however many
    /// packets report it.
    rewound: bool,
    timer: Moment,
    rnr_wait: Moment,
    /// The latest time that a caller passed.
    latest: Time,
    /// Request packets under way at most, without a measured path.
    max_in_flight: u32,
    peer: PeerKind,
    /// The peer has said that it reads acknowledgements in requests.
    piggybacks: bool,
    /// The peer has said that it takes messages in equal parts.
    equalizes: bool,
    /// How the latest message was cut.
    latest_cut: Cut,
    /// State of the way to the peer, once there is anything: there are many queue pairs.
    path: Option<Box<Path>>,
}

impl Requester {
    pub(crate) fn new(max_in_flight: u32) -> Self {
        Self {
            queue: VecDeque::new(),
            next: 0,
            offset: 0,
            next_psn: Psn::default(),
            taken: Psn::default(),
            untaken: 0,
            head: 0,
            ssn: Psn::default(),
            limit: None,
            responses: Responses::default(),
            flight: 0,
            recovering: Psn::default(),
            since_ack_request: 0,
            probing: false,
            retries_left: 0,
            rnr_left: 0,
            rewound: false,
            timer: Moment::NONE,
            rnr_wait: Moment::NONE,
            latest: Time::default(),
            max_in_flight,
            peer: PeerKind::default(),
            piggybacks: false,
            equalizes: false,
            latest_cut: Cut::default(),
            path: None,
        }
    }

    /// Takes the first PSN, on the way to RTS.
    pub(crate) fn start(&mut self, attributes: &Attributes) {
        self.next_psn = attributes.sq_psn;
        self.taken = attributes.sq_psn;
        self.recovering = attributes.sq_psn;
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

    /// Whether the requests that have not begun may wait for others, to leave together. Local ones
    /// do not leave, and so do not wait.
    pub(crate) fn may_batch(&self) -> bool {
        let waiting = self.queue.len().saturating_sub(self.next);
        // No more are looked at than may wait.
        let entries = self.queue.iter().rev().take(waiting.min(batching::BATCH));
        let mut longest = 0;
        let mut bytes = 0u32;
        for entry in entries {
            if entry.wr.request.is_local() {
                return false;
            }
            longest = longest.max(entry.length);
            bytes = bytes.saturating_add(entry.length);
        }
        let asked = self.flight.saturating_sub(self.since_ack_request);
        let load = Load {
            under_way: if self.expects_answers() { asked } else { 0 },
            waiting,
            longest,
            bytes,
        };
        load.may_wait()
    }

    /// Whether every request that began is finished.
    pub(crate) fn is_drained(&self) -> bool {
        self.queue
            .front()
            .is_none_or(|entry| !entry.sent && !entry.done)
    }

    /// The first request that has not begun.
    pub(crate) fn first_waiting(&self) -> Option<&WorkRequest> {
        let mut entries = self.queue.range(self.next.min(self.queue.len())..);
        let waiting = entries.find(|entry| !entry.sent && !entry.done)?;
        Some(&waiting.wr)
    }

    /// Takes back the requests that have not begun, if nothing is under way.
    pub(crate) fn take_waiting(&mut self) -> VecDeque<WorkRequest> {
        let fails = self
            .queue
            .front()
            .is_some_and(|entry| entry.failed.is_some());
        if fails || !self.is_drained() {
            return VecDeque::new();
        }
        self.next = 0;
        self.offset = 0;
        self.untaken = 0;
        self.queue.drain(..).map(|entry| entry.wr).collect()
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        Time::earliest([
            self.timer.get(),
            self.rnr_wait.get(),
            self.responses.deadline(),
            self.path.as_ref().and_then(|path| path.probe_timer.get()),
        ])
    }

    /// Whether the request at the head of the queue has come to its end.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        let head = self.queue.front();
        head.is_some_and(|entry| entry.done || entry.failed.is_some())
    }

    /// Reports the finished requests at the head of the queue. Returns the status of a failed one
    /// that has come to the head; it stays there.
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
        self.taken = self.next_psn;
        self.untaken = 0;
        self.responses.clear();
        self.flight = 0;
        self.path = None;
        self.rewound = false;
        self.stop_timers();
    }

    /// Nothing is sent again, and nothing waits for its time.
    pub(crate) fn stop_timers(&mut self) {
        self.timer = Moment::NONE;
        self.rnr_wait = Moment::NONE;
        self.responses.stop_timer();
        self.stop_probe();
    }

    /// The entry of a number.
    fn numbered(&self, number: u32) -> Option<usize> {
        let index = usize::try_from(number.wrapping_sub(self.head)).ok()?;
        (index < self.queue.len()).then_some(index)
    }

    fn number(&self, index: usize) -> u32 {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        self.head.wrapping_add(index)
    }

    fn pop(&mut self) {
        if self.queue.pop_front().is_none() {
            return;
        }
        self.head = self.head.wrapping_add(1);
        self.untaken = self.untaken.saturating_sub(1);
        match self.next.checked_sub(1) {
            Some(next) => self.next = next,
            None => self.offset = 0,
        }
    }
}
