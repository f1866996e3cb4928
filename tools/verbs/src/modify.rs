//! Queries and changes of queue pairs.
#![forbid(unsafe_code)]

use bytemuck::Zeroable;
use kit::abi::{IBV_QP_EN_SQD_ASYNC_NOTIFY, IBV_QP_STATE, IBV_QPS_RTS, IBV_QPS_SQD, ibv_qp_attr};

use crate::{
    attributes::QueuePairAttributes,
    changes::Changes,
    ece::Ece,
    error::Result,
    qp::{QueuePair, QueuePairBuilder, UnconnectedQueuePair},
    rate::RateLimit,
    sys::{calls, extended},
    transport::{Connected, Datagram, Transport},
};

impl<T: Transport> QueuePair<T> {
    /// Its state, settings and capacities.
    ///
    /// # Errors
    /// Of ibv_query_qp(3).
    pub fn attributes(&self) -> Result<QueuePairAttributes> {
        let queried = calls::query_qp(&self.inner.qp)?;
        Ok(QueuePairAttributes::of(&queried))
    }

    /// Changes attributes; none if the device refuses one of them.
    ///
    /// ```
    /// use verbs::{Changes, State};
    /// # verbs::use_uroce("lo");
    /// # let context = verbs::Device::find("uroce_lo")?.open()?;
    /// # let pd = context.protection_domain()?;
    /// # let cq = context.completion_queue(64)?;
    /// # let (a, b) = (pd.reliable(&cq).build()?, pd.reliable(&cq).build()?);
    /// # let at_b = b.endpoint();
    /// let qp = a.connect(&at_b)?;
    /// qp.modify(&Changes::new().rnr_timer(1))?;
    /// let retries = Changes::new().retries(3).timeout(10);
    /// assert_eq!(qp.modify(&retries).unwrap_err().errno(), libc::EINVAL); // not while it sends
    /// qp.drain()?;
    /// assert_eq!(qp.attributes()?.state, State::Drained);
    /// qp.modify(&retries)?;
    /// qp.resume()?;
    /// assert_eq!(qp.attributes()?.retries, 3);
    /// # Ok::<(), verbs::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of ibv_modify_qp(3): EINVAL for an attribute that the type of queue pair does not have, or
    /// not in its state ([`Changes`]), and for numbers that are out of range.
    pub fn modify(&self, changes: &Changes) -> Result<()> {
        let (attr, mask) = changes.checked()?;
        calls::modify_qp(&self.inner.qp, attr, mask)
    }

    /// Moves it into the state SQD: requests that have begun are executed, further ones wait.
    /// The event IBV_EVENT_SQ_DRAINED ([`Context::async_event`](crate::Context::async_event))
    /// reports that none is being executed any more ([`QueuePairAttributes::is_draining`]).
    ///
    /// # Errors
    /// Of ibv_modify_qp(3): EINVAL in another state than ready to send.
    pub fn drain(&self) -> Result<()> {
        let mut attr = ibv_qp_attr::zeroed();
        attr.qp_state = IBV_QPS_SQD;
        attr.en_sqd_async_notify = 1;
        let mask = IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY;
        calls::modify_qp(&self.inner.qp, attr, mask)
    }

    /// Sends again, after [`QueuePair::drain`] or after a failed request of an unreliable queue
    /// pair ([`State::SendError`](crate::State)).
    ///
    /// # Errors
    /// Of ibv_modify_qp(3): EINVAL in the error state, and while requests are still being executed.
    pub fn resume(&self) -> Result<()> {
        self.inner.change_state(IBV_QPS_RTS)
    }

    /// Limits its rate.
    ///
    /// # Errors
    /// Of ibv_modify_qp_rate_limit(3): EOPNOTSUPP if the device cannot, as uroce.
    pub fn limit_rate(&self, limit: RateLimit) -> Result<()> {
        extended::limit_rate(&self.inner.qp, limit)
    }
}

impl<T: Connected> QueuePair<T> {
    /// Ends the connection, by the state RESET: the queue pair can be connected once more, with its
    /// new address. Requests in flight have no completion; their memory is freed. A program that
    /// wants it back shuts the queue pair down before ([`QueuePair::shut_down`]) and polls.
    /// Completions that were there already take room in the completion queue until they are polled.
    ///
    /// # Errors
    /// Of ibv_modify_qp(3); EINVAL if the connection manager has connected the queue pair. It is
    /// destroyed then.
    pub fn reset(mut self) -> Result<UnconnectedQueuePair<T>> {
        let own = self.inner.reset()?;
        self.inner.initialise(own.access)?;
        Ok(UnconnectedQueuePair::new(self.inner, own.patience))
    }
}

impl QueuePair<Datagram> {
    /// Begins again by the state RESET, also after an error. As for connections, requests in flight
    /// have no completion; groups stay joined.
    ///
    /// # Errors
    /// Of ibv_modify_qp(3). The queue pair is destroyed then.
    pub fn reset(mut self) -> Result<Self> {
        self.inner.reset()?;
        self.inner.ready_for_datagrams()?;
        Ok(self)
    }
}

impl<T: Connected> QueuePairBuilder<T> {
    /// Sets ECE options of the peer before the first transition. `build` fails with EOPNOTSUPP if
    /// the device has none, as uroce and soft-RoCE, or the vendor is 0, and with EINVAL if it does
    /// not know these.
    pub fn ece(mut self, ece: Ece) -> Self {
        self.ece = Some(ece);
        self
    }
}

impl<T: Connected> UnconnectedQueuePair<T> {
    /// The ECE options of its device.
    ///
    /// ```
    /// # verbs::use_uroce("lo");
    /// # let context = verbs::Device::find("uroce_lo")?.open()?;
    /// # let pd = context.protection_domain()?;
    /// # let cq = context.completion_queue(32)?;
    /// let qp = pd.reliable(&cq).build()?;
    /// match qp.ece() {
    ///     Ok(ece) => println!("{:x} {:x}", ece.vendor_id, ece.options), // for the peer
    ///     Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::Unsupported),
    /// }
    /// # Ok::<(), verbs::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of ibv_query_ece(3): EOPNOTSUPP if the device has none, as uroce and soft-RoCE.
    pub fn ece(&self) -> Result<Ece> {
        calls::query_ece(&self.pair().qp).map(Ece::of)
    }

    /// Sets ECE options of the peer, before it is connected.
    ///
    /// # Errors
    /// Of ibv_set_ece(3): EOPNOTSUPP if the device has none, or the vendor is 0; EINVAL if it does
    /// not know these.
    pub fn set_ece(&self, ece: Ece) -> Result<()> {
        calls::set_ece(&self.pair().qp, ece.to_c())
    }
}

impl<T: Transport> QueuePair<T> {
    /// The ECE options that it has.
    ///
    /// # Errors
    /// Of ibv_query_ece(3): EOPNOTSUPP if the device has none, as uroce and soft-RoCE.
    pub fn ece(&self) -> Result<Ece> {
        calls::query_ece(&self.inner.qp).map(Ece::of)
    }
}
