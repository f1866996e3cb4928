//! The interface between a queue pair and the owner of memory, queues and time, the host. The
//! engine requests an access to memory; the host executes it and returns whether it succeeded.

use crate::psn::Psn;
use crate::work::{Completion, Event, Receive, Sge};

/// Memory could not be used: a wrong key, another protection domain, beyond the bounds, or an
/// access that the region does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// An RDMA write that the host had taken to be done later could not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateFault {
    /// The PSN of its packet, the first of several.
    pub psn: Psn,
}

/// Local memory is read (gathered) or written (scattered).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LocalAccess {
    /// Gathered.
    Read,
    /// Scattered.
    Write,
}

/// Kinds of access by a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemoteAccess {
    /// RDMA read.
    Read,
    /// RDMA write, atomic write.
    Write,
    /// Compare and swap, fetch and add.
    Atomic,
    /// Flush, with FETH's placement and selectivity.
    Flush {
        /// PLT.
        placement: u8,
        /// SEL.
        selectivity: u8,
    },
}

/// Memory that a peer named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteRange {
    /// R_Key.
    pub rkey: u32,
    /// First byte. The sum with the length may lie beyond 2^64; the host checks it.
    pub address: u64,
    /// Bytes, at least 1.
    pub length: u32,
}

/// An operation on 8 bytes, aligned to 8; values in the host's byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    /// Compare and swap.
    CompareSwap {
        /// Compared with.
        compare: u64,
        /// Stored if equal.
        swap: u64,
    },
    /// Fetch and add, modulo 2^64.
    FetchAdd(u64),
}

/// Owner of receive requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReceiveSource {
    /// The queue pair's own queue, or the shared one it was made with.
    Own,
    /// XRC: the shared receive queue of this number.
    Srq(u32),
}

/// Why there is no receive request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoReceive {
    /// The queue is empty.
    Empty,
    /// There is no such queue, or not in the queue pair's XRC domain.
    Unknown,
}

/// The owner of memory, queues and keys. Each call is complete when it returns; none may call the
/// queue pair.
pub trait Host {
    /// Whether all pieces may be used so.
    ///
    /// # Errors
    /// [`Fault`] if one may not.
    fn check_local(&mut self, sges: &[Sge], access: LocalAccess) -> Result<(), Fault>;

    /// Writes `data` into the pieces, `offset` bytes after the first one's beginning. The pieces
    /// have room; they may have become invalid since they were checked.
    ///
    /// # Errors
    /// [`Fault`] if a piece may not be written.
    fn scatter(&mut self, sges: &[Sge], offset: u64, data: &[u8]) -> Result<(), Fault>;

    /// Whether a peer may do this with memory.
    ///
    /// # Errors
    /// [`Fault`] if not.
    fn check_remote(&mut self, range: RemoteRange, access: RemoteAccess) -> Result<(), Fault>;

    /// RDMA write of the packet with that PSN; checks the key again, since it may have become
    /// invalid between packets. The host may do it later, at the latest in [`Host::settle`].
    ///
    /// # Errors
    /// [`Fault`] if memory may not be written.
    fn write(&mut self, psn: Psn, rkey: u32, address: u64, data: &[u8]) -> Result<(), Fault>;

    /// Does all writes that were to be done later. Called before the first packet of a request that
    /// is not a write is executed, and before receive requests complete. A failure is reported
    /// once. By default it does nothing, for hosts that do each write at once.
    ///
    /// # Errors
    /// [`LateFault`] if one could not be done.
    fn settle(&mut self) -> Result<(), LateFault> {
        Ok(())
    }

    /// Atomic write of 8 aligned bytes.
    ///
    /// # Errors
    /// [`Fault`] if memory may not be written.
    fn atomic_write(&mut self, rkey: u32, address: u64, data: [u8; 8]) -> Result<(), Fault>;

    /// An atomic operation; returns the previous value.
    ///
    /// # Errors
    /// [`Fault`] if memory may not be used so.
    fn atomic(&mut self, rkey: u32, address: u64, operation: Atomic) -> Result<u64, Fault>;

    /// Makes earlier writes visible or persistent, according to FETH's placement.
    ///
    /// # Errors
    /// [`Fault`] if that is not possible.
    fn flush(&mut self, range: RemoteRange, placement: u8, selectivity: u8) -> Result<(), Fault>;

    /// Invalidates an R_Key; `remote` if the peer asks for it.
    ///
    /// # Errors
    /// [`Fault`] if the key is not one that may be invalidated so.
    fn invalidate(&mut self, rkey: u32, remote: bool) -> Result<(), Fault>;

    /// Carries out [`crate::work::Request::Bind`].
    ///
    /// # Errors
    /// [`Fault`] if the window cannot be bound so.
    fn bind(&mut self, what: u64) -> Result<(), Fault>;

    /// Takes the next receive request.
    ///
    /// # Errors
    /// The reasons of [`NoReceive`].
    fn receive(&mut self, source: ReceiveSource) -> Result<Receive, NoReceive>;

    /// How many receive requests are left, for the credits in acknowledgements; `None` (the
    /// default) if they are shared or not to be advertised.
    fn credits(&mut self) -> Option<u32> {
        None
    }

    /// A completion, in the order in which they are to be seen.
    fn complete(&mut self, completion: Completion);

    /// A request has succeeded without a completion. Hosts that count requests implement this; by
    /// default it does nothing.
    fn ended(&mut self, unseen: &Completion) {
        let _ = unseen;
    }

    /// An asynchronous event.
    fn event(&mut self, event: Event);
}
