//! Entry points for fuzzers, as ordinary functions: each takes any bytes, and panics if an
//! invariant does not hold. The tests drive them with seeded bytes; `fuzz/` does with libFuzzer.
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

    /// The inputs: `UROCE_FUZZ_ROUNDS` is their number, for a longer run, and `UROCE_FUZZ_FIRST`
    /// the first one, to continue a run.
    fn seeds() -> std::ops::Range<u64> {
        let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
        let first: u64 = number("UROCE_FUZZ_FIRST").unwrap_or(0);
        let rounds = number("UROCE_FUZZ_ROUNDS").unwrap_or(4000);
        first..first.saturating_add(rounds)
    }

    fn drive(target: fn(&[u8]), length: u64) {
        for seed in seeds() {
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

    /// Inputs that have failed once: acknowledgements that waited in a queue pair which went to
    /// ERR.
    const FAILED_ONCE: &[&[u8]] = &[
        &[201, 0, 0, 147, 0, 0, 0, 0, 173, 0, 0, 0, 0, 0, 123, 0, 236],
        &[
            180, 99, 176, 225, 0, 29, 71, 0, 12, 66, 248, 106, 0, 0, 0, 0, 0, 0, 197, 132, 126,
            139, 8, 234, 12,
        ],
        &[
            241, 0, 0, 0, 0, 0, 0, 0, 221, 38, 0, 161, 0, 0, 0, 0, 0, 0, 9, 161,
        ],
        &[
            205, 63, 194, 0, 0, 0, 0, 0, 4, 0, 162, 0, 0, 0, 0, 131, 251, 87, 229,
        ],
        &[
            172, 0, 0, 177, 0, 0, 0, 0, 99, 0, 0, 0, 0, 0, 0, 77, 187, 245, 0, 204,
        ],
    ];

    #[test]
    fn inputs_that_failed_once() {
        for input in FAILED_ONCE {
            fuzz_ops(input);
        }
    }

    #[test]
    fn no_bytes() {
        fuzz_packet(&[]);
        fuzz_ops(&[]);
    }
}
