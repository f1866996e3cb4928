//! XRC domains.

use std::{fmt, os::fd::BorrowedFd, sync::Arc};

use super::{OpenedXrcTarget, XrcReceiveQueue, XrcTarget};
use crate::{
    completion::CompletionQueue, context::Context, domain::ProtectionDomain, error::Result,
    memory::Access, sys::xrc,
};

/// An XRC domain: its receiving queue pairs ([`XrcTarget`]) give messages to all its receive queues
/// ([`XrcReceiveQueue`]), as the sender asks ([`SendRequest::receive_queue`]). Copies are the same
/// one.
///
/// ```
/// use verbs::{Access, ReceiveRequest, SendRequest};
/// # verbs::use_uroce("lo");
/// # let context = verbs::Device::find("uroce_lo")?.open()?;
/// # let pd = context.protection_domain()?;
/// # let (sent, received) = (context.completion_queue(64)?, context.completion_queue(64)?);
/// // The receiver.
/// let domain = context.xrc_domain()?;
/// let target = domain.target(Access::LOCAL)?;
/// let queue = domain.receive_queue(&pd, &received, 16, 1)?;
/// queue.post_receive(ReceiveRequest::new(pd.buffer(64)?))?;
///
/// // The sender. The two exchange their endpoints, and the number of the receive queue.
/// let initiator = pd.xrc_initiator(&sent).inline(8).build()?;
/// target.connect(&initiator.endpoint())?;
/// let initiator = initiator.connect(&target.endpoint())?;
/// initiator.post(SendRequest::send_inline(*b"hello").receive_queue(queue.number()))?;
/// for completion in received.wait()? {
///     assert_eq!(completion.success()?.bytes, 5);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`SendRequest::receive_queue`]: crate::SendRequest::receive_queue
#[derive(Clone)]
pub struct XrcDomain(Arc<xrc::Domain>);

impl XrcDomain {
    pub(crate) fn new(context: &Context, file: Option<BorrowedFd<'_>>) -> Result<Self> {
        Ok(Self(Arc::new(xrc::open(context, file)?)))
    }

    pub(crate) fn object(&self) -> &xrc::Domain {
        &self.0
    }

    pub(crate) fn context(&self) -> &Context {
        &self.0
    }

    /// Makes a receive queue for that many requests of at most that many segments, whose
    /// completions go to `cq`. Its memory is of the protection domain.
    ///
    /// # Errors
    /// Of ibv_create_srq_ex(3), ibv_get_srq_num(3); EINVAL for a completion queue or a protection
    /// domain of another open device; ENOSPC if the completion queue has too few entries
    /// ([`QueuePairBuilder`](crate::QueuePairBuilder)).
    pub fn receive_queue(
        &self,
        pd: &ProtectionDomain,
        cq: &CompletionQueue,
        requests: u32,
        segments: u32,
    ) -> Result<XrcReceiveQueue> {
        XrcReceiveQueue::new(self, pd, cq, (requests, segments))
    }

    /// Makes a receiving queue pair of the first port. A peer may do that much to memory regions of
    /// the receive queues' protection domains.
    ///
    /// # Errors
    /// Of ibv_create_qp_ex(3), ibv_query_port(3), ibv_query_gid_ex(3), ibv_modify_qp(3).
    pub fn target(&self, access: Access) -> Result<XrcTarget> {
        XrcTarget::new(self, access)
    }

    /// Opens a receiving queue pair that this process or another one has made in the domain
    /// ([`Context::xrc_domain_of`]), by its number. It receives until all that opened it, and its
    /// maker, have dropped it.
    ///
    /// # Errors
    /// Of ibv_open_qp(3): EINVAL if the domain has no such queue pair, EOPNOTSUPP if the
    /// device cannot.
    pub fn open_target(&self, number: u32) -> Result<OpenedXrcTarget> {
        OpenedXrcTarget::new(self, number)
    }
}

impl fmt::Debug for XrcDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("XrcDomain").finish_non_exhaustive()
    }
}
