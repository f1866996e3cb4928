//! When the fast path is tried again after a refusal.
//!
//! *Tests.* Here: the penalty grows with each refusal, and ends with a success.

/// The least and the most requests that take the protocol path after a refusal.
const PENALTY: [u32; 2] = [1, 64];

/// How many requests take the protocol path after a refusal.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    /// Requests that are to take the protocol path.
    left: u32,
    penalty: u32,
}

impl Backoff {
    #[inline]
    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    pub fn passed_one(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    pub fn refused(&mut self) {
        let [least, most] = PENALTY;
        self.penalty = (self.penalty * 2).clamp(least, most);
        self.left = self.penalty;
    }

    #[inline]
    pub fn succeeded(&mut self) {
        self.penalty = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests that take the protocol path until the fast path is tried again.
    fn until_over(backoff: &mut Backoff) -> u32 {
        let mut count = 0;
        while !backoff.is_over() {
            backoff.passed_one();
            count += 1;
        }
        count
    }

    #[test]
    fn each_refusal_doubles_the_requests_that_take_the_protocol_path() {
        let mut backoff = Backoff::default();
        assert!(backoff.is_over());
        let counts: Vec<u32> = (0..9)
            .map(|_| {
                backoff.refused();
                until_over(&mut backoff)
            })
            .collect();
        assert_eq!(counts, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        backoff.passed_one();
        assert!(backoff.is_over(), "it does not wrap");
    }

    #[test]
    fn a_success_ends_the_penalty() {
        let mut backoff = Backoff::default();
        backoff.refused();
        backoff.refused();
        until_over(&mut backoff);
        backoff.succeeded();
        backoff.refused();
        assert_eq!(until_over(&mut backoff), 1);
    }
}
