//! How long the peer takes to answer.

use std::collections::VecDeque;

use crate::psn::Psn;
use crate::timer::Time;

/// An answer is not waited for shorter than this, in nanoseconds: a peer has to be scheduled.
const LEAST_WAIT: u64 = 2_000_000;
/// Before anything was measured, in nanoseconds.
const FIRST_WAIT: u64 = 10_000_000;
/// Packets that are timed at once.
const TIMED: usize = 16;

/// The round trip by RFC 6298, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    smooth: u32,
    deviation: u32,
}

impl RoundTrip {
    pub(super) fn measured(&mut self, nanos: u64) {
        let sample = u32::try_from(nanos).unwrap_or(u32::MAX).max(1);
        if self.smooth == 0 {
            self.smooth = sample;
            self.deviation = sample / 2;
            return;
        }
        let off = self.smooth.abs_diff(sample);
        self.deviation = self.deviation - self.deviation / 4 + off / 4;
        self.smooth = self.smooth - self.smooth / 8 + sample / 8;
    }

    /// How long an answer may take, as measured; 0 before anything was.
    pub(super) fn longest(self) -> u64 {
        u64::from(self.smooth) + 4 * u64::from(self.deviation)
    }

    /// How long an answer is waited for.
    pub(super) fn wait(self) -> u64 {
        if self.smooth == 0 {
            return FIRST_WAIT;
        }
        self.longest().max(LEAST_WAIT)
    }
}

/// Packets that asked for an acknowledgement, and when they left, oldest first. One that is sent
/// again is timed no longer (Karn): the answer may be to either.
#[derive(Debug, Default)]
pub(super) struct Timed(VecDeque<(Psn, Time)>);

impl Timed {
    /// A packet leaves for the first time.
    pub(super) fn leaves(&mut self, psn: Psn, now: Time) {
        if self.0.len() < TIMED {
            self.0.push_back((psn, now));
        }
    }

    /// Some of so many packets were sent again, or all.
    pub(super) fn forget(&mut self, first: Psn, packets: u32) {
        self.0.retain(|(psn, _)| !psn.within(first, packets));
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// So many packets have arrived. Reports how long those of them took that are timed. Those
    /// before them that have not arrived will be sent again, and are timed no longer.
    pub(super) fn arrive(
        &mut self,
        now: Time,
        first: Psn,
        packets: u32,
        mut measured: impl FnMut(u64),
    ) {
        self.0.retain(|(psn, left)| {
            let arrived = psn.within(first, packets);
            if arrived {
                measured(now.nanos().saturating_sub(left.nanos()));
            }
            !psn.before(first.plus(packets))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_follows_the_measured_time() {
        let mut trip = RoundTrip::default();
        assert_eq!((trip.wait(), trip.longest()), (FIRST_WAIT, 0));
        for _ in 0..100 {
            trip.measured(40_000_000);
        }
        assert!((40_000_000..41_000_000).contains(&trip.wait()));
        for _ in 0..100 {
            trip.measured(50_000);
        }
        assert_eq!(trip.wait(), LEAST_WAIT);
        assert!((50_000..51_000).contains(&trip.longest()));
        trip.measured(u64::MAX);
        assert!(trip.wait() > 1_000_000_000);
    }

    #[test]
    fn retransmissions_are_not_measured() {
        let (mut timed, mut trip) = (Timed::default(), RoundTrip::default());
        let start = Psn::new(0x00ff_fff0);
        for at in 0..40 {
            timed.leaves(start.plus(at), Time::default());
        }
        assert_eq!(timed.0.len(), TIMED);
        timed.forget(start.plus(2), 3);
        let now = Time::from_nanos(5_000_000);
        timed.arrive(now, start.plus(2), 3, |nanos| trip.measured(nanos));
        assert_eq!(trip.wait(), FIRST_WAIT);
        timed.arrive(now, start, 8, |nanos| trip.measured(nanos));
        assert_eq!(timed.0.len(), TIMED - 8);
        assert!(trip.wait() > 5_000_000);
        timed.arrive(now, start.plus(14), 1, |_| ());
        assert_eq!(timed.0.len(), 1, "those before it are missing");
    }
}
