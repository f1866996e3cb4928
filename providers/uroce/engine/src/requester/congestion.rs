//! The congestion window: the number of packets that may be in flight to the peer, or from it.
//!
//! *Without reports.* A peer that does not report missing packets loses all packets behind a lost
//! one. Its window is at most [`BYTES`], grows by one packet in a round trip, and is halved by a
//! loss. All that follows is about peers that report.
//!
//! *Near.* While the fastest packet takes less than [`NEAR`], or none was measured, the window is
//! at most [`BYTES`] and follows losses alone. The delay of such a path is the time until a process
//! is scheduled, which is no sign of a queue.
//!
//! *Far.* On other paths the window follows the delay, as in Vegas and FAST TCP: a path that is
//! filled has a queue, and a packet that waits in it arrives later than the fastest one did. The
//! window is computed once in a round trip, and changes only if it has held back a packet.
//! - A packet may wait for a quarter of the path, and at least for twice the path or [`SLACK`],
//!   whichever is less. A window leaves in bursts, whose packets wait for each other. Timers and
//!   schedulers delay whole rounds by a millisecond or more. A lower limit takes both for a queue,
//!   and uses a part of the path only.
//! - At the beginning the window doubles, until the fastest packet of a round waits for a quarter
//!   of that, or of the path: the next round would fill the queue.
//! - From then on it goes half the way to the size at which [`QUEUED`] packets of this connection
//!   wait beyond the limit, or grows by an eighth while packets wait for less than half of it. From
//!   nine tenths of the size at which the path last lost packets on, it grows by a hundredth only,
//!   because a queue may be shorter than the limit. Connections that share a path have equal queues
//!   there, and so equal shares.
//! - The fastest packet is remembered for 2 to 4 seconds. Every 2 seconds the window is a quarter
//!   for one round, so that the queue runs empty and the delay of the path alone is measured. All
//!   connections of a host do so at the same time, since one alone leaves the queue to others. A
//!   near path that seems to become far is measured in the same way, with [`MIN`] packets in
//!   flight: its delay may be that of a receiver that is slower than its sender.
//!
//! *Late ends.* A process that waits for the processor takes in all that has arrived meanwhile at
//! one time, after milliseconds. The rules above take that for a queue, or for a near path. But in
//! a queue something is left when an acknowledgement arrives. If all that was in flight has arrived
//! before something that was held back could leave, and that took [`NEAR`] or longer, the path was
//! empty meanwhile. Each time, the window becomes larger by a quarter, on paths of any length, by
//! packets that are counted apart: the rules above apply to the sum, and do not take these away.
//! Losses do, and every 2 seconds without such a time take away half.
//!
//! A model that grows until packets are lost (CUBIC) does not fit. On a network that loses packets
//! for other reasons than congestion it uses a small part of the path.
//!
//! *Loss.* Where the peer reports missing packets, loss makes the window smaller (by 0.7) if more
//! than 1 of 32 packets is lost, and at least [`FEW`] of the last two windows. Otherwise, and with
//! congestion notifications, it is halved. Both happen once for the packets in flight at that time.
//! A peer without receive requests (RNR) says nothing about the path. Nor does a loss before the
//! end of the first round: the program's timeout may be shorter than a long path, and the first
//! burst longer than the receiver's socket. The window becomes smaller by that, but still doubles.
//!
//! *Bounds.* A peer that reports missing packets may get as many packets as it keeps behind a
//! missing one, at most [`MOST_BYTES`], and on a near path [`BYTES`] and [`PACKETS`]; others lose
//! all packets behind a lost one, and get fewer. Messages of fewer than [`LONG`] packets have at
//! most [`OF_SHORT`] in flight on a near path, so that requests that waited for one acknowledgement
//! are sent together, unless the host has short requests wait for others ([`super::batching`]). On
//! a near path reads and atomics may request four times as many response packets, up to 256: the
//! side that requested them is there to take them.
//!
//! No other file limits the number of packets in flight, but for the [`MOST_PACKETS`] that a peer
//! keeps behind a missing one.

