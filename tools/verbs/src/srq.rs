//! Shared receive queues.
#![forbid(unsafe_code)]

use std::{fmt, sync::Arc};

use kit::abi::ibv_srq_attr;

use crate::{
    domain::ProtectionDomain,
    error::{PostError, Result},
    request::ReceiveRequest,
    sys::{calls, flight::WorkQueue, post},
};

/// A queue of receive requests from which several queue pairs take. Copies are the same one.
///
/// The completion queue of each of these queue pairs has to have room for all its requests; a
/// queue pair is refused with ENOSPC otherwise. A request counts until its completion was polled,
/// while the queue itself takes the next request as soon as a queue pair has taken one: a program
/// posts a further one for each completion, and not more.
///
/// Requests that a queue pair had taken and whose completions were not polled before it was dropped
/// stay in flight until the shared receive queue is dropped
/// ([`QueuePair::shut_down`](crate::QueuePair::shut_down)).
#[derive(Clone)]
pub struct SharedReceiveQueue(Arc<calls::Srq>);

impl SharedReceiveQueue {
    pub(crate) fn new(pd: &ProtectionDomain, requests: u32, segments: u32) -> Result<Self> {
        let srq = calls::create_srq(pd, requests, segments)?;
        Ok(Self(Arc::new(srq)))
    }

    pub(crate) fn object(&self) -> &calls::Srq {
        &self.0
    }

    pub(crate) fn domain(&self) -> &ProtectionDomain {
        &self.0.0
    }

    pub(crate) fn queue(&self) -> &Arc<WorkQueue> {
        &self.0.1
    }

    /// Posts a receive request. The completion, of the queue pair that takes the request, returns
    /// its memory.
    ///
    /// # Errors
    /// Of ibv_post_srq_recv(3), with the request; EINVAL if its memory is of another protection
    /// domain. If the device may have the request, it does not come back ([`PostError`]).
    pub fn post_receive(
        &self,
        request: ReceiveRequest,
    ) -> std::result::Result<(), PostError<ReceiveRequest>> {
        request.post("ibv_post_srq_recv", self.domain(), |flight| {
            post::receive_srq(&self.0, self.queue(), flight)
        })
    }

    /// How much it holds, and the limit of the event that was asked for; 0 once it has come.
    ///
    /// ```
    /// # verbs::use_uroce("lo");
    /// # let context = verbs::Device::find("uroce_lo")?.open()?;
    /// # let pd = context.protection_domain()?;
    /// let queue = pd.shared_receive_queue(100, 2)?;
    /// let attributes = queue.attributes()?;
    /// assert!(attributes.max_wr >= 100 && attributes.max_sge >= 2);
    /// # Ok::<(), verbs::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of ibv_query_srq(3).
    pub fn attributes(&self) -> Result<ibv_srq_attr> {
        calls::query_srq(&self.0)
    }

    /// Asks for the event IBV_EVENT_SRQ_LIMIT_REACHED, once, when fewer requests are left.
    ///
    /// # Errors
    /// Of ibv_modify_srq(3).
    pub fn arm(&self, limit: u32) -> Result<()> {
        calls::arm_srq(&self.0, limit)
    }
}

impl fmt::Debug for SharedReceiveQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedReceiveQueue").finish_non_exhaustive()
    }
}
