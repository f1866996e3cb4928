//! Receive queues of XRC domains.

use std::{fmt, sync::Arc};

use super::XrcDomain;
use crate::{
    completion::CompletionQueue,
    domain::ProtectionDomain,
    error::{Error, PostError, Result},
    request::ReceiveRequest,
    sys::{post, xrc},
};

/// A receive queue of an XRC domain ([`XrcDomain::receive_queue`]). Copies are the same one.
///
/// Requests that were taken and not polled stay in flight until it is dropped.
#[derive(Clone)]
pub struct XrcReceiveQueue {
    object: Arc<xrc::Srq>,
    number: u32,
}

impl XrcReceiveQueue {
    pub(super) fn new(
        domain: &XrcDomain,
        pd: &ProtectionDomain,
        cq: &CompletionQueue,
        size: (u32, u32),
    ) -> Result<Self> {
        let own = domain.context();
        if !pd.context().same(own) || !cq.context().same(own) {
            let invalid = Error::new("ibv_create_srq_ex", libc::EINVAL);
            return Err(invalid.because("an object of another open device"));
        }
        let object = xrc::create_srq(domain, pd, cq, size)?;
        let number = xrc::srq_number(&object)?;
        let object = Arc::new(object);
        Ok(Self { object, number })
    }

    /// Its number, by which senders name it.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Posts a receive request. Its completion returns its memory.
    ///
    /// # Errors
    /// Of ibv_post_srq_recv(3), with the request; EINVAL if its memory is of another protection
    /// domain. If the device may have the request, it does not come back ([`PostError`]).
    pub fn post_receive(
        &self,
        request: ReceiveRequest,
    ) -> std::result::Result<(), PostError<ReceiveRequest>> {
        request.post("ibv_post_srq_recv", &self.object.pd, |flight| {
            post::receive_srq(&*self.object, &self.object.queue, flight)
        })
    }
}

impl fmt::Debug for XrcReceiveQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("XrcReceiveQueue");
        shown.field("number", &self.number);
        shown.finish_non_exhaustive()
    }
}