use crate::psn::Psn;
use crate::responder::MOST_PACKETS;
use crate::timer::{Moment, Time};

const MIN: u32 = 4;
const START: u32 = 128;
/// The least on a far path, until it is filled for the first time.
const LEAST_FAR: u32 = 64;
/// A path on which no packet is faster is far, in nanoseconds.
const NEAR: u32 = 500_000;
/// Maximum bytes in flight on a near path: those that fit a receiver's socket by Linux's default
/// limits (a `net.core.rmem_max` of 208 KiB is doubled, and part of it counts overhead of packets).
/// If the receiver is the slower side, all of the window waits there.
const BYTES: u32 = 384 << 10;
/// And at most so many packets. Where the receiver's kernel does not join them, each one takes more
/// room in that socket, and they may overflow it: see [`Window::on_loss`].
const PACKETS: u32 = 384;
/// Maximum bytes in flight on a far path.
const MOST_BYTES: u32 = 16 << 20;
/// Messages of fewer packets than this are short, and at most so many of their packets are in
/// flight: short messages that wait for an acknowledgement are then sent together, which costs less
/// than one after the other.
const LONG: u32 = 4;
const OF_SHORT: u32 = 64;
/// Response packets for each request packet of the window of a near path, and at most.
const RESPONSES: u32 = 4;
const OF_RESPONSES: u32 = super::responses::MOST_PACKETS;
/// A long read is asked for by so many requests at a time.
const REQUESTS: u32 = 4;
/// The same on a far path, where each request repeats one gap in a round trip.
const REQUESTS_FAR: u32 = 16;
/// Packets of a connection that wait in queues of the path, and one more for so many nanoseconds
/// of the path: shares become equal in a number of round trips that is as small on a long path.
const QUEUED: u32 = 16;
const QUEUED_EVERY: u32 = 500_000;
/// Packets whose loss does not count, of a few hundred.
const FEW: u32 = 8;
/// One of so many packets may be lost.
const SHARE: u32 = 32;
/// Loss is counted over so many packets, and twice as many.
const COUNTED: u32 = 256;
/// The part of the path that a packet may wait on it. A window leaves in bursts, which wait for
/// themselves although the path has room.
const BURST: u32 = 4;
/// How long a packet may wait on a path of half of that or more, in nanoseconds: timers and
/// schedulers, and the bursts that they cause, delay packets that much where there is no queue.
const SLACK: u32 = 4_000_000;
/// Rounds in which the window is smaller to let the queue run empty.
const DRAINING: u8 = 2;
/// How long the fastest packet is remembered at least, in nanoseconds.
const MEMORY: u64 = 2_000_000_000;

/// The window, in packets. Times are nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    size: u32,
    /// The peer reports missing packets.
    reports: bool,
    /// The most on a near path after an overflow, and to a peer that does not report.
    safe_near: u32,
    /// The most on a near path otherwise.
    most_near: u32,
    /// A near path has overflowed in this period.
    overflows: bool,
    /// The most on a far path.
    most: u32,
    /// It doubles each round.
    doubling: bool,
    /// The size at which the path last lost packets, because a queue was full.
    overflowed: u32,
    /// Rounds in which it is a part of its size: a quarter in the first, half in the second. It
    /// does not come back at once, because all of it would leave in one burst.
    draining: u8,
    /// It has held something back in this round.
    limited: bool,
    /// Packets more than that, because an end is late.
    ahead: u32,
    /// `ahead` has become larger in this period.
    was_late: bool,
    /// Since when it holds something back, while nothing leaves.
    held: Moment,
    /// The round ends when this is acknowledged.
    round: Psn,
    /// The fastest packet of the round; `u32::MAX` for none.
    fastest: u32,
    /// The fastest of this period and of the one before.
    periods: [u32; 2],
    /// The queue ran empty in this period.
    drained: bool,
    period_ends: Option<Time>,
    delivered: u32,
    lost: u32,
}

