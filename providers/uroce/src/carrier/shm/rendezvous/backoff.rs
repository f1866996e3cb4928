//! When something is tried again.
#![forbid(unsafe_code)]

/// Doubling intervals, each lengthened by up to a half at random: of many processes that found one
/// socket full, not all try again at the same time.
#[derive(Debug)]
pub(super) struct Backoff {
    first: u64,
    most: u64,
    interval: u64,
}

impl Backoff {
    /// Intervals in nanoseconds, from the first to the longest.
    pub const fn new(first: u64, most: u64) -> Self {
        Self {
            first,
            most,
            interval: first,
        }
    }

    /// The next interval.
    pub fn next(&mut self, random: &mut Random) -> u64 {
        let interval = self.interval;
        self.interval = interval.saturating_mul(2).min(self.most);
        interval + random.below(interval / 2)
    }

    /// The first interval comes next.
    pub fn restart(&mut self) {
        self.interval = self.first;
    }
}

/// Numbers that need not be good random ones (xorshift64).
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.checked_rem(bound).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_double_up_to_the_longest() {
        let mut random = Random::new(7);
        let mut backoff = Backoff::new(100, 1000);
        for least in [100, 200, 400, 800, 1000, 1000] {
            let interval = backoff.next(&mut random);
            assert!(
                (least..=least + least / 2).contains(&interval),
                "{interval}"
            );
        }
        backoff.restart();
        assert!(backoff.next(&mut random) <= 150);
        assert_eq!(random.below(0), 0);
    }
}
