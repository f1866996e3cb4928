//! ibv_modify_qp(3): from state to state.

use super::attributes::Modify;
use super::state::State;
use super::table::{Mask, rule};
use super::{Attributes, QueuePair, Refused};
use crate::host::Host;
use crate::requester::Requester;
use crate::responder::Responder;

impl QueuePair {
    /// Changes state and values. On an error nothing has changed.
    ///
    /// # Errors
    /// [`Refused::Invalid`] for a transition that does not exist, a required attribute that is not
    /// given, one given that the transition does not allow, `cur_qp_state` that is not the state, a
    /// value out of range.
    pub fn modify(&mut self, modify: &Modify, host: &mut impl Host) -> Result<(), Refused> {
        let from = self.state_before(modify)?;
        let to = if modify.mask.has(Mask::STATE) {
            modify.state.ok_or(Refused::Invalid)?
        } else {
            from
        };
        let rule = rule(self.config.service, from, to).ok_or(Refused::Invalid)?;
        let given = modify.mask.without(Mask::STATE);
        let unknown = given.without(rule.required).without(rule.optional);
        if !given.has(rule.required) || !unknown.is_empty() {
            return Err(Refused::Invalid);
        }
        let mut attributes = self.attributes;
        attributes.apply(modify).ok_or(Refused::Invalid)?;
        if attributes.path_mtu.bytes() > self.config.port_mtu.bytes() {
            return Err(Refused::Invalid);
        }
        self.attributes = attributes;
        self.enter(from, to, modify.mask, host);
        Ok(())
    }

    /// The state to start from: the one there is, which the caller may have to name.
    fn state_before(&self, modify: &Modify) -> Result<State, Refused> {
        if !modify.mask.has(Mask::CUR_STATE) {
            return Ok(self.state);
        }
        if modify.current == Some(self.state) {
            Ok(self.state)
        } else {
            Err(Refused::Invalid)
        }
    }

    /// The only place where the state changes. A state in which the queue pair sends no requests
    /// has no timer: there is nothing to retransmit, and no request that could carry an
    /// acknowledgement. Delayed acknowledgements are sent at once.
    pub(super) fn change_state(&mut self, to: State) {
        self.state = to;
        if !to.sends() {
            self.requester.stop_timers();
            self.responder.hurry();
        }
    }

    fn enter(&mut self, from: State, to: State, mask: Mask, host: &mut impl Host) {
        if to == State::Error {
            return self.enter_error(host);
        }
        self.change_state(to);
        match to {
            State::Reset => self.reset(),
            State::Rtr => self.responder.start(&self.attributes),
            State::Rts => {
                self.draining = false;
                if from == State::Rtr {
                    self.requester.start(&self.attributes);
                }
            }
            State::Sqd => {
                if from != State::Sqd {
                    self.draining = true;
                    self.attributes.en_sqd_async_notify &= mask.has(Mask::EN_SQD_ASYNC_NOTIFY);
                }
                self.requester.renew_retries(&self.attributes);
                self.requester.probe();
                self.report_completed(host);
            }
            State::Init | State::Sqe | State::Error => {}
        }
    }

    /// Forgets everything, requests included: they do not complete (IBTA volume 1, 10.3.1).
    fn reset(&mut self) {
        self.requester = Requester::new(self.config.max_in_flight);
        self.responder = Responder::default();
        self.attributes = Attributes::of_port(self.config.port_mtu);
        self.established = false;
        self.draining = false;
        self.pausing = false;
        self.keeps_receives = false;
    }
}
