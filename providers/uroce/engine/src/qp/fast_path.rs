//! The host's fast path: a host that can pass a whole message to the peer without packets asks here
//! for permission, and reports the transfer.

use std::collections::VecDeque;

use super::{QueuePair, State};
use crate::host::Host;
use crate::work::WorkRequest;

impl QueuePair {
    /// Whether the next request may take the fast path: in RTS, and nothing is under way.
    #[must_use]
    #[inline]
    pub fn may_take_fast_path(&self) -> bool {
        self.state == State::Rts && self.requester.outstanding() == 0
    }

    /// The first posted request that has not begun.
    #[must_use]
    pub fn first_waiting(&self) -> Option<&WorkRequest> {
        self.requester.first_waiting()
    }

    /// Takes back the requests that have not begun, in their order, if nothing is under way: the
    /// host may carry them out by the fast path. It posts the others again.
    pub fn take_waiting(&mut self) -> VecDeque<WorkRequest> {
        match self.state {
            State::Rts => self.requester.take_waiting(),
            _ => VecDeque::new(),
        }
    }

    /// Whether the next message may come on the fast path: no message is half received, and
    /// the connection has been used, if that has to be reported. Also in ERR while
    /// [`QueuePair::keeps_receives`].
    #[must_use]
    #[inline]
    pub fn may_receive_on_fast_path(&self) -> bool {
        let used = self.state != State::Rtr || self.established;
        let receives = self.state.receives() || self.keeps_receives;
        receives && used && self.responder.is_between()
    }

    /// From now on peers may get credits, by which messages on the fast path count as received when
    /// they are sent: own receive requests outlive a failure, until
    /// [`QueuePair::release_receives`].
    pub fn keep_receives(&mut self) {
        self.keeps_receives = true;
    }

    /// Whether that holds.
    #[must_use]
    pub fn keeps_receives(&self) -> bool {
        self.keeps_receives
    }

    /// All messages that were sent by such credits have come. In ERR the receive requests that are
    /// left are flushed now.
    pub fn release_receives(&mut self, host: &mut impl Host) {
        self.keeps_receives = false;
        if self.state == State::Error {
            self.flush_receives(host);
        }
    }

    /// A message of so many bytes was sent.
    #[inline]
    pub fn sent_on_fast_path(&mut self, bytes: u32) {
        self.counters.packets_sent += 1;
        self.counters.bytes_sent += u64::from(bytes);
    }

    /// A message of so many bytes was received.
    #[inline]
    pub fn received_on_fast_path(&mut self, bytes: u32) {
        self.counters.packets_received += 1;
        self.counters.bytes_received += u64::from(bytes);
    }

    /// The peer does not answer: the host has reported that in a completion. The queue pair goes to
    /// ERR, as when the protocol's own retries are used up.
    pub fn fail_on_fast_path(&mut self, host: &mut impl Host) {
        if matches!(self.state, State::Reset | State::Error) {
            return;
        }
        self.counters.errors += 1;
        self.enter_error(host);
    }
}
