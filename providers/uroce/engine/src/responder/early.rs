//! Requests that came before others that are still to come.
//!
//! An end that understands reports of missing packets ([`crate::wire::Report`]) sends again
//! missing packets alone. So packets behind them are kept here, headers and payload, and
//! carried out in turn: memory changes in the order of the PSNs, and a completion says the same
//! as on a network without loss. Placing bytes at once would save the copy, but a program that
//! waits for the last byte of a write would see it before the others.
//!
//! A queue pair keeps at most [`MOST_PACKETS`] PSNs and [`MOST_BYTES`] of payload, and a process
//! [`MOST_OF_ALL`]. A packet that is not kept counts as missing.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::psn::Psn;
use crate::wire::report::{MAX_BYTES, MAX_RUNS, Run};
use crate::wire::{Headers, Packet};

/// PSNs behind the first missing one that a requester may use, and that a queue pair looks at.
pub(crate) const MOST_PACKETS: u32 = 8192;
/// Bytes of payload that a queue pair keeps.
const MOST_BYTES: usize = 16 << 20;
/// Bytes of payload that all queue pairs of the process keep together.
const MOST_OF_ALL: usize = 64 << 20;

/// Bytes that all queue pairs keep.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// A request that waits for its turn.
#[derive(Debug)]
pub(super) struct Kept {
    headers: Headers,
    payload: Vec<u8>,
}

impl Kept {
    /// The packet that it was.
    pub fn packet(&self) -> Packet<'_> {
        Packet {
            headers: self.headers,
            payload: &self.payload,
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        KEPT.fetch_sub(self.payload.len(), Relaxed);
    }
}

/// The state of a PSN.
#[derive(Debug)]
enum Arrival {
    Missing,
    Kept(Box<Kept>),
    /// One of the responses that a read before it asks for.
    OfRead,
}

/// Requests that wait for others before them. The first place is that of the first missing one.
#[derive(Debug, Default)]
pub(super) struct Early {
    first: Psn,
    places: VecDeque<Arrival>,
    bytes: usize,
    report: Vec<u8>,
}

impl Early {
    /// Keeps a request that takes so many PSNs, and is not the expected one. Returns whether it
    /// was, or is kept already.
    pub fn keep(&mut self, expected: Psn, packet: &Packet<'_>, psns: u32) -> bool {
        self.advance(expected);
        let distance = packet.headers.bth.psn.since(expected);
        let Some(end) = distance
            .checked_add(psns)
            .filter(|end| *end <= MOST_PACKETS)
        else {
            return false;
        };
        let place = |at: u32| usize::try_from(at).unwrap_or(usize::MAX);
        while self.places.len() < place(end) {
            self.places.push_back(Arrival::Missing);
        }
        let range = place(distance)..place(end);
        let mut places = self.places.range_mut(range);
        match places.next() {
            Some(first @ Arrival::Missing) => {
                let Some(kept) = Self::copy(packet, &mut self.bytes) else {
                    self.trim();
                    return false;
                };
                *first = Arrival::Kept(kept);
            }
            Some(_) => return true,
            None => return false,
        }
        for other in places {
            self.bytes -= other.bytes();
            *other = Arrival::OfRead;
        }
        true
    }

    fn copy(packet: &Packet<'_>, bytes: &mut usize) -> Option<Box<Kept>> {
        let length = packet.payload.len();
        if *bytes + length > MOST_BYTES {
            return None;
        }
        if KEPT.fetch_add(length, Relaxed) + length > MOST_OF_ALL {
            KEPT.fetch_sub(length, Relaxed);
            return None;
        }
        *bytes += length;
        Some(Box::new(Kept {
            headers: packet.headers,
            payload: packet.payload.to_vec(),
        }))
    }

    /// No missing places at the end: nothing is known to come behind them.
    fn trim(&mut self) {
        while matches!(self.places.back(), Some(Arrival::Missing)) {
            self.places.pop_back();
        }
    }

    /// Forgets all before the expected PSN.
    fn advance(&mut self, expected: Psn) {
        let passed = expected.since(self.first);
        self.first = expected;
        let passed = usize::try_from(passed).unwrap_or(usize::MAX);
        let gone = passed.min(self.places.len());
        let gone: usize = self.places.drain(..gone).map(|place| place.bytes()).sum();
        self.bytes -= gone;
    }

