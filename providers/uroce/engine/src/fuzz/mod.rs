//! Entry points for fuzzers, as ordinary functions: each takes any bytes, and panics if an invariant
//! does not hold. The tests drive them with seeded bytes; `fuzz/` does with libFuzzer.
#![allow(clippy::panic, reason = "a panic is how a fuzz target reports")]

mod ops;
mod packet;

pub use ops::fuzz_ops;
pub use packet::fuzz_packet;

use crate::work::{Completion, Status};

/// Bytes taken one after another; zeros when there are no more.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u32 {
        u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }
}

/// The send queue's completions are those of the accepted requests: each once, in order, successful
/// up to the first that is not, and flushed after it.
fn assert_in_order(completions: &[Completion], accepted: &[u64]) {
    let sends = completions
        .iter()
        .filter(|completion| !completion.is_receive());
    let ids: Vec<u64> = sends.clone().map(|completion| completion.id).collect();
    assert_eq!(ids, accepted, "each request once, in order");
    let mut failed = false;
    for completion in sends {
        let fits = match completion.status {
            Status::Success => !failed,
            Status::WrFlush => true,
            _ => !failed,
        };
        assert!(fits, "{completion:?}");
        failed |= completion.status != Status::Success;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Random;

    /// How many inputs: `UROCE_FUZZ_ROUNDS` for a longer run.
    fn rounds() -> u64 {
        let wish = std::env::var("UROCE_FUZZ_ROUNDS").ok();
        wish.and_then(|text| text.parse().ok()).unwrap_or(1000)
    }

    fn drive(target: fn(&[u8]), length: u64) {
        for seed in 0..rounds() {
            let mut random = Random::new(seed);
            let bytes: Vec<u8> = (0..random.below(length))
                .map(|_| random.next_u64().to_le_bytes()[0])
                .collect();
            target(&bytes);
        }
    }

    #[test]
    fn packets() {
        drive(fuzz_packet, 2000);
    }

    #[test]
    fn operations() {
        drive(fuzz_ops, 400);
    }

    #[test]
    fn no_bytes() {
        fuzz_packet(&[]);
        fuzz_ops(&[]);
    }
}
