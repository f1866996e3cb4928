//! Messages past the protocol: a host that can hand a whole message to the peer without packets asks
//! here whether it may, and tells what it did.

use super::{QueuePair, State};
use crate::host::Host;

impl QueuePair {
    /// Whether the next request may go past the protocol: in RTS, and nothing is under way.
    #[must_use]
    #[inline]
    pub fn may_send_past(&self) -> bool {
        self.state == State::Rts && self.requester.outstanding() == 0
    }

    /// Whether the next message may come past the protocol: no message is half received, and the
    /// connection has been used, if that has to be told. Also in ERR while
    /// [`QueuePair::keeps_receives`].
    #[must_use]
    #[inline]
    pub fn may_receive_past(&self) -> bool {
        let used = self.state != State::Rtr || self.established;
        let receives = self.state.receives() || self.keeps_receives;
        receives && used && self.responder.is_between()
    }

    /// Peers may be told from now on that messages past the protocol are received as soon as they are
    /// sent: own receive requests outlive a failure, until [`QueuePair::release_receives`].
    pub fn keep_receives(&mut self) {
        self.keeps_receives = true;
    }

    /// Whether that holds.
    #[must_use]
    pub fn keeps_receives(&self) -> bool {
        self.keeps_receives
    }

    /// All messages have come of which peers were told so. In ERR the receive requests that are left are
    /// flushed now.
    pub fn release_receives(&mut self, host: &mut impl Host) {
        self.keeps_receives = false;
        if self.state == State::Error {
            self.flush_receives(host);
        }
    }

    /// A message of so many bytes was sent.
    #[inline]
    pub fn sent_past(&mut self, bytes: u32) {
        self.counters.packets_sent += 1;
        self.counters.bytes_sent += u64::from(bytes);
    }

    /// A message of so many bytes was received.
    #[inline]
    pub fn received_past(&mut self, bytes: u32) {
        self.counters.packets_received += 1;
        self.counters.bytes_received += u64::from(bytes);
    }

    /// The peer does not answer: the host has told so in a completion. The queue pair goes to ERR, as
    /// when the protocol's own retries are used up.
    pub fn fail_past(&mut self, host: &mut impl Host) {
        if matches!(self.state, State::Reset | State::Error) {
            return;
        }
        self.counters.errors += 1;
        self.enter_error(host);
    }
}