    /// The request whose turn it is.
    pub fn next(&mut self, expected: Psn) -> Option<Box<Kept>> {
        self.advance(expected);
        let place = self.places.front_mut()?;
        if !matches!(place, Arrival::Kept(_)) {
            return None;
        }
        self.bytes -= place.bytes();
        match std::mem::replace(place, Arrival::Missing) {
            Arrival::Kept(kept) => Some(kept),
            _ => None,
        }
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The missing packets, as bytes; empty if nothing is known to be.
    pub fn report(&mut self, expected: Psn) -> &[u8] {
        self.advance(expected);
        self.report.clear();
        let mut run = Run {
            missing: 0,
            arrived: 0,
        };
        for place in &self.places {
            if !matches!(place, Arrival::Missing) {
                run.arrived += 1;
                continue;
            }
            if run.arrived > 0 {
                self.report.extend(run.emit());
                run = Run {
                    missing: 0,
                    arrived: 0,
                };
                if self.report.len() >= MAX_BYTES {
                    return &self.report;
                }
            }
            run.missing += 1;
        }
        if run.missing > 0 && run.arrived > 0 {
            self.report.extend(run.emit());
        }
        debug_assert!(self.report.len() <= MAX_RUNS * 4);
        &self.report
    }
}

impl Arrival {
    fn bytes(&self) -> usize {
        match self {
            Self::Kept(kept) => kept.payload.len(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Bth, Opcode, Report};

    fn packet(psn: u32, payload: &[u8]) -> Packet<'_> {
        let bth = Bth {
            psn: Psn::new(psn),
            ..Bth::default()
        };
        Packet {
            headers: Headers::new(Opcode::SEND_ONLY, bth),
            payload,
        }
    }

    fn runs(early: &mut Early, expected: u32) -> Vec<(u16, u16)> {
        let report = Report::parse(early.report(Psn::new(expected)));
        let runs = report.into_iter().flat_map(Report::runs);
        runs.map(|run| (run.missing, run.arrived)).collect()
    }

    #[test]
    fn missing_packets_are_reported_and_kept_ones_come_in_order() {
        let start = 0x00ff_fffe;
        let mut early = Early::default();
        assert!(early.report(Psn::new(start)).is_empty());
        // 2 and 3 behind the expected one, then 5; the circle ends in between.
        for (at, byte) in [(3u32, 3u8), (2, 2), (5, 5), (2, 9)] {
            assert!(early.keep(Psn::new(start), &packet(start + at, &[byte]), 1));
        }
        assert_eq!(runs(&mut early, start), [(2, 2), (1, 1)]);
        assert!(early.next(Psn::new(start)).is_none());
        let two = early.next(Psn::new(start + 2)).expect("kept");
        assert_eq!(two.packet().payload, [2], "the first of two");
        let three = early.next(Psn::new(start + 3)).expect("kept");
        assert_eq!(three.packet().payload, [3]);
        assert_eq!(runs(&mut early, start + 4), [(1, 1)]);
        assert!(!early.is_empty());
        assert!(early.next(Psn::new(start + 6)).is_none());
        assert!(early.is_empty(), "5 was passed");
        assert_eq!(early.bytes, 0);
    }

    #[test]
    fn a_read_takes_the_places_of_its_responses() {
        let mut early = Early::default();
        assert!(early.keep(Psn::new(0), &packet(3, &[]), 4));
        assert_eq!(runs(&mut early, 0), [(3, 4)]);
        assert!(early.keep(Psn::new(0), &packet(8, &[]), 1));
        assert_eq!(runs(&mut early, 0), [(3, 4), (1, 1)]);
        assert!(early.next(Psn::new(3)).is_some());
        assert_eq!(runs(&mut early, 7), [(1, 1)]);
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        let mut early = Early::default();
        assert!(!early.keep(Psn::new(0), &packet(MOST_PACKETS, &[]), 1));
        assert!(!early.keep(Psn::new(0), &packet(1, &[]), u32::MAX));
        assert!(early.is_empty());
        let long = vec![0; 1 << 20];
        let kept = (1..40).filter(|at| early.keep(Psn::new(0), &packet(*at, &long), 1));
        assert_eq!(kept.count(), 16);
        assert_eq!(runs(&mut early, 0), [(1, 16)]);
        assert!(early.keep(Psn::new(0), &packet(MOST_PACKETS - 1, &[]), 1));
        for at in (18..MOST_PACKETS - 1).step_by(2) {
            assert!(early.keep(Psn::new(0), &packet(at, &[]), 1));
        }
        assert_eq!(runs(&mut early, 0).len(), MAX_RUNS);
    }
}