impl Window {
    /// At most so many packets to a peer that does not report missing ones, of so many bytes of
    /// payload. `una` is the first PSN that is not acknowledged.
    pub(super) fn new(max: u32, payload: u32, una: Psn) -> Self {
        let safe_near = max.min(BYTES / payload.max(1)).max(MIN);
        Self {
            size: START.min(safe_near),
            reports: false,
            safe_near,
            most_near: safe_near,
            overflows: false,
            most: safe_near,
            doubling: true,
            overflowed: u32::MAX,
            draining: 0,
            limited: false,
            ahead: 0,
            was_late: false,
            held: Moment::NONE,
            round: una,
            fastest: u32::MAX,
            periods: [u32::MAX; 2],
            drained: true,
            period_ends: None,
            delivered: 0,
            lost: 0,
        }
    }

    /// The peer reports missing packets.
    pub(super) fn open(&mut self, payload: u32) {
        let near = (BYTES / payload.max(1)).min(PACKETS);
        self.most_near = near.max(self.safe_near);
        let most = (MOST_BYTES / payload.max(1)).min(MOST_PACKETS);
        self.most = most.max(self.most_near);
        self.reports = true;
    }

    pub(super) fn is_far(&self) -> bool {
        self.reports && (NEAR..u32::MAX).contains(&self.path())
    }

    pub(super) fn size(&self) -> u32 {
        match (self.is_far(), self.draining) {
            (true, 0) => self.all(),
            (true, 1) => (self.all() / 2).max(MIN),
            (true, _) => (self.all() / 4).max(MIN),
            (false, 0) => self.all(),
            (false, _) => MIN,
        }
    }

    /// The most on a near path now.
    fn near(&self) -> u32 {
        if self.overflows {
            self.safe_near
        } else {
            self.most_near
        }
    }

    /// The size, and the packets more for an end that is late.
    fn all(&self) -> u32 {
        let most = if self.is_far() {
            self.most
        } else {
            self.near()
        };
        (self.size.min(most) + self.ahead).min(self.most)
    }

    /// How many may be in flight before the next one of a message of so many.
    pub(super) fn before(&self, packets: u32) -> u32 {
        let size = self.size();
        if packets < LONG && !self.is_far() {
            return size.min(OF_SHORT);
        }
        size
    }

    /// How many response packets may be requested.
    pub(super) fn responses(&self) -> u32 {
        let size = self.size();
        if self.is_far() {
            return size;
        }
        let near = size.min(self.near()).saturating_mul(RESPONSES);
        near.min(OF_RESPONSES).max(size)
    }

    /// For how many response packets one request asks, of `max_rd_atomic` that may be in flight: so
    /// few that one can be answered while the next ones are on their way, and the window is used
    /// up.
    pub(super) fn request(&self, max_rd_atomic: u8) -> u32 {
        let most = if self.is_far() {
            REQUESTS_FAR
        } else {
            REQUESTS
        };
        let requests = u32::from(max_rd_atomic).clamp(1, most);
        (self.responses() / requests).clamp(MIN, OF_RESPONSES)
    }

    /// A packet waits because the window is full.
    pub(super) fn limits(&mut self, now: Time) {
        self.limited = true;
        if !self.held.is_some() {
            self.held = Moment::at(now);
        }
    }

    /// A packet leaves.
    pub(super) fn leaves(&mut self) {
        self.held = Moment::NONE;
    }

    /// All that was in flight has arrived. If something has waited for that for long, an end is
    /// late, and the path was empty meanwhile.
    pub(super) fn on_empty(&mut self, now: Time) {
        let Some(held) = std::mem::take(&mut self.held).get() else {
            return;
        };
        let waited = now.nanos().saturating_sub(held.nanos());
        if !self.reports || self.draining > 0 || waited < u64::from(NEAR) {
            return;
        }
        let all = self.all();
        let more = if self.has_room() { all / 4 } else { all / 64 };
        self.ahead = (self.ahead + more + 1).min(self.most);
        self.was_late = true;
    }

