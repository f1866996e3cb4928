//! Services and states of a queue pair.

use crate::wire::Transport;

/// The type of a queue pair (`enum ibv_qp_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Service {
    /// `IBV_QPT_RC`.
    Rc,
    /// `IBV_QPT_UC`.
    Uc,
    /// `IBV_QPT_UD`.
    Ud,
    /// `IBV_QPT_XRC_SEND`: requests only.
    XrcInitiator,
    /// `IBV_QPT_XRC_RECV`: responds only, into the shared receive queue that each request names.
    XrcTarget,
}

impl Service {
    /// The transport in the opcodes.
    #[must_use]
    pub fn transport(self) -> Transport {
        match self {
            Self::Rc => Transport::Rc,
            Self::Uc => Transport::Uc,
            Self::Ud => Transport::Ud,
            Self::XrcInitiator | Self::XrcTarget => Transport::Xrc,
        }
    }

    /// Whether packets are acknowledged and repeated.
    #[must_use]
    pub fn reliable(self) -> bool {
        !matches!(self, Self::Uc | Self::Ud)
    }

    /// Whether the queue pair has a send queue.
    #[must_use]
    pub fn requests(self) -> bool {
        self != Self::XrcTarget
    }

    /// Whether the queue pair answers requests.
    #[must_use]
    pub fn responds(self) -> bool {
        self != Self::XrcInitiator
    }
}

/// `enum ibv_qp_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// `IBV_QPS_RESET`.
    Reset,
    /// `IBV_QPS_INIT`: receives may be posted.
    Init,
    /// `IBV_QPS_RTR`: packets are received.
    Rtr,
    /// `IBV_QPS_RTS`: packets are also sent.
    Rts,
    /// `IBV_QPS_SQD`: requests that have begun are finished, no other begins.
    Sqd,
    /// `IBV_QPS_SQE`: the send queue failed, receiving continues.
    Sqe,
    /// `IBV_QPS_ERR`.
    Error,
}

impl State {
    /// Whether requests are received.
    #[must_use]
    pub fn receives(self) -> bool {
        matches!(self, Self::Rtr | Self::Rts | Self::Sqd | Self::Sqe)
    }

    /// Whether requests that have begun continue.
    #[must_use]
    pub fn sends(self) -> bool {
        matches!(self, Self::Rts | Self::Sqd)
    }
}
