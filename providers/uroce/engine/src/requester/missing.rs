//! The state of the way to the peer, and which packets are missing there.

use std::collections::VecDeque;

use super::congestion::Window;
use super::lost::Lost;
use super::round_trip::{RoundTrip, Timed};
use crate::psn::Psn;
use crate::timer::Moment;

/// The kind of the other end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PeerKind {
    /// It has not answered.
    #[default]
    Unknown,
    /// It understands reports.
    Selective,
    /// It does not.
    Other,
}

/// State of the way to the peer.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) window: Window,
    /// The furthest that the cursor has been, once it has gone back.
    pub(super) furthest: Option<Psn>,
    /// Packets that the peer has reported to be missing.
    pub(super) recovery: Option<Recovery>,
    pub(super) round_trip: RoundTrip,
    pub(super) timed: Timed,
    /// When to ask the peer about outstanding packets.
    pub probe_timer: Moment,
    /// How often that was done since there was progress.
    pub probes: u8,
}

impl Path {
    pub(super) fn new(window: Window) -> Self {
        Self {
            window,
            furthest: None,
            recovery: None,
            round_trip: RoundTrip::default(),
            timed: Timed::default(),
            probe_timer: Moment::NONE,
            probes: 0,
        }
    }
}

/// A packet that has not arrived, or is to be sent again to find that out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missing {
    pub(super) psn: Psn,
    /// When it was sent again, counted in packets.
    pub(super) again: Option<Sent>,
    /// To be sent again.
    pub(super) due: bool,
}

/// A moment, counted in packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// The first PSN that was not sent then.
    pub(super) furthest: Psn,
    /// Packets sent again until then.
    pub(super) number: u64,
}

/// The packets that are known to be missing.
#[derive(Debug)]
pub(super) struct Recovery {
    pub(super) missing: VecDeque<Missing>,
    /// None of so many missing packets, from the first on, is to be sent again.
    not_due: usize,
    /// One more than the last PSN that is known to have arrived.
    pub(super) seen: Psn,
    /// Request packets that have arrived behind missing ones.
    pub(super) arrived: u32,
    /// Packets sent again.
    pub(super) number: u64,
}

impl Recovery {
    pub(super) fn new(taken: Psn) -> Self {
        Self {
            missing: VecDeque::new(),
            not_due: 0,
            seen: taken,
            arrived: 0,
            number: 0,
        }
    }

    /// Takes in which packets are missing of those before `seen`. Returns those that were not
    /// known to be.
    pub(super) fn report(&mut self, missing: impl Iterator<Item = Psn>, seen: Psn) -> Lost {
        let mut lost = Lost::default();
        if seen.before(self.seen) {
            // It is older than another.
            return lost;
        }
        self.not_due = 0;
        let mut known = std::mem::take(&mut self.missing);
        let before = std::mem::replace(&mut self.seen, seen);
        let mut latest = 0;
        for psn in missing {
            while let Some(other) = pop_if(&mut known, |other| other.psn.before(psn)) {
                latest = latest.max(other.number());
            }
            if let Some(same) = pop_if(&mut known, |other| other.psn == psn) {
                self.missing.push_back(same);
            } else if psn.at_or_after(before) {
                lost.add(psn);
                self.missing.push_back(Missing {
                    psn,
                    again: None,
                    due: true,
                });
            }
        }
        while let Some(other) = pop_if(&mut known, |other| other.psn.before(seen)) {
            latest = latest.max(other.number());
        }
        self.missing.append(&mut known);
        for missing in &mut self.missing {
            let overtaken = missing.again.is_some_and(|again| {
                again.number < latest || again.furthest.before(seen) && missing.psn.before(seen)
            });
            if overtaken && !missing.due {
                missing.due = true;
                lost.add(missing.psn);
            }
        }
        lost
    }

    /// A packet is sent again, while so many were sent in all.
    pub(super) fn sent_again(&mut self, psn: Psn, furthest: Psn) {
        self.number += 1;
        let again = Sent {
            furthest,
            number: self.number,
        };
        let mut all = self.missing.iter_mut().skip(self.not_due);
        if let Some(missing) = all.find(|missing| missing.due && missing.psn == psn) {
            missing.due = false;
            missing.again = Some(again);
        }
    }

    /// All that is missing is to be sent again. Returns it.
    pub(super) fn all_due(&mut self) -> Lost {
        let mut lost = Lost::default();
        self.not_due = 0;
        for missing in &mut self.missing {
            missing.due = true;
            lost.add(missing.psn);
        }
        lost
    }

    /// The last packet is to be sent again, so that an answer to it comes.
    pub(super) fn ask(&mut self, last: Psn) {
        if last.at_or_after(self.seen) {
            self.missing.push_back(Missing {
                psn: last,
                again: None,
                due: true,
            });
        }
    }

    /// The next packet to be sent again.
    pub(super) fn next(&mut self) -> Option<Psn> {
        let mut behind = self.missing.iter().skip(self.not_due);
        let due = behind.position(|missing| missing.due);
        self.not_due += due.unwrap_or(self.missing.len().saturating_sub(self.not_due));
        self.missing.get(self.not_due).map(|missing| missing.psn)
    }

    /// Everything before `taken` has arrived.
    pub(super) fn forget_before(&mut self, taken: Psn) {
        while pop_if(&mut self.missing, |missing| missing.psn.before(taken)).is_some() {
            self.not_due = self.not_due.saturating_sub(1);
        }
    }
}

/// Removes the first packet if the condition holds.
pub(super) fn pop_if(
    all: &mut VecDeque<Missing>,
    condition: impl Fn(&Missing) -> bool,
) -> Option<Missing> {
    all.front()
        .is_some_and(condition)
        .then(|| all.pop_front())?
}

impl Missing {
    pub(super) fn number(&self) -> u64 {
        self.again.map_or(0, |again| again.number)
    }
}