    /// A packet was answered so long after it left.
    pub(super) fn sample(&mut self, nanos: u64) {
        let nanos = u32::try_from(nanos).unwrap_or(u32::MAX).max(1);
        self.fastest = self.fastest.min(nanos);
    }

    /// So many packets have arrived. `una` is the first PSN that is not acknowledged, `furthest`
    /// the first that was not sent.
    pub(super) fn on_progress(&mut self, packets: u32, now: Time, una: Psn, furthest: Psn) {
        self.delivered = self.delivered.saturating_add(packets);
        if una.before(self.round) {
            return;
        }
        if self.limited {
            self.adjust();
        }
        if self.delivered > 2 * COUNTED {
            self.delivered /= 2;
            self.lost /= 2;
        }
        self.remember(now);
        self.round = furthest;
        self.limited = false;
        self.fastest = u32::MAX;
    }

    /// The fastest packet of all that are remembered.
    fn path(&self) -> u32 {
        self.periods[0].min(self.periods[1]).min(self.fastest)
    }

    fn remember(&mut self, now: Time) {
        self.draining = self.draining.saturating_sub(1);
        self.periods[0] = self.periods[0].min(self.fastest);
        let next = Time::from_nanos((now.nanos() / MEMORY + 1) * MEMORY);
        let ends = *self.period_ends.get_or_insert(next);
        if now < ends {
            return;
        }
        self.period_ends = Some(next);
        let [latest, before] = self.periods;
        let known = self.drained || latest < NEAR / 2;
        let path = if known { latest } else { latest.min(before) };
        self.periods = [u32::MAX, path];
        self.drained = self.reports && latest >= NEAR / 2;
        self.draining = if self.drained { DRAINING } else { 0 };
        if !std::mem::take(&mut self.was_late) {
            self.ahead /= 2;
        }
        self.overflows = false;
    }

    /// The size for the next round.
    fn adjust(&mut self) {
        if !self.is_far() {
            let more = if self.reports { self.size / 8 } else { 0 };
            self.size = (self.size + more + 1).min(self.near());
            return;
        }
        if self.fastest == u32::MAX || self.draining > 0 {
            return;
        }
        let path = self.path();
        let may_wait = may_wait(path);
        let allowed = path.saturating_add(may_wait);
        let early = (may_wait / 4).max(path / BURST);
        self.doubling &= self.fastest - path <= early;
        let all = self.all();
        let size = if self.doubling {
            self.size.saturating_mul(2)
        } else {
            let slower = u64::from(self.fastest.max(allowed));
            let filled = u64::from(all) * u64::from(allowed) / slower;
            let filled = u32::try_from(filled).unwrap_or(u32::MAX);
            // The path is not filled: packets were lost, or other connections have ended.
            let unfilled = self.fastest - path <= may_wait / 2;
            let queued = QUEUED + path / QUEUED_EVERY;
            let more = match (unfilled, self.has_room()) {
                (true, true) => queued.max(all / 4),
                (true, false) => 2 + all / 64,
                (false, _) => queued,
            };
            all.midpoint(filled.saturating_add(more))
                .saturating_sub(self.ahead)
        };
        let least = if self.doubling { LEAST_FAR } else { MIN };
        self.size = size.clamp(least.min(self.near()), self.most);
    }

    /// Whether the size is well below the one that the path did not carry. Beyond that size the
    /// path has become wider.
    fn has_room(&mut self) -> bool {
        let all = self.all();
        if all > self.overflowed.saturating_add(self.overflowed / 8) {
            self.overflowed = u32::MAX;
        }
        all < self.overflowed - self.overflowed / 10
    }

