//! Work queues: receive queues with completion queues, which queue pairs share through tables
//! (ibv_create_wq(3)).

use super::intake::{Intake, Outcome, Requests};
use crate::carrier::Sender;
use crate::cq::Cq;
use crate::limits;
use crate::memory::PdId;
use crate::node::{Caller, Endpoint, Incoming, Node};
use crate::receive::ReceiveQueue;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider::{ReceiveRequest, WqChange};
use kit::sync::Mutex;
use std::sync::Arc;
use uroce_engine::timer::Time;

/// A work queue.
pub struct Wq {
    node: Arc<Node>,
    /// `enum ibv_wq_state`.
    state: Mutex<ibv_wq_state>,
    intake: Intake,
}

/// Its number is one of queue pairs, so that completions of both can be distinguished.
struct Number;

impl Endpoint for Number {
    fn receive(&self, _: Time, _: &Incoming<'_>, _: Caller) -> bool {
        false
    }

    fn transmit(&self, _: Time, _: &mut Sender<'_>, _: Caller) {}
    fn on_time(&self, _: Time) {}
    fn deadline(&self) -> Option<Time> {
        None
    }
}

/// Takes a number of queue pairs.
///
/// # Errors
/// ENOMEM if all numbers are in use.
pub fn number(node: &Node) -> Result<u32> {
    node.attach(|_| Ok(Arc::new(Number)))
}

impl Wq {
    /// A queue in RESET of at most `max_wr` requests of at most `max_sge` pieces.
    ///
    /// # Errors
    /// EINVAL for a size of 0 or more than [`limits`] has; ENOMEM if there are no numbers left.
    pub fn create(
        node: &Arc<Node>,
        pd: PdId,
        cq: &Arc<Cq>,
        max_wr: u32,
        max_sge: u32,
    ) -> Result<Self> {
        if max_wr == 0 || max_wr > limits::MAX_WR || max_sge > limits::MAX_SGE {
            return Err(Errno::INVAL);
        }
        let requests = Requests::Own(ReceiveQueue::new(max_wr, max_sge));
        let number = number(node)?;
        Ok(Self {
            node: Arc::clone(node),
            state: Mutex::new(IBV_WQS_RESET),
            intake: Intake::new(number, pd, requests, cq, node.keys()),
        })
    }

    /// The number.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.intake.number
    }

    /// ibv_modify_wq(3); returns the state after it.
    ///
    /// # Errors
    /// EINVAL for an impossible transition, and for another current state; EOPNOTSUPP for flags,
    /// because none are supported.
    pub fn modify(&self, change: &WqChange) -> Result<ibv_wq_state> {
        if change.flags.is_some_and(|(_, mask)| mask != 0) {
            return Err(Errno::OPNOTSUPP);
        }
        let mut state = self.state.lock();
        if change.current.is_some_and(|current| current != *state) {
            return Err(Errno::INVAL);
        }
        let to = change.state.unwrap_or(*state);
        if !is_transition(*state, to) {
            return Err(Errno::INVAL);
        }
        *state = to;
        match to {
            IBV_WQS_RESET => self.intake.clear(),
            IBV_WQS_ERR => self.intake.flush(),
            _ => {}
        }
        Ok(to)
    }

    /// ibv_post_wq_recv(3).
    ///
    /// # Errors
    /// EINVAL in RESET and for too many pieces; ENOMEM if the queue is full.
    pub fn post<'a>(&self, requests: &mut impl Iterator<Item = ReceiveRequest<'a>>) -> Result<()> {
        let state = self.state.lock();
        if *state == IBV_WQS_RESET {
            return requests.next().map_or(Ok(()), |_| Err(Errno::INVAL));
        }
        let taken = self.intake.post(requests);
        if *state == IBV_WQS_ERR {
            self.intake.flush();
        }
        taken
    }

    /// A frame that a table leads here.
    pub fn receive(&self, frame: &[u8]) {
        let mut state = self.state.lock();
        if *state == IBV_WQS_RDY && self.intake.take(frame) == Outcome::Failed {
            *state = IBV_WQS_ERR;
            self.intake.flush();
        }
    }

    /// Out of service.
    pub fn end(&self) {
        *self.state.lock() = IBV_WQS_RESET;
        self.intake.clear();
        self.node.detach(self.number());
    }
}

fn is_transition(from: ibv_wq_state, to: ibv_wq_state) -> bool {
    match (from, to) {
        (_, IBV_WQS_RESET) | (IBV_WQS_RESET, IBV_WQS_RDY) => true,
        (IBV_WQS_RDY | IBV_WQS_ERR, IBV_WQS_ERR) => true,
        (from, to) => from == to,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_failed_is_reset_first() {
        assert!(is_transition(IBV_WQS_RESET, IBV_WQS_RDY));
        assert!(is_transition(IBV_WQS_RDY, IBV_WQS_RDY));
        assert!(is_transition(IBV_WQS_RDY, IBV_WQS_ERR));
        assert!(is_transition(IBV_WQS_ERR, IBV_WQS_RESET));
        assert!(!is_transition(IBV_WQS_ERR, IBV_WQS_RDY));
        assert!(!is_transition(IBV_WQS_RESET, IBV_WQS_ERR));
    }
}
