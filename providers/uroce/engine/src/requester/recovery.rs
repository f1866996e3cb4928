//! Loss between two ends that understand reports of missing packets ([`crate::wire::Report`]).
//!
//! *Who understands.* A request says that its sender does, by a bit that others ignore; an answer
//! to it repeats the bit if the responder does. Before the first answer, and after one with the
//! bit, requests have it. After one without, they have not, and everything is as the specification
//! says: a NAK or a timeout sends again all from the first missing packet on.
//!
//! *Repetition.* A packet that is missing while one behind it has arrived, once. It is sent
//! once more if something has arrived that was sent after it again: a new packet, or another
//! repetition. Order is that of leaving, so one that was only overtaken costs no more than itself.
//!
//! *The last packets.* Nothing arrives behind the last packets. If there is no progress for
//! a few round trips, repeated packets are sent once more, and else the last packet: the answer
//! names the other missing packets. The wait doubles each time, and the first is no longer than the
//! timeout of the connection. That takes no retry.
//!
//! *Retries.* They are counted as ever, by the timeout of the connection, which only a packet
//! renews that is acknowledged with all before it. The timeout is up to four times as long where
//! the measured round trip is longer, which IBTA permits. When it passes, the peer is asked in the
//! same way as above, once, and only if two retries or more are allowed: its process may not have
//! run. After that all reports are forgotten, sending goes back, and the window is halved.
//!
//! Reports are not trusted: one that speaks of packets that were not sent is dropped.

use super::Requester;
use super::congestion::Window;
use super::missing::{Path, PeerKind, Recovery};
use crate::counters::Counters;
use crate::psn::Psn;
use crate::qp::Attributes;
use crate::timer::{Moment, Time};
use crate::wire::{Bth, Report};

impl Requester {
    /// Whether requests say that reports are understood.
    pub(super) fn offers_reports(&self) -> bool {
        self.peer != PeerKind::Other
    }

    /// Whether the peer reports missing packets.
    pub(super) fn gets_reports(&self) -> bool {
        self.peer == PeerKind::Selective
    }

    /// Whether the peer reads acknowledgements in requests.
    pub(crate) fn may_piggyback(&self) -> bool {
        self.gets_reports() && self.piggybacks
    }

    /// Whether messages may be cut into equal parts: the peer takes them, and the path is near. On
    /// a far one bytes cost more than system calls.
    pub(super) fn may_equalize(&self) -> bool {
        let far = self.window().is_some_and(Window::is_far);
        self.gets_reports() && self.equalizes && !far
    }

    /// An answer has come whose sender understands reports, or does not.
    pub(crate) fn learn(&mut self, bth: &Bth, attributes: &Attributes) {
        let before = self.peer;
        self.piggybacks |= bth.piggyback;
        self.equalizes |= bth.equal;
        self.peer = match (self.peer, bth.selective) {
            (PeerKind::Other, _) | (PeerKind::Unknown, false) => PeerKind::Other,
            // Answers to other requests may lack the bit.
            _ => PeerKind::Selective,
        };
        if before == PeerKind::Unknown
            && self.gets_reports()
            && let Some(path) = &mut self.path
        {
            path.window.open(attributes.path_mtu.bytes());
        }
    }

    /// The path to the peer is used: its state begins, unless there is one.
    pub(super) fn begin_path(&mut self, attributes: &Attributes) {
        if self.path.is_some() {
            return;
        }
        let payload = attributes.path_mtu.bytes();
        let mut window = Window::new(self.max_in_flight, payload, self.una());
        if self.gets_reports() {
            window.open(payload);
        }
        self.path = Some(Box::new(Path::new(window)));
    }

    /// The congestion window, once there is one.
    pub(super) fn window(&self) -> Option<&Window> {
        self.path.as_ref().map(|path| &path.window)
    }

    /// A packet waits for room in the window.
    pub(super) fn window_limits(&mut self) {
        let now = self.latest;
        if let Some(path) = &mut self.path {
            path.window.limits(now);
        }
    }

    /// So many packets have arrived.
    pub(super) fn window_progresses(&mut self, now: Time, packets: u32) {
        let (una, furthest) = (self.una(), self.furthest());
        // Half of the circle of PSNs later they would seem to be ahead again.
        if self.recovering.before(una) {
            self.recovering = una;
        }
        // Of the packets behind the last request for one no acknowledgement comes.
        let asked = self.flight.saturating_sub(self.since_ack_request);
        let empty = asked == 0 && self.responses.awaited() == 0;
        if let Some(path) = &mut self.path {
            path.furthest = path.furthest.filter(|furthest| una.before(*furthest));
            path.window.on_progress(packets, now, una, furthest);
            if empty {
                path.window.on_empty(now);
            }
        }
    }

    /// The path does not carry the packets in flight.
    pub(super) fn shrink_window(&mut self) {
        if let Some(path) = &mut self.path {
            path.window.on_loss(false);
        }
    }

