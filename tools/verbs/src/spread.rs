//! Work queues, and queue pairs that spread frames over them (RSS).
#![forbid(unsafe_code)]

use std::{fmt, ops::BitOr, sync::Arc};

use kit::abi::*;

use crate::{
    completion::CompletionQueue,
    context::Context,
    domain::ProtectionDomain,
    error::{Error, PostError, Result},
    flow::{Flow, Rule},
    request::ReceiveRequest,
    sys::{flow::Receiver, spread as sys},
};

/// A separate queue of receive requests: ibv_create_wq(3)
/// ([`ProtectionDomain::work_queue`]). Copies are the same one.
#[derive(Clone)]
pub struct WorkQueue(Arc<sys::Wq>);

impl WorkQueue {
    /// Its number, which completions have as that of their queue pair.
    #[must_use]
    pub fn number(&self) -> u32 {
        sys::wq_number(&self.0)
    }

    /// Posts a receive request.
    ///
    /// # Errors
    /// Of ibv_post_wq_recv(3), with the request; EINVAL if its memory is of another protection
    /// domain. If the device may have the request, it does not come back ([`PostError`]).
    pub fn post_receive(
        &self,
        request: ReceiveRequest,
    ) -> std::result::Result<(), PostError<ReceiveRequest>> {
        request.post("ibv_post_wq_recv", &self.0.pd, |flight| {
            sys::receive(&self.0, flight)
        })
    }

    /// Moves it into the error state: all requests complete, as flushed.
    ///
    /// # Errors
    /// Of ibv_modify_wq(3).
    pub fn shut_down(&self) -> Result<()> {
        sys::modify_wq(&self.0, IBV_WQS_ERR)
    }
}

impl fmt::Debug for WorkQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("WorkQueue");
        shown.field("number", &self.number());
        shown.finish_non_exhaustive()
    }
}

/// The fields of a frame that decide about its work queue: `enum ibv_rx_hash_fields`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashFields(u64);

impl HashFields {
    /// The source of IPv4.
    pub const IPV4_SOURCE: Self = Self::of(IBV_RX_HASH_SRC_IPV4);
    /// The destination of IPv4.
    pub const IPV4_DESTINATION: Self = Self::of(IBV_RX_HASH_DST_IPV4);
    /// The source of IPv6.
    pub const IPV6_SOURCE: Self = Self::of(IBV_RX_HASH_SRC_IPV6);
    /// The destination of IPv6.
    pub const IPV6_DESTINATION: Self = Self::of(IBV_RX_HASH_DST_IPV6);
    /// The source port of TCP.
    pub const TCP_SOURCE: Self = Self::of(IBV_RX_HASH_SRC_PORT_TCP);
    /// The destination port of TCP.
    pub const TCP_DESTINATION: Self = Self::of(IBV_RX_HASH_DST_PORT_TCP);
    /// The source port of UDP.
    pub const UDP_SOURCE: Self = Self::of(IBV_RX_HASH_SRC_PORT_UDP);
    /// The destination port of UDP.
    pub const UDP_DESTINATION: Self = Self::of(IBV_RX_HASH_DST_PORT_UDP);
    /// The index of IPsec.
    pub const IPSEC_INDEX: Self = Self::of(IBV_RX_HASH_IPSEC_SPI);

    #[expect(clippy::as_conversions, reason = "a constant; it widens")]
    const fn of(field: u32) -> Self {
        Self(field as u64)
    }
}

impl BitOr for HashFields {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A table of work queues ([`Context::work_queue_table`]), which it keeps. Copies are the same one.
#[derive(Clone)]
pub struct WorkQueueTable(Arc<sys::Table>);

impl fmt::Debug for WorkQueueTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("WorkQueueTable");
        shown.field("queues", &self.0.1.len());
        shown.finish_non_exhaustive()
    }
}

/// A queue pair that receives frames and spreads them over work queues, by a hash of their fields
/// ([`ProtectionDomain::spread`]).
pub struct SpreadQueuePair(Arc<sys::Spread>);

impl SpreadQueuePair {
    /// Receives the frames that meet a rule, until the flow is dropped.
    ///
    /// # Errors
    /// Of [`QueuePair::flow`](crate::QueuePair::flow).
    pub fn flow(&self, rule: &Rule) -> Result<Flow> {
        Flow::new(Receiver::Spread(Arc::clone(&self.0)), rule, 1)
    }
}

impl fmt::Debug for SpreadQueuePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpreadQueuePair").finish_non_exhaustive()
    }
}

impl Context {
    /// Makes a table of work queues, one of which may be there several times.
    ///
    /// # Errors
    /// Of ibv_create_rwq_ind_table(3): EINVAL if they are not as many as a power of two, and for
    /// those of another open device; EOPNOTSUPP if the device has no tables.
    pub fn work_queue_table(&self, queues: &[WorkQueue]) -> Result<WorkQueueTable> {
        let invalid = Error::new("ibv_create_rwq_ind_table", libc::EINVAL);
        if !queues.len().is_power_of_two() {
            return Err(invalid.because("the queues are not as many as a power of two"));
        }
        if !queues.iter().all(|one| one.0.pd.context().same(self)) {
            return Err(invalid.because("a work queue of another open device"));
        }
        let queues = queues.iter().map(|one| Arc::clone(&one.0)).collect();
        let table = sys::create_table(self, queues)?;
        Ok(WorkQueueTable(Arc::new(table)))
    }
}

impl ProtectionDomain {
    /// Makes a work queue for that many requests of at most that many segments, whose completions
    /// go to `cq`.
    ///
    /// # Errors
    /// Of ibv_create_wq(3): EOPNOTSUPP if the device has none; EINVAL for a completion queue of
    /// another open device; ENOSPC if the completion queue has too few entries
    /// ([`QueuePairBuilder`](crate::QueuePairBuilder)).
    pub fn work_queue(
        &self,
        cq: &CompletionQueue,
        requests: u32,
        segments: u32,
    ) -> Result<WorkQueue> {
        if !cq.context().same(self.context()) {
            let invalid = Error::new("ibv_create_wq", libc::EINVAL);
            return Err(invalid.because("a completion queue of another open device"));
        }
        let wq = sys::create_wq(self, cq, (requests, segments))?;
        sys::modify_wq(&wq, IBV_WQS_RDY)?;
        Ok(WorkQueue(Arc::new(wq)))
    }

    /// Makes a queue pair that spreads the frames of its flows over a table, by the Toeplitz hash
    /// of these fields with a key of 40 bytes.
    ///
    /// # Errors
    /// Of ibv_create_qp_ex(3): EOPNOTSUPP for fields that the device does not have, EINVAL for a
    /// key of another length or a table of another open device.
    pub fn spread(
        &self,
        table: &WorkQueueTable,
        fields: HashFields,
        key: &[u8],
    ) -> Result<SpreadQueuePair> {
        if !table.0.0.same(self.context()) {
            let invalid = Error::new("ibv_create_qp_ex", libc::EINVAL);
            return Err(invalid.because("a table of another open device"));
        }
        let qp = sys::create_spread(self, &table.0, fields.0, key)?;
        Ok(SpreadQueuePair(Arc::new(qp)))
    }
}
