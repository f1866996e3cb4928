//! Requests in flight whose responses are outstanding: reads, cut into requests that fit the
//! window, and other requests that a peer answers with a separate response.
//!
//! The packets of a response may arrive in any order: the PSN of each determines the position of
//! its bytes. A packet counts as missing once a later one has arrived. Only missing packets are
//! requested again, and once: again only if a later packet of the same repeated request arrives
//! without them, or if they do not arrive in a few round trips. Packets that were only delayed
//! therefore cause no more than one repetition each.
//!
//! Of each request only the first gap is asked for at a time. Some responders remember where a
//! repeated read began, and do not go back behind that (the kernel's soft-RoCE).

use std::collections::VecDeque;
use std::ops::Range;

use super::RoundTrip;
use super::lost::Lost;
use crate::psn::Psn;
use crate::timer::{Moment, Time};

/// Most packets that one request asks for.
pub(super) const MOST_PACKETS: u32 = 256;
/// How often the wait doubles at most.
const DOUBLINGS: u8 = 10;

/// Which packets have arrived.
#[derive(Clone, Copy, Debug, Default)]
struct Packets([u64; 4]);

impl Packets {
    fn place(index: u32) -> (usize, u64) {
        let word = usize::try_from(index / 64).unwrap_or(usize::MAX);
        (word, 1 << (index % 64))
    }

    fn has(&self, index: u32) -> bool {
        let (word, bit) = Self::place(index);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    fn add(&mut self, index: u32) {
        let (word, bit) = Self::place(index);
        if let Some(word) = self.0.get_mut(word) {
            *word |= bit;
        }
    }
}

/// One request on the wire. Packets of its response are counted from 0.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// The PSN of the first packet.
    pub start: Psn,
    /// Packets of the response, at most [`MOST_PACKETS`].
    pub packets: u32,
    /// The work request, by the number that the requester gives each.
    pub entry: u32,
    /// Packets of the work request that earlier requests ask for.
    pub offset: u32,
    arrived: Packets,
    count: u32,
    first_missing: u32,
    /// One more than the last packet that has arrived.
    seen: u32,
    /// The answer to a later request has arrived.
    passed: bool,
    /// The last repeated range.
    repeated: Range<u32>,
    /// One more than the last packet of that which has arrived since.
    seen_of_repeated: u32,
    /// How often it was asked for again since a packet arrived.
    attempts: u8,
    asked_at: Time,
    /// To be asked for again.
    lost: bool,
}

impl Pending {
    /// A request that leaves now.
    pub(super) fn new(entry: u32, offset: u32, start: Psn, packets: u32, now: Time) -> Self {
        Self {
            start,
            packets,
            entry,
            offset,
            arrived: Packets::default(),
            count: 0,
            first_missing: 0,
            seen: 0,
            passed: false,
            repeated: 0..0,
            seen_of_repeated: 0,
            attempts: 0,
            asked_at: now,
            lost: false,
        }
    }

    /// The PSN after the last packet.
    pub(crate) fn end(&self) -> Psn {
        self.start.plus(self.packets)
    }

    /// Whether a packet has arrived.
    pub(crate) fn has(&self, packet: u32) -> bool {
        self.arrived.has(packet)
    }

    /// Whether any part was asked for more than once: a response may then end anywhere.
    pub(crate) fn was_repeated(&self) -> bool {
        !self.repeated.is_empty()
    }

    fn is_complete(&self) -> bool {
        self.count >= self.packets
    }

    /// The first packets that are missing, up to the next one that is not.
    fn gap(&self) -> Range<u32> {
        let behind = self.first_missing..self.packets;
        let end = behind.clone().find(|packet| self.has(*packet));
        self.first_missing..end.unwrap_or(self.packets)
    }

    /// Whether the first missing packet was asked for again already.
    fn is_repeated(&self) -> bool {
        self.repeated.contains(&self.first_missing)
    }

    /// Finds out whether the first missing packet is lost: something behind it has come that was
    /// asked for at the same time or later.
    fn judge(&mut self) -> bool {
        let behind = if self.is_repeated() {
            self.seen_of_repeated > self.first_missing
        } else {
            self.passed || self.seen > self.first_missing
        };
        self.lost |= behind && !self.is_complete();
        self.lost
    }

