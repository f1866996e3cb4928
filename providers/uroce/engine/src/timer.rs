//! Time as the engine sees it, and the specification's encodings of it. There is no clock here: the
//! caller of the engine passes the time.

use std::num::NonZeroU64;

/// A moment, in nanoseconds since an origin of the caller's choice that never moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(u64);

impl Time {
    /// The moment `nanoseconds` after the origin.
    #[must_use]
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// `nanoseconds` later; the end of time at most.
    #[must_use]
    pub const fn plus(self, nanoseconds: u64) -> Self {
        Self(self.0.saturating_add(nanoseconds))
    }

    /// The earliest of some moments. The end of time is none.
    ///
    /// Each absent moment is a number before it is compared: the compiler makes a minimum of
    /// options compare values that are absent, which memcheck reports.
    #[must_use]
    pub fn earliest<const N: usize>(moments: [Option<Self>; N]) -> Option<Self> {
        let nanos = moments.map(|moment| moment.map_or(u64::MAX, Self::nanos));
        let least = nanos.into_iter().fold(u64::MAX, u64::min);
        (least != u64::MAX).then_some(Self(least))
    }
}

/// A moment or none, in 8 bytes: there are many queue pairs. The origin is taken for 1 ns later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment(Option<NonZeroU64>);

impl Moment {
    /// None.
    pub const NONE: Self = Self(None);

    pub fn at(time: Time) -> Self {
        Self(NonZeroU64::new(time.nanos().max(1)))
    }

    pub fn get(self) -> Option<Time> {
        self.0.map(|nanos| Time::from_nanos(nanos.get()))
    }

    pub fn is_some(self) -> bool {
        self.0.is_some()
    }

    /// Whether there is one, and it has come.
    pub fn has_passed(self, now: Time) -> bool {
        self.get().is_some_and(|moment| moment <= now)
    }
}

/// Local ACK timeout: 4.096 us * 2^code (IBTA volume 1, 9.9.2.4.2); code 0 waits for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AckTimeout(u8);

impl AckTimeout {
    /// The timeout of a code of 5 bits; `None` beyond 31.
    #[must_use]
    pub const fn new(code: u8) -> Option<Self> {
        if code < 32 { Some(Self(code)) } else { None }
    }

    /// The code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The time in nanoseconds; `None` for "for ever".
    #[must_use]
    pub const fn nanos(self) -> Option<u64> {
        if self.0 == 0 {
            None
        } else {
            Some(4096 << self.0)
        }
    }
}

/// RNR NAK timer field (IBTA volume 1, table 46).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RnrTimer(u8);

/// In units of 10 us, by code.
const RNR: [u64; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

impl RnrTimer {
    /// The timer of a code of 5 bits; `None` beyond 31.
    #[must_use]
    pub const fn new(code: u8) -> Option<Self> {
        if code < 32 { Some(Self(code)) } else { None }
    }

    /// The code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The time in nanoseconds: 0.01 ms (code 1) to 655.36 ms (code 0).
    #[must_use]
    pub fn nanos(self) -> u64 {
        RNR.get(usize::from(self.0)).copied().unwrap_or(RNR[0]) * 10_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_moment() {
        let at = |nanos| Some(Time::from_nanos(nanos));
        assert_eq!(Time::earliest([None, at(7), at(3), None]), at(3));
        assert_eq!(Time::earliest([at(0), None]), at(0));
        assert_eq!(Time::earliest([None, at(u64::MAX)]), None);
        assert_eq!(Time::earliest([]), None);
    }

    #[test]
    fn ack_timeouts() {
        let nanos = |code| AckTimeout::new(code).and_then(AckTimeout::nanos);
        assert_eq!(nanos(0), None);
        assert_eq!(nanos(1), Some(8_192));
        assert_eq!(nanos(14), Some(67_108_864));
        assert_eq!(nanos(31), Some(8_796_093_022_208));
        assert_eq!(AckTimeout::new(32), None);
    }

    #[test]
    fn rnr_timers() {
        let nanos = |code| RnrTimer::new(code).map(RnrTimer::nanos);
        assert_eq!(nanos(0), Some(655_360_000));
        assert_eq!(nanos(1), Some(10_000));
        assert_eq!(nanos(12), Some(640_000));
        assert_eq!(nanos(31), Some(491_520_000));
        assert_eq!(nanos(32), None);
        for code in 2..32 {
            assert!(nanos(code) > nanos(code - 1));
        }
    }

    #[test]
    fn time_does_not_overflow() {
        assert_eq!(Time::from_nanos(u64::MAX).plus(1).nanos(), u64::MAX);
    }
}
