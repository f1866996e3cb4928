//! The migration of an XRC target: several engines execute one receiving queue pair, one at a time.

use super::attributes::Attributes;
use super::state::State;
use super::{QueuePair, Rest};
use crate::host::Host;
use crate::psn::Psn;
use crate::responder::Responder;

impl QueuePair {
    /// Whether no message is half received, and nothing is to be answered.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.responder.is_between() && !self.responder.has_replies()
    }

    /// Whether no message is half received.
    #[must_use]
    pub fn is_between(&self) -> bool {
        self.responder.is_between()
    }

    /// The PSN that a new request has.
    #[must_use]
    pub fn expected(&self) -> Psn {
        self.responder.expected()
    }

    /// The state of the receiving side. Another engine may use it only if no message is half
    /// received.
    #[must_use]
    pub fn rest(&self) -> Rest {
        self.responder.rest()
    }

    /// Continues receiving, in RTR, where another engine stopped.
    pub fn resume(&mut self, attributes: Attributes, rest: &Rest) {
        self.change_state(State::Rtr);
        self.attributes = attributes;
        self.established = true;
        self.responder = Responder::resume(rest);
    }

    /// Takes the state of another engine, which has ended. Without `rest`, the state of the
    /// receiving side is unchanged.
    pub fn take_over(&mut self, state: State, attributes: Attributes, rest: Option<&Rest>) {
        self.change_state(state);
        self.attributes = attributes;
        self.established = state.receives();
        if let Some(rest) = rest {
            self.responder = Responder::resume(rest);
        }
    }

    /// Takes only the receiving state of another engine.
    pub fn catch_up(&mut self, rest: &Rest) {
        self.responder = Responder::resume(rest);
    }

    /// Other values from now on, which another engine was given.
    pub fn follow(&mut self, attributes: Attributes) {
        self.attributes = attributes;
    }

    /// Another engine continues: a message that is half received ends as flushed, and pending
    /// answers are dropped.
    pub fn abandon(&mut self, host: &mut impl Host) {
        self.responder.abandon(host);
    }
}
