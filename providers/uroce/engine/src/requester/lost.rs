//! A count of lost packets.

use crate::psn::Psn;

/// Packets that were found to be lost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lost {
    pub(super) first: Option<Psn>,
    pub(super) packets: u32,
}

impl Lost {
    pub(super) fn add(&mut self, psn: Psn) {
        self.add_run(psn, 1);
    }

    /// Adds packets of consecutive PSNs.
    pub(super) fn add_run(&mut self, first: Psn, packets: u32) {
        self.first = self.first.or(Some(first));
        self.packets = self.packets.saturating_add(packets);
    }
}