    fn recovery(&self) -> Option<&Recovery> {
        self.path.as_ref()?.recovery.as_ref()
    }

    /// Whether anything is known to be missing.
    pub(super) fn recovers(&self) -> bool {
        self.recovery().is_some()
    }

    /// The first PSN that was not sent.
    fn furthest(&self) -> Psn {
        let cursor = self.cursor();
        let before = self.path.as_ref().and_then(|path| path.furthest);
        before
            .filter(|before| cursor.before(*before))
            .unwrap_or(cursor)
    }

    /// Request packets that have arrived behind missing ones: they are not under way.
    pub(super) fn arrived_early(&self) -> u32 {
        self.recovery().map_or(0, |recovery| recovery.arrived)
    }

    /// So many packets have arrived.
    pub(super) fn measure(&mut self, now: Time, first: Psn, packets: u32) {
        if let Some(path) = &mut self.path {
            let Path {
                window,
                timed,
                round_trip,
                ..
            } = &mut **path;
            timed.arrive(now, first, packets, |nanos| {
                round_trip.measured(nanos);
                window.sample(nanos);
            });
        }
    }

    /// A packet with so many PSNs leaves. `asks` is the time, if it asks for an acknowledgement.
    pub(super) fn note_sent(
        &mut self,
        first: Psn,
        packets: u32,
        asks: Option<Time>,
        repeated: bool,
    ) {
        let Some(path) = &mut self.path else {
            return;
        };
        path.window.leaves();
        let before = |furthest| first.before(furthest);
        let again = repeated || path.furthest.is_some_and(before);
        match asks {
            _ if again => path.timed.forget(first, packets),
            Some(now) => path.timed.leaves(first, now),
            None => {}
        }
    }

    /// Sending goes back: all reported packets are sent again.
    pub(super) fn forget_reports(&mut self) {
        let furthest = self.furthest();
        if let Some(path) = &mut self.path {
            path.furthest = Some(furthest);
            path.recovery = None;
            path.timed.clear();
            path.probe_timer = Moment::NONE;
        }
    }

    /// No answer is waited for.
    pub(super) fn stop_probe(&mut self) {
        if let Some(path) = &mut self.path {
            path.probe_timer = Moment::NONE;
        }
    }

    /// A report has come with the latest acknowledgement.
    pub(crate) fn on_report(&mut self, now: Time, report: Report<'_>, counters: &mut Counters) {
        let now = self.latest(now);
        let taken = self.taken;
        let furthest = self.furthest();
        if !self.gets_reports() || self.rnr_wait.is_some() || self.cursor() != furthest {
            // Sending has gone back, and everything comes again.
            return;
        }
        if report.packets() > furthest.since(taken) {
            counters.dropped += 1;
            return;
        }
        let mut at = taken;
        let mut missing = Vec::new();
        for run in report.runs() {
            self.add_missing(at, u32::from(run.missing), &mut missing);
            at = at.plus(u32::from(run.missing));
            self.measure(now, at, u32::from(run.arrived));
            at = at.plus(u32::from(run.arrived));
        }
        let Some(path) = &mut self.path else {
            return;
        };
        let recovery = path.recovery.get_or_insert_with(|| Recovery::new(taken));
        let lost = recovery.report(missing.into_iter(), at);
        self.count_arrived();
        self.on_lost(lost);
    }

    /// Adds those of a range of PSNs that have separate packets. Reads in it are asked again:
    /// their responses have the other PSNs.
    fn add_missing(&mut self, from: Psn, packets: u32, missing: &mut Vec<Psn>) {
        let mut at = 0;
        while at < packets {
            let psn = from.plus(at);
            let Some(index) = self.responses.find(psn) else {
                missing.push(psn);
                at += 1;
                continue;
            };
            let Some(pending) = self.responses.get(index) else {
                return;
            };
            let (start, end) = (pending.start, pending.end());
            if start == psn {
                self.responses.overtaken(index);
            }
            at += end.since(psn);
        }
    }

    /// Counts request packets that have arrived behind missing ones.
    fn count_arrived(&mut self) {
        let taken = self.taken;
        let Some(recovery) = self.recovery() else {
            return;
        };
        let seen = recovery.seen;
        let missing = recovery.missing.iter();
        let missing = missing.filter(|missing| missing.psn.before(seen)).count();
        let missing = u32::try_from(missing).unwrap_or(u32::MAX);
        let span = seen.since(taken);
        let mut carried = 0;
        for entry in self.queue.range(self.untaken.min(self.queue.len())..) {
            if !entry.sent || entry.wr.request.has_response() {
                continue;
            }
            let (from, to) = if entry.start.before(taken) {
                (0, entry.end().since(taken))
            } else {
                let from = entry.start.since(taken);
                (from, from.saturating_add(entry.packets))
            };
            if from >= span {
                break;
            }
            carried += to.min(span) - from;
        }
        let recovery = self.path.as_mut().and_then(|path| path.recovery.as_mut());
        if let Some(recovery) = recovery {
            recovery.arrived = carried.saturating_sub(missing);
        }
    }