    /// So many packets are lost, by reports of the peer.
    pub(super) fn on_reported(&mut self, packets: u32) {
        self.lost = self.lost.saturating_add(packets);
    }

    /// Whether so many reported packets are lost that the path must be full.
    pub(super) fn loses_many(&self) -> bool {
        let all = self.delivered.saturating_add(self.lost);
        self.lost > FEW && self.lost.saturating_mul(SHARE) > all
    }

    /// A switch on the way reports a long queue: the path is full, in the first round too.
    pub(super) fn on_congestion(&mut self) {
        self.on_loss(false);
        self.doubling = false;
    }

    /// The path does not carry the packets in flight. The loss is known in time, or all was lost.
    ///
    /// A near path then gets no more than a peer that does not report losses, until the period
    /// ends: the receiver's socket has overflowed.
    pub(super) fn on_loss(&mut self, in_time: bool) {
        self.overflows = true;
        let is_first = self.periods == [u32::MAX; 2];
        if in_time && !is_first {
            self.overflowed = self.all();
        }
        let part = |size: u32| {
            if in_time {
                size - size / 10 * 3
            } else {
                size / 2
            }
        };
        self.ahead = part(self.ahead);
        self.size = part(self.size).max(MIN);
        self.doubling &= is_first;
        self.delivered = 0;
        self.lost = 0;
    }
}