    fn arrive(&mut self, packet: u32) {
        self.arrived.add(packet);
        self.count += 1;
        self.attempts = 0;
        self.seen = self.seen.max(packet + 1);
        if self.repeated.contains(&packet) {
            self.seen_of_repeated = self.seen_of_repeated.max(packet + 1);
        }
        while self.first_missing < self.packets && self.has(self.first_missing) {
            self.first_missing += 1;
            self.lost = false;
        }
    }

    /// The first gap is asked for again.
    fn repeat(&mut self, now: Time) -> Range<u32> {
        self.repeated = self.gap();
        self.seen_of_repeated = 0;
        self.attempts = self.attempts.saturating_add(1).min(DOUBLINGS);
        self.asked_at = now;
        self.lost = false;
        self.repeated.clone()
    }

    /// When a repeated request counts as lost.
    fn due(&self, wait: u64, most: Option<u64>) -> Option<Time> {
        let repeated = !self.is_complete() && !self.lost && self.is_repeated();
        let wait = wait << self.attempts.saturating_sub(1);
        let wait = most.map_or(wait, |most| wait.min(most));
        repeated.then(|| self.asked_at.plus(wait))
    }
}

/// The requests whose responses are outstanding, oldest first. A complete one stays until all
/// before it are complete: a responder must remember so many. A queue pair that never requested a
/// response has no memory for them, because there may be many queue pairs.
#[derive(Debug, Default)]
pub(crate) struct Responses(Option<Box<Outstanding>>);

#[derive(Debug, Default)]
struct Outstanding {
    queue: VecDeque<Pending>,
    /// Response packets asked for that have not come.
    awaited: u32,
    /// Some may be lost.
    any_lost: bool,
    round_trip: RoundTrip,
    /// When repeated requests are looked at.
    timer: Moment,
}

