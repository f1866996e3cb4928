//! A report of missing packets: the payload of an acknowledgement between two ends that understand
//! it ([`super::bth::Bth::selective`]).
//!
//! The acknowledgement's PSN is that of the last packet before the first missing one, as in any
//! other. The report counts from there on, in pairs of 16 bits, big-endian: so many packets are
//! missing, and so many behind them have arrived. The state of PSNs behind the
//! last pair is not known.

/// Pairs of a report at most.
pub const MAX_RUNS: usize = 64;
/// Bytes of a pair.
const PAIR: usize = 4;
/// Bytes of a report at most.
pub const MAX_BYTES: usize = PAIR * MAX_RUNS;

/// Packets that are missing, and those behind them that have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Missing, at least 1.
    pub missing: u16,
    /// Arrived behind them, at least 1.
    pub arrived: u16,
}

impl Run {
    /// The bytes.
    #[must_use]
    pub fn emit(self) -> [u8; PAIR] {
        let [a, b] = self.missing.to_be_bytes();
        let [c, d] = self.arrived.to_be_bytes();
        [a, b, c, d]
    }

    fn packets(self) -> u32 {
        u32::from(self.missing) + u32::from(self.arrived)
    }
}

/// A report that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report<'a>(&'a [[u8; PAIR]]);

impl<'a> Report<'a> {
    /// Reads a payload. `None` if it is empty, no whole number of pairs, longer than a report, or
    /// has an empty run.
    #[must_use]
    pub fn parse(payload: &'a [u8]) -> Option<Self> {
        let (pairs, rest) = payload.as_chunks();
        let report = Self(pairs);
        let full = |run: Run| run.missing > 0 && run.arrived > 0;
        let fits = rest.is_empty() && (1..=MAX_RUNS).contains(&pairs.len());
        (fits && report.runs().all(full)).then_some(report)
    }

    /// Its runs, in order.
    pub fn runs(self) -> impl Iterator<Item = Run> {
        self.0.iter().map(|[a, b, c, d]| Run {
            missing: u16::from_be_bytes([*a, *b]),
            arrived: u16::from_be_bytes([*c, *d]),
        })
    }

    /// Packets that it speaks of.
    #[must_use]
    pub fn packets(self) -> u32 {
        self.runs().map(Run::packets).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_written_report_is_read(pairs in proptest::collection::vec((1..=u16::MAX, 1..=u16::MAX), 1..=MAX_RUNS)) {
            let runs = pairs.iter().map(|(missing, arrived)| Run { missing: *missing, arrived: *arrived });
            let bytes: Vec<u8> = runs.clone().flat_map(Run::emit).collect();
            let report = Report::parse(&bytes).expect("well formed");
            prop_assert!(report.runs().eq(runs.clone()));
            prop_assert_eq!(report.packets(), runs.map(Run::packets).sum::<u32>());
            for cut in 1..PAIR {
                prop_assert_eq!(Report::parse(&bytes[cut..]), None);
            }
        }
    }

    #[test]
    fn empty_and_long_ones_are_none() {
        assert_eq!(Report::parse(&[]), None);
        assert_eq!(Report::parse(&[0, 0, 0, 1]), None);
        assert_eq!(Report::parse(&[0, 1, 0, 0]), None);
        assert!(Report::parse(&[1; MAX_BYTES]).is_some());
        assert_eq!(Report::parse(&[1; MAX_BYTES + PAIR]), None);
    }
}