/// How long a packet may wait on a path of so many nanoseconds.
fn may_wait(path: u32) -> u32 {
    let noise = path.saturating_mul(2).min(SLACK);
    noise.max(path / BURST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    /// A window of a connection whose packets are `payload` long, and the state of its path.
    struct Path {
        window: Window,
        now: Time,
        psn: Psn,
    }

    impl Path {
        fn new(payload: u32) -> Self {
            let psn = Psn::new(0x00c0_0000);
            let mut window = Window::new(128, payload, psn);
            window.open(payload);
            Self {
                window,
                now: Time::default(),
                psn,
            }
        }

        /// A round in which the window is used up, and the fastest packet takes so long.
        fn round(&mut self, nanos: u64) {
            let size = self.window.size();
            self.now = self.now.plus(nanos);
            self.psn = self.psn.plus(size);
            self.window.limits(self.now);
            self.window.sample(nanos);
            let furthest = self.psn.plus(size);
            self.window.on_progress(size, self.now, self.psn, furthest);
        }

        /// So many rounds on a path that carries `rate` packets in a millisecond, with a round trip
        /// of so many milliseconds and an endless queue.
        fn rounds(&mut self, count: u32, rate: u64, trip: u64) {
            for _ in 0..count {
                let carries = u64::from(self.window.size()) * MILLISECOND / rate;
                self.round(carries.max(trip * MILLISECOND));
            }
        }
    }

    #[test]
    fn a_near_path_ends_at_its_bytes() {
        let requests_of = |packets: u32| [256, 256, packets.max(256) / 2, packets.max(256) / 4];
        for (payload, packets) in [(256, 384), (1024, 384), (2048, 192), (4096, 96)] {
            let mut path = Path::new(payload);
            for _ in 0..100 {
                path.round(20_000);
            }
            let window = path.window;
            assert_eq!(window.size(), packets);
            let before = [LONG, LONG - 1].map(|length| window.before(length));
            assert_eq!(before, [packets, OF_SHORT]);
            assert_eq!(window.responses(), packets.max(256));
            let requests = [0, 1, 2, 4].map(|reads| window.request(reads));
            assert_eq!(requests, requests_of(packets));
            assert_eq!(window.request(128), window.request(4));
        }
    }

    #[test]
    fn losses_halve_and_progress_restores() {
        let mut path = Path::new(1024);
        path.round(20_000);
        path.window.on_loss(false);
        assert_eq!(path.window.size(), 72);
        for _ in 0..2 {
            path.round(20_000);
        }
        assert_eq!(path.window.size(), 82);
        path.window.on_loss(true);
        assert_eq!(path.window.size(), 58);
        for _ in 0..20 {
            path.window.on_loss(false);
        }
        assert_eq!((path.window.size(), path.window.before(1)), (MIN, MIN));
        assert_eq!((path.window.responses(), path.window.request(4)), (16, MIN));
    }

    #[test]
    fn a_near_path_that_overflows_gets_less_for_a_while() {
        let mut path = Path::new(1024);
        let rounds = |path: &mut Path| {
            for _ in 0..100 {
                path.round(20_000);
            }
            path.window.size()
        };
        assert_eq!(rounds(&mut path), PACKETS);
        path.window.on_loss(true);
        assert_eq!(rounds(&mut path), START);
        path.now = path.now.plus(MEMORY);
        assert_eq!(rounds(&mut path), PACKETS);
    }

    #[test]
    fn a_loss_in_the_first_round_ends_no_doubling() {
        for in_time in [true, false] {
            let mut path = Path::new(1024);
            path.window.sample(10 * MILLISECOND);
            path.window.on_loss(in_time);
            let first = path.window.size;
            path.rounds(3, 400, 10);
            assert_eq!(path.window.size, 8 * first);
            path.window.on_loss(in_time);
            let second = path.window.size;
            path.rounds(1, 400, 10);
            assert!(path.window.size < 2 * second, "{}", path.window.size);
        }
    }

    #[test]
    fn a_congestion_notification_ends_it() {
        let mut path = Path::new(1024);
        path.window.sample(10 * MILLISECOND);
        path.window.on_congestion();
        let first = path.window.size;
        path.rounds(1, 400, 10);
        assert!(path.window.size < 2 * first, "{}", path.window.size);
    }

    #[test]
    fn few_losses_are_not_the_paths_fault() {
        let mut path = Path::new(1024);
        path.window.on_reported(FEW);
        assert!(!path.window.loses_many());
        path.round(20_000);
        path.window.on_reported(1);
        assert!(path.window.loses_many());
        path.window.on_loss(true);
        assert!(!path.window.loses_many());
    }

    #[test]
    fn a_far_path_is_filled_and_its_queue_is_short() {
        for (rate, trip) in [(400, 2), (100, 10), (40, 40), (1000, 1)] {
            let mut path = Path::new(1024);
            path.rounds(40, rate, trip);
            let carries = u32::try_from(rate * trip).expect("few packets");
            let size = path.window.size;
            let trip = u32::try_from(trip * MILLISECOND).expect("a short time");
            let waiting = u64::from(may_wait(trip)) * rate / MILLISECOND;
            let most = carries + u32::try_from(waiting).expect("few packets") + 200;
            assert!(
                (carries..=most).contains(&size),
                "{size}, the path holds {carries}"
            );
        }
    }

    #[test]
    fn a_packet_may_wait_longer_on_a_longer_path() {
        let half = 500_000;
        let waits = [half, 2 * half, 4 * half, 32 * half, 80 * half].map(may_wait);
        assert_eq!(waits, [2 * half, 4 * half, SLACK, SLACK, 20 * half]);
        assert_eq!(may_wait(u32::MAX), u32::MAX / BURST);
    }

    /// Timers and schedulers make whole rounds late, by up to 4 ms.
    #[test]
    fn late_rounds_are_no_queue() {
        let mut path = Path::new(1024);
        path.round(2 * MILLISECOND);
        for number in 0..100 {
            path.round((2 + number * 7 % 5) * MILLISECOND);
        }
        assert!(path.window.size >= 4000, "{:?}", path.window);
    }

    /// Packets are a little late all the time, and the path has room.
    #[test]
    fn a_window_that_lost_packets_grows_back_in_a_few_rounds() {
        let mut path = Path::new(1024);
        path.round(10 * MILLISECOND);
        path.window.size = 2000;
        path.window.on_loss(true);
        assert_eq!(path.window.size, 1400);
        for _ in 0..4 {
            path.round(11 * MILLISECOND);
        }
        assert!(path.window.size >= 2000, "{:?}", path.window);
    }

    #[test]
    fn the_queue_runs_empty_every_two_seconds() {
        let mut path = Path::new(1024);
        path.rounds(40, 100, 20);
        let begun = path.now;
        let mut drained = 0;
        while path.now < begun.plus(10_000 * MILLISECOND) {
            let before = path.window.draining == DRAINING;
            path.rounds(1, 100, 20);
            drained += u32::from(path.window.draining == DRAINING && !before);
        }
        assert!((4..=5).contains(&drained), "{drained}");
        assert!(path.window.size >= 2000);
    }

    #[test]
    fn a_window_that_was_empty_for_long_becomes_larger() {
        let mut path = Path::new(1024);
        let ms = |number| Time::from_nanos(number * MILLISECOND);
        let mut empty = |held: Option<u64>, at: u64| {
            if let Some(held) = held {
                path.window.limits(ms(held));
            }
            path.window.on_empty(ms(at));
            path.window.size()
        };
        assert_eq!(empty(None, 9), START, "nothing waited");
        assert_eq!(empty(Some(9), 9), START, "it did not wait for long");
        assert_eq!(empty(Some(10), 12), 161);
        assert_eq!(empty(None, 14), 161, "once");
        assert_eq!(empty(Some(14), 16), 202);
        path.window.on_loss(true);
        assert_eq!(path.window.size(), 145);
        assert!((0..100).all(|_| {
            let before = path.window.size();
            path.window.limits(ms(20));
            path.window.on_empty(ms(30));
            path.window.size() > before || before == path.window.most
        }));
    }

    #[test]
    fn a_window_whose_ends_are_late_no_more_becomes_smaller() {
        let mut path = Path::new(1024);
        path.round(20_000);
        for _ in 0..8 {
            path.window.limits(path.now);
            path.now = path.now.plus(MILLISECOND);
            path.window.on_empty(path.now);
        }
        assert!(path.window.size() > 6 * START, "{:?}", path.window);
        while path.now < Time::from_nanos(20 * MEMORY) {
            path.round(40_000);
        }
        assert_eq!(path.window.size(), PACKETS);
    }

    #[test]
    fn a_window_that_holds_nothing_back_stays() {
        let mut path = Path::new(1024);
        path.rounds(40, 100, 10);
        let before = path.window.size;
        let (now, psn) = (path.now.plus(10 * MILLISECOND), path.psn.plus(9000));
        path.window.sample(10 * MILLISECOND);
        path.window.on_progress(10, now, psn, psn);
        assert_eq!(path.window.size, before);
    }

    #[test]
    fn a_peer_without_reports_gets_few_packets() {
        let mut path = Path::new(4096);
        path.window = Window::new(128, 4096, path.psn);
        path.rounds(40, 1000, 10);
        assert_eq!(path.window.size, 96);
        assert_eq!(path.window.responses(), 256);
        path.window.on_loss(false);
        path.round(20_000);
        path.round(20_000);
        assert_eq!(path.window.size, 49);
    }

    /// The receiver takes so many packets in a millisecond, behind a path of 20 µs.
    #[test]
    fn a_slow_receiver_makes_no_path_far() {
        let mut path = Path::new(4096);
        // Nothing waits before the first packet.
        path.round(20_000);
        for _ in 0..3000 {
            let size = u64::from(path.window.size());
            path.round(20_000 + size * MILLISECOND / 12);
            assert!(path.window.size() <= 96, "{}", path.window.size());
        }
        assert!(!path.window.is_far());
    }

    #[test]
    fn a_path_that_becomes_long_is_far() {
        let mut path = Path::new(4096);
        path.round(20_000);
        path.rounds(600, 400, 20);
        assert!(
            path.window.is_far() && path.window.size >= 4000,
            "{:?}",
            path.window
        );
    }
}