    /// More was acknowledged: those packets are not missing.
    pub(super) fn forget_missing(&mut self) {
        let taken = self.taken;
        let Some(path) = &mut self.path else {
            return;
        };
        let Some(recovery) = &mut path.recovery else {
            return;
        };
        recovery.forget_before(taken);
        if recovery.seen.before(taken) {
            recovery.seen = taken;
        }
        if recovery.missing.is_empty() && recovery.seen == taken {
            path.recovery = None;
        }
        self.count_arrived();
    }

    /// The packet that is to be sent again, as the place of its request and its own in that.
    // Inlined for the usual case, that nothing is missing: asked for several times for each packet.
    #[inline]
    pub(super) fn next_missing(&mut self) -> Option<(usize, u32)> {
        self.recovery()?;
        self.next_reported()
    }

    #[inline(never)]
    fn next_reported(&mut self) -> Option<(usize, u32)> {
        loop {
            let psn = self.path.as_mut()?.recovery.as_mut()?.next()?;
            let entries = self.queue.range(self.untaken.min(self.queue.len())..);
            let found = entries
                .zip(self.untaken..)
                .find(|(entry, _)| entry.sent && psn.within(entry.start, entry.packets));
            match found {
                Some((entry, at)) if entry.failed.is_none() && !entry.done => {
                    return Some((at, psn.since(entry.start)));
                }
                // There is nothing to be sent.
                _ => self.note_sent_again(psn),
            }
        }
    }

    /// A missing packet is sent again.
    pub(super) fn note_sent_again(&mut self, psn: Psn) {
        let furthest = self.furthest();
        let Some(path) = &mut self.path else {
            return;
        };
        path.timed.forget(psn, 1);
        if let Some(recovery) = &mut path.recovery {
            recovery.sent_again(psn, furthest);
        }
    }

    /// The wait for an answer begins anew. It is at first no longer than the timeout of the
    /// connection: one answer that a stopped process took in late lets the measured round trip be
    /// far too long for the next ten or so.
    pub(super) fn arm_probe(&mut self, now: Time, attributes: &Attributes) {
        let expected = self.gets_reports();
        let patience = self.patience(attributes);
        let Some(path) = &mut self.path else {
            return;
        };
        let most = attributes.timeout.nanos();
        let wait = path.round_trip.wait().min(most.unwrap_or(u64::MAX)) << path.probes;
        path.probe_timer = if expected && patience.is_none_or(|patience| wait < patience) {
            Moment::at(now.plus(wait))
        } else {
            Moment::NONE
        };
    }

    /// Asks the peer about outstanding packets, if nothing has come for a few round trips.
    pub(super) fn on_probe_time(&mut self, now: Time, attributes: &Attributes) {
        let Some(path) = &mut self.path else {
            return;
        };
        if !path.probe_timer.has_passed(now) {
            return;
        }
        path.probes = (path.probes + 1).min(MOST_DOUBLINGS);
        self.arm_probe(now, attributes);
        if self.can_ask_peer() {
            self.ask_peer();
        }
    }

    /// Whether the peer reports missing packets, and some are outstanding.
    pub(super) fn can_ask_peer(&self) -> bool {
        let furthest = self.furthest();
        self.gets_reports()
            && !self.rnr_wait.is_some()
            && self.cursor() == furthest
            && self.una() != furthest
    }

    /// Sends again packets whose answer names the other missing ones.
    pub(super) fn ask_peer(&mut self) {
        let furthest = self.furthest();
        let recovery = self.path.as_mut().and_then(|path| path.recovery.as_mut());
        let lost = recovery.map(Recovery::all_due).unwrap_or_default();
        if self.responses.ask_oldest_before(self.taken) || lost.first.is_some() {
            self.on_lost(lost);
            return;
        }
        let (taken, last) = (self.taken, furthest.previous());
        if let Some(pending) = self.responses.find(last) {
            self.responses.ask(pending);
        } else if last.at_or_after(taken) {
            let Some(path) = &mut self.path else {
                return;
            };
            let recovery = path.recovery.get_or_insert_with(|| Recovery::new(taken));
            recovery.ask(last);
        }
    }

    /// How long an answer may take, as measured; 0 for a peer that does not report missing packets.
    pub(super) fn longest_trip(&self) -> u64 {
        let path = self.path.as_ref().filter(|_| self.gets_reports());
        path.map_or(0, |path| path.round_trip.longest())
    }
}

/// How often the wait for an answer doubles at most.
const MOST_DOUBLINGS: u8 = 8;
