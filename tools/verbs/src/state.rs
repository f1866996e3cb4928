//! States of queue pairs.
#![forbid(unsafe_code)]

use kit::abi::*;

/// The state of a queue pair: `enum ibv_qp_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// It does nothing.
    Reset,
    /// It takes receive requests.
    Initialised,
    /// It receives.
    ReadyToReceive,
    /// It receives and sends.
    ReadyToSend,
    /// It receives; send requests wait ([`QueuePair::drain`](crate::QueuePair::drain)).
    Drained,
    /// It receives; a send request has failed, and further ones are flushed. Reliable queue pairs
    /// do not have this state.
    SendError,
    /// All requests are flushed.
    Error,
    /// A state that this crate does not know, with its number.
    Other(u32),
}

impl State {
    pub(crate) fn of(number: ibv_qp_state) -> Self {
        match number {
            IBV_QPS_RESET => Self::Reset,
            IBV_QPS_INIT => Self::Initialised,
            IBV_QPS_RTR => Self::ReadyToReceive,
            IBV_QPS_RTS => Self::ReadyToSend,
            IBV_QPS_SQD => Self::Drained,
            IBV_QPS_SQE => Self::SendError,
            IBV_QPS_ERR => Self::Error,
            other => Self::Other(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_one_state() {
        let all: Vec<State> = (IBV_QPS_RESET..=IBV_QPS_UNKNOWN).map(State::of).collect();
        for (at, one) in all.iter().enumerate() {
            assert_eq!(all.iter().position(|other| other == one), Some(at));
        }
        assert_eq!(State::of(IBV_QPS_ERR), State::Error);
        assert_eq!(State::of(77), State::Other(77));
    }
}
