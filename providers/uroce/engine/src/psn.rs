//! 24-bit packet sequence numbers and their arithmetic (IBTA volume 1, 9.7.1). Two numbers are
//! compared within half of the circle: of two that lie 2^23 - 1 or less apart, the one reached by
//! counting up is the later.

use std::fmt;

const MASK: u32 = 0x00ff_ffff;
const HALF: u32 = 0x0080_0000;

/// A packet sequence number; also used for the message sequence numbers, which count alike.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Psn(u32);

impl Psn {
    /// The low 24 bits of `value`.
    #[must_use]
    pub const fn new(value: u32) -> Self {
        Self(value & MASK)
    }

    /// The number, below 2^24.
    #[must_use]
    pub const fn value(self) -> u32 {
        self.0
    }

    /// `count` numbers later.
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count) & MASK)
    }

    /// `count` numbers earlier.
    #[must_use]
    pub const fn minus(self, count: u32) -> Self {
        Self(self.0.wrapping_sub(count) & MASK)
    }

    /// The next number.
    #[must_use]
    pub const fn next(self) -> Self {
        self.plus(1)
    }

    /// The number before.
    #[must_use]
    pub const fn previous(self) -> Self {
        self.minus(1)
    }

    /// How many numbers `self` lies after `origin`, counting up around the circle.
    #[must_use]
    pub const fn since(self, origin: Self) -> u32 {
        self.0.wrapping_sub(origin.0) & MASK
    }

    /// Whether `self` comes before `other` within half of the circle.
    #[must_use]
    pub const fn before(self, other: Self) -> bool {
        self.since(other) >= HALF
    }

    /// Whether `self` is `other` or comes after it within half of the circle.
    #[must_use]
    pub const fn at_or_after(self, other: Self) -> bool {
        !self.before(other)
    }

    /// Whether `self` is one of the `count` numbers from `start` on.
    #[must_use]
    pub const fn within(self, start: Self, count: u32) -> bool {
        self.since(start) < count
    }
}

impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wraps_at_the_end_of_the_circle() {
        assert_eq!(Psn::new(MASK).next(), Psn::new(0));
        assert_eq!(Psn::new(0).previous(), Psn::new(MASK));
        assert!(Psn::new(MASK).before(Psn::new(0)));
        assert!(Psn::new(0).at_or_after(Psn::new(MASK)));
        assert_eq!(Psn::new(5).since(Psn::new(MASK)), 6);
    }

    #[test]
    fn half_of_the_circle_is_the_limit() {
        let base = Psn::new(0x123456);
        assert!(base.before(base.plus(HALF - 1)));
        assert!(!base.before(base));
        assert!(base.plus(HALF).before(base));
    }

    proptest! {
        #[test]
        fn counting_up_and_down_agree(start in 0..=MASK, step in 0..HALF) {
            let origin = Psn::new(start);
            let later = origin.plus(step);
            prop_assert_eq!(later.since(origin), step);
            prop_assert_eq!(later.minus(step), origin);
            prop_assert!(later.at_or_after(origin));
            prop_assert_eq!(origin.before(later), step != 0);
            prop_assert!(origin.within(origin, 1));
            prop_assert_eq!(later.within(origin, step), false);
            prop_assert!(later.within(origin, step + 1));
        }
    }
}