impl Responses {
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |all| all.queue.len())
    }

    /// Response packets asked for that have not come.
    pub(super) fn awaited(&self) -> u32 {
        self.0.as_ref().map_or(0, |all| all.awaited)
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.0.as_ref().and_then(|all| all.timer.get())
    }

    pub(super) fn stop_timer(&mut self) {
        if let Some(all) = &mut self.0 {
            all.timer = Moment::NONE;
        }
    }

    pub(super) fn clear(&mut self) {
        self.0 = None;
    }

    pub(super) fn push(&mut self, pending: Pending) {
        let all = self.0.get_or_insert_default();
        all.awaited = all.awaited.saturating_add(pending.packets);
        all.queue.push_back(pending);
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Pending> {
        self.0.as_ref()?.queue.get(index)
    }

    /// The oldest, and the PSN of its first missing packet.
    pub(super) fn oldest(&self) -> Option<(&Pending, Psn)> {
        let oldest = self.get(0)?;
        Some((oldest, oldest.start.plus(oldest.first_missing)))
    }

    /// The request that a packet answers.
    pub(super) fn find(&self, psn: Psn) -> Option<usize> {
        let all = self.0.as_ref()?;
        let index = all.passed_by(psn)?;
        let pending = all.queue.get(index)?;
        psn.within(pending.start, pending.packets).then_some(index)
    }

    /// A packet has arrived that had not. Returns the packets before it that are now known to be
    /// lost.
    pub(super) fn arrive(&mut self, index: usize, packet: u32, now: Time) -> Lost {
        let Some(all) = &mut self.0 else {
            return Lost::default();
        };
        let Some(pending) = all.queue.get_mut(index) else {
            return Lost::default();
        };
        if pending.count == 0 && !pending.was_repeated() {
            let trip = now.nanos().saturating_sub(pending.asked_at.nanos());
            all.round_trip.measured(trip);
        }
        pending.arrive(packet);
        all.awaited = all.awaited.saturating_sub(1);
        all.judge_up_to(index)
    }

    /// The peer has answered the request after `psn`. Returns as [`Responses::arrive`].
    pub(super) fn answered(&mut self, psn: Psn) -> Lost {
        let Some(all) = &mut self.0 else {
            return Lost::default();
        };
        let passed = all.passed_by(psn);
        passed.map_or(Lost::default(), |passed| all.judge_up_to(passed))
    }

    /// The request at `index` is lost, if it is on the wire for the first time: others behind it
    /// have arrived.
    pub(super) fn overtaken(&mut self, index: usize) {
        let Some(all) = &mut self.0 else {
            return;
        };
        if let Some(pending) = all.queue.get_mut(index) {
            pending.passed = true;
            all.any_lost |= pending.judge();
        }
    }

    /// The request at `index` is asked again, if it is not complete.
    pub(super) fn ask(&mut self, index: usize) -> bool {
        let Some(all) = &mut self.0 else {
            return false;
        };
        let pending = all.queue.get_mut(index);
        let Some(pending) = pending.filter(|pending| !pending.is_complete()) else {
            return false;
        };
        pending.lost = true;
        all.any_lost = true;
        true
    }

    /// The oldest is asked again, if the peer has carried it out: it begins before `psn`.
    pub(super) fn ask_oldest_before(&mut self, psn: Psn) -> bool {
        let oldest = self.get(0).map(|oldest| oldest.start.before(psn));
        oldest == Some(true) && self.ask(0)
    }

    /// Lets go of the oldest that are complete.
    pub(super) fn let_go(&mut self) {
        let Some(all) = &mut self.0 else {
            return;
        };
        while all.queue.front().is_some_and(Pending::is_complete) {
            all.queue.pop_front();
        }
        if all.queue.is_empty() {
            all.timer = Moment::NONE;
        }
    }

    /// Nothing has come for long: everything before `psn` that is missing is asked for again.
    pub(super) fn all_lost(&mut self, psn: Psn) {
        let Some(all) = &mut self.0 else {
            return;
        };
        for pending in &mut all.queue {
            pending.lost = pending.start.before(psn) && !pending.is_complete();
            all.any_lost |= pending.lost;
        }
    }

    /// The first before `psn` to be asked for again.
    pub(super) fn next_lost(&mut self, psn: Psn) -> Option<usize> {
        let all = self.0.as_mut().filter(|all| all.any_lost)?;
        let lost = all.queue.iter().position(|pending| pending.lost);
        all.any_lost = lost.is_some();
        let first = all.queue.get(lost?)?;
        lost.filter(|_| first.start.before(psn))
    }

    /// The request at `index` is repeated: answers which packets of it are asked for. No answer is
    /// waited for longer than `most`. `None` if none is missing.
    pub(super) fn repeat(
        &mut self,
        index: usize,
        now: Time,
        most: Option<u64>,
    ) -> Option<Range<u32>> {
        let all = self.0.as_mut()?;
        let wait = all.round_trip.wait();
        let pending = all.queue.get_mut(index)?;
        if pending.is_complete() {
            return None;
        }
        let range = pending.repeat(now);
        let due = pending.due(wait, most);
        all.wake(due);
        Some(range)
    }

    /// Repeated requests that have waited for too long are lost. No wait is longer than `most`.
    pub(super) fn on_time(&mut self, now: Time, most: Option<u64>) {
        let Some(all) = self.0.as_mut().filter(|all| all.timer.has_passed(now)) else {
            return;
        };
        let wait = all.round_trip.wait();
        all.timer = Moment::NONE;
        for index in 0..all.queue.len() {
            let Some(pending) = all.queue.get_mut(index) else {
                return;
            };
            match pending.due(wait, most) {
                Some(due) if due <= now => {
                    pending.lost = true;
                    all.any_lost = true;
                }
                later => all.wake(later),
            }
        }
    }
}

impl Outstanding {
    /// How many end before a PSN; `None` if it comes before all of them.
    fn passed_by(&self, psn: Psn) -> Option<usize> {
        let first = self.queue.front()?.start;
        let distance = psn.since(first);
        let passed = |pending: &Pending| pending.end().since(first) <= distance;
        (!psn.before(first)).then(|| self.queue.partition_point(passed))
    }

    /// Those before the one at `index` were passed. Returns the packets that are lost now, and were
    /// not.
    fn judge_up_to(&mut self, index: usize) -> Lost {
        let mut lost = Lost::default();
        for (at, pending) in self.queue.iter_mut().enumerate().take(index + 1) {
            pending.passed |= at < index;
            let known = pending.lost;
            if pending.judge() && !known {
                let gap = pending.gap();
                lost.add_run(pending.start.plus(gap.start), gap.end - gap.start);
            }
        }
        self.any_lost |= lost.first.is_some();
        lost
    }

    fn wake(&mut self, due: Option<Time>) {
        if let Some(due) = due
            && self.timer.get().is_none_or(|timer| due < timer)
        {
            self.timer = Moment::at(due);
        }
    }
}
