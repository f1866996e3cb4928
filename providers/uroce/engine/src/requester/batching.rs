//! Which requests wait for others, to leave together.
//!
//! Where each transmission costs a system call, a short message costs mostly that. So a host may
//! leave a posted request to its next transmission, as long as packets are under way whose
//! acknowledgement was requested: its arrival is followed by a transmission
//! ([`crate::qp::QueuePair::transmit`]). The first messages of an idle connection do not wait. Nor
//! does the message that completes a batch.
//!
//! That is the host's choice. The requester holds nothing back: whatever is posted leaves with the
//! next transmission, for whichever reason that happens. The host has to bound the wait, since the
//! acknowledgement may be late.

/// Packets under way from which on requests wait.
const BUSY: u32 = 4;
/// Requests that leave together without waiting for more.
pub(super) const BATCH: usize = 32;
/// The same in bytes: about as many as one run of packets has, which a call sends in one piece.
const BATCH_BYTES: u32 = 63_000;
/// Bytes of the longest message that waits. Several of them fit one run.
const LONGEST: u32 = 16 << 10;
/// Bytes of the longest message that may use all of the congestion window although it has few
/// packets ([`super::congestion`]).
pub(super) const SHORT: u32 = 1024;

/// The state of a send queue, as far as batches depend on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Packets under way up to the latest whose acknowledgement was requested.
    pub under_way: u32,
    /// Requests posted and not begun.
    pub waiting: usize,
    /// Bytes of the longest of them.
    pub longest: u32,
    /// Bytes of all.
    pub bytes: u32,
}

impl Load {
    /// Whether the requests that have not begun may wait for more.
    pub fn may_wait(self) -> bool {
        self.under_way >= BUSY
            && self.waiting < BATCH
            && self.longest <= LONGEST
            && self.bytes < BATCH_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of so many messages of one length.
    fn may_wait(under_way: u32, waiting: usize, length: u32) -> bool {
        Load {
            under_way,
            waiting,
            longest: length,
            bytes: length * u32::try_from(waiting).unwrap_or(0),
        }
        .may_wait()
    }

    #[test]
    fn the_first_messages_do_not_wait() {
        assert!((0..BUSY).all(|under_way| !may_wait(under_way, 1, 0)));
        assert!(may_wait(BUSY, 1, 0));
    }

    #[test]
    fn a_whole_batch_does_not_wait() {
        assert!((1..BATCH).all(|waiting| may_wait(64, waiting, 8)));
        assert!(!may_wait(64, BATCH, 8));
        assert!(!may_wait(64, 10 * BATCH, 8));
    }

    #[test]
    fn a_whole_run_does_not_wait() {
        assert!(may_wait(64, 7, 8192));
        assert!(!may_wait(64, 8, 8192));
    }

    #[test]
    fn a_long_message_does_not_wait() {
        assert!(may_wait(64, 1, LONGEST));
        assert!(!may_wait(64, 1, LONGEST + 1));
    }
}
