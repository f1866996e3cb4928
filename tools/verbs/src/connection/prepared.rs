//! Queue pairs that the connection manager connects.
#![forbid(unsafe_code)]

use std::fmt;

use kit::abi::{IBV_QP_ACCESS_FLAGS, IBV_QP_STATE, IBV_QPS_INIT, ibv_qp_attr, ibv_qp_attr_mask};

use crate::{
    context::Context,
    ece::Ece,
    error::{PostError, Result},
    qp::{Pair, Patience, QueuePair, QueuePairBuilder},
    request::ReceiveRequest,
    sys::calls,
    transport::Reliable,
};

/// The attributes of a transition, and their mask.
type Transition = (ibv_qp_attr, ibv_qp_attr_mask);

/// A queue pair for an [`Id`](super::Id), in the state INIT: receive requests can be posted.
#[must_use = "`Id::accept` and `Id::establish` make a queue pair that can send"]
pub struct PreparedQueuePair {
    pair: Pair,
    patience: Patience,
}

impl PreparedQueuePair {
    pub(super) fn new(
        builder: &QueuePairBuilder<Reliable>,
        mut attr: ibv_qp_attr,
        mask: ibv_qp_attr_mask,
    ) -> Result<Self> {
        let qp = builder.create()?;
        attr.qp_state = IBV_QPS_INIT;
        attr.qp_access_flags = builder.access.bits();
        calls::modify_qp(&qp, attr, mask | IBV_QP_STATE | IBV_QP_ACCESS_FLAGS)?;
        Ok(Self {
            pair: Pair::of(qp, builder.route),
            patience: builder.patience,
        })
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> u32 {
        calls::qp_number(&self.pair.qp)
    }

    /// Posts a receive request. Those that are posted before the connection is there miss no
    /// message.
    ///
    /// # Errors
    /// Of ibv_post_recv(3), with the request; EINVAL with a shared receive queue. If the device may
    /// have the request, the queue pair is moved into the error state ([`PostError`]).
    pub fn post_receive(
        &self,
        request: ReceiveRequest,
    ) -> std::result::Result<(), PostError<ReceiveRequest>> {
        self.pair.post_receive(request)
    }

    /// The ECE options of its device.
    ///
    /// # Errors
    /// Of ibv_query_ece(3): EOPNOTSUPP if the device has none, as uroce and soft-RoCE.
    pub fn ece(&self) -> Result<Ece> {
        calls::query_ece(&self.pair.qp).map(Ece::of)
    }

    /// Sets ECE options of the peer ([`Id::remote_ece`](super::Id::remote_ece)), before the
    /// connection is there.
    ///
    /// # Errors
    /// Of ibv_set_ece(3): EOPNOTSUPP if the device has none, or the vendor is 0; EINVAL if it does
    /// not know these.
    pub fn set_ece(&self, ece: Ece) -> Result<()> {
        calls::set_ece(&self.pair.qp, ece.to_c())
    }

    pub(super) fn context(&self) -> &Context {
        self.pair.qp.pd.context()
    }

    pub(super) fn has_shared_receives(&self) -> bool {
        self.pair.qp.srq.is_some()
    }

    /// How often packets and messages are repeated.
    pub(super) fn retries(&self) -> (u8, u8) {
        (self.patience.retries, self.patience.rnr_retries)
    }

    pub(super) fn ready_to_receive(
        &self,
        (mut attr, mask): Transition,
        responder_resources: Option<u8>,
    ) -> Result<()> {
        attr.min_rnr_timer = self.patience.rnr_timer;
        if let Some(count) = responder_resources {
            attr.max_dest_rd_atomic = count;
        }
        calls::modify_qp(&self.pair.qp, attr, mask)
    }

    pub(super) fn ready_to_send(
        self,
        (mut attr, mask): Transition,
        initiator_depth: Option<u8>,
    ) -> Result<QueuePair<Reliable>> {
        if let Some(count) = initiator_depth {
            attr.max_rd_atomic = count;
        }
        calls::modify_qp(&self.pair.qp, attr, mask)?;
        Ok(QueuePair::new(self.pair))
    }
}

impl fmt::Debug for PreparedQueuePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("PreparedQueuePair");
        shown.field("number", &self.number());
        shown.finish_non_exhaustive()
    }
}
