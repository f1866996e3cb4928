//! Protection domains.
#![forbid(unsafe_code)]

use std::{fmt, sync::Arc};

use crate::{
    completion::CompletionQueue,
    context::Context,
    error::Result,
    memory::{Access, Buffer, MemoryRegion},
    qp::{Datagram, QueuePairBuilder, Reliable, Unreliable},
    srq::SharedReceiveQueue,
    sys::calls,
};

/// A protection domain: memory, queue pairs and address handles of one domain work together.
/// Copies are the same one.
#[derive(Clone)]
pub struct ProtectionDomain(Arc<calls::Pd>);

impl ProtectionDomain {
    pub(crate) fn new(context: &Context) -> Result<Self> {
        Ok(Self(Arc::new(calls::alloc_pd(context)?)))
    }

    pub(crate) fn object(&self) -> &calls::Pd {
        &self.0
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The device.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.0
    }

    /// Allocates and registers memory that belongs to this program alone, all zero.
    ///
    /// # Errors
    /// Of ibv_reg_mr(3).
    pub fn buffer(&self, length: usize) -> Result<Buffer> {
        Buffer::new(self, length)
    }

    /// Allocates and registers memory that remote peers may access, all zero.
    ///
    /// # Errors
    /// Of ibv_reg_mr(3).
    pub fn memory_region(&self, length: usize, access: Access) -> Result<MemoryRegion> {
        MemoryRegion::new(self, length, access)
    }

    /// Makes a shared receive queue for that many requests of at most that many segments.
    ///
    /// # Errors
    /// Of ibv_create_srq(3).
    pub fn shared_receive_queue(&self, requests: u32, segments: u32) -> Result<SharedReceiveQueue> {
        SharedReceiveQueue::new(self, requests, segments)
    }

    /// Begins a queue pair of a reliable connection (RC), whose completions go to `cq`.
    pub fn reliable(&self, cq: &CompletionQueue) -> QueuePairBuilder<Reliable> {
        QueuePairBuilder::new(self, cq)
    }

    /// Begins a queue pair of an unreliable connection (UC).
    pub fn unreliable(&self, cq: &CompletionQueue) -> QueuePairBuilder<Unreliable> {
        QueuePairBuilder::new(self, cq)
    }

    /// Begins a queue pair for datagrams (UD).
    pub fn datagram(&self, cq: &CompletionQueue) -> QueuePairBuilder<Datagram> {
        QueuePairBuilder::new(self, cq)
    }
}

impl fmt::Debug for ProtectionDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProtectionDomain").finish_non_exhaustive()
    }
}
