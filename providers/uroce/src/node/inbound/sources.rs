//! Sockets that packets come in by, and where to look for them.

/// Places of sockets; those of connected sockets follow.
pub const V4: usize = 0;
pub const V6: usize = 1;
pub const SLOT: usize = 2;
pub(super) const CONNECTED: usize = 3;

/// Sockets, by their places in the inbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::node) struct Sources(u64);

impl Sources {
    fn bit(place: usize) -> u64 {
        let shift = u32::try_from(place).unwrap_or(u32::MAX);
        1u64.checked_shl(shift).unwrap_or(0)
    }

    /// That there is something in this place.
    pub fn add(&mut self, place: u64) {
        self.0 |= Self::bit(usize::try_from(place).unwrap_or(usize::MAX));
    }

    pub fn take_out(&mut self, place: usize) {
        self.0 &= !Self::bit(place);
    }

    pub fn has(self, place: usize) -> bool {
        self.0 & Self::bit(place) != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Where to look for packets.
pub(in crate::node) enum Look<'s> {
    /// Where a poller may hope for some.
    Worthwhile,
    /// Everywhere.
    Everywhere,
    /// At these, where there was something at this time. Those where there is nothing any more are
    /// taken out.
    At(&'s mut Sources, u64),
}

impl Look<'_> {
    /// Whether a moment had come when it was found out where to look.
    pub fn is_past(&self, moment: u64) -> bool {
        matches!(self, Self::At(_, now) if moment <= *now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_distinguished() {
        let mut sources = Sources::default();
        assert!(sources.is_empty());
        sources.add(0);
        sources.add(34);
        // No place of a socket.
        sources.add(u64::MAX);
        assert!(sources.has(0) && sources.has(34) && !sources.has(2));
        sources.take_out(34);
        assert!(!sources.has(34));
        sources.take_out(0);
        assert!(sources.is_empty());
    }
}
