//! Work requests.
#![forbid(unsafe_code)]

use kit::abi::*;
use smallvec::{SmallVec, smallvec};

use crate::{
    address::AddressHandle,
    completion::Operation,
    domain::ProtectionDomain,
    error::{Error, PostError},
    memory::{RemoteMemory, Segment},
    sys::{
        calls,
        flight::{InFlight, Unposted},
        post,
    },
};

/// The operands of an atomic operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Atomic {
    pub compare_add: u64,
    pub swap: u64,
}

/// A request for a send queue. It owns its memory; the completion returns it.
#[derive(Debug)]
#[must_use = "a request does nothing before it is posted"]
pub struct SendRequest {
    id: u64,
    operation: Operation,
    segments: SmallVec<[Segment; 1]>,
    inline: Option<Box<[u8]>>,
    remote: Option<RemoteMemory>,
    atomic: Option<Atomic>,
    immediate: Option<u32>,
    flags: ibv_send_flags,
}

impl SendRequest {
    fn new(operation: Operation) -> Self {
        Self {
            id: 0,
            operation,
            segments: SmallVec::new(),
            inline: None,
            remote: None,
            atomic: None,
            immediate: None,
            flags: IBV_SEND_SIGNALED,
        }
    }

    fn of(operation: Operation, memory: impl Into<Segment>) -> Self {
        Self {
            segments: smallvec![memory.into()],
            ..Self::new(operation)
        }
    }

    fn inline(operation: Operation, bytes: impl Into<Box<[u8]>>) -> Self {
        Self {
            inline: Some(bytes.into()),
            flags: IBV_SEND_SIGNALED | IBV_SEND_INLINE,
            ..Self::new(operation)
        }
    }

    /// A message from this memory.
    pub fn send(memory: impl Into<Segment>) -> Self {
        Self::of(Operation::Send, memory)
    }

    /// A message of these bytes, which the device copies while the request is posted, as it does
    /// with further memory. The queue pair has to be made with room for all of it (`inline`), and
    /// the bytes are one of its segments.
    pub fn send_inline(bytes: impl Into<Box<[u8]>>) -> Self {
        Self::inline(Operation::Send, bytes)
    }

    /// An RDMA write of this memory to a peer's.
    pub fn write(memory: impl Into<Segment>, remote: RemoteMemory) -> Self {
        Self::of(Operation::Write, memory).at(remote)
    }

    /// An RDMA write of these bytes, which the device copies while the request is posted.
    pub fn write_inline(bytes: impl Into<Box<[u8]>>, remote: RemoteMemory) -> Self {
        Self::inline(Operation::Write, bytes).at(remote)
    }

    /// An RDMA read of a peer's memory into this.
    pub fn read(memory: impl Into<Segment>, remote: RemoteMemory) -> Self {
        Self::of(Operation::Read, memory).at(remote)
    }

    /// Adds to eight aligned bytes of the peer's memory; their former value comes into this memory
    /// of eight bytes. Both are integers of the host's byte order.
    pub fn fetch_add(memory: impl Into<Segment>, remote: RemoteMemory, add: u64) -> Self {
        let mut request = Self::of(Operation::FetchAdd, memory).at(remote);
        request.atomic = Some(Atomic {
            compare_add: add,
            swap: 0,
        });
        request
    }

    /// Sets eight aligned bytes of the peer's memory to `swap` if they are `compare`; their former
    /// value comes into this memory of eight bytes.
    pub fn compare_swap(
        memory: impl Into<Segment>,
        remote: RemoteMemory,
        compare: u64,
        swap: u64,
    ) -> Self {
        let mut request = Self::of(Operation::CompareSwap, memory).at(remote);
        request.atomic = Some(Atomic {
            compare_add: compare,
            swap,
        });
        request
    }

    fn at(mut self, remote: RemoteMemory) -> Self {
        self.remote = Some(remote);
        self
    }

    /// A number for the program; the completion has it.
    pub fn id(mut self, id: u64) -> Self {
        self.id = id;
        self
    }

    /// Immediate data, for a message or a write. A write with it takes a receive request of the
    /// peer.
    pub fn immediate(mut self, data: u32) -> Self {
        self.immediate = Some(data);
        self
    }

    /// Further memory, behind that which the request has.
    pub fn and(mut self, memory: impl Into<Segment>) -> Self {
        self.segments.push(memory.into());
        self
    }

    /// The device reports no completion for this request: the next signaled one of the queue pair,
    /// or an error, completes it as well. A queue of unsignaled requests alone fills up.
    pub fn unsignaled(mut self) -> Self {
        self.flags &= !IBV_SEND_SIGNALED;
        self
    }

    /// Wakes a receiver that waits for solicited events alone.
    pub fn solicited(mut self) -> Self {
        self.flags |= IBV_SEND_SOLICITED;
        self
    }

    /// Begins after all reads and atomic operations before it.
    pub fn fenced(mut self) -> Self {
        self.flags |= IBV_SEND_FENCE;
        self
    }

    /// The memory of the request, which was not posted.
    #[must_use]
    pub fn into_segments(self) -> Vec<Segment> {
        self.segments.into_vec()
    }

    fn length(&self) -> u64 {
        let inline = self.inline.as_ref().map_or(0, |bytes| bytes.len());
        let lengths = self.segments.iter().map(Segment::len);
        let all = lengths.fold(inline, usize::saturating_add);
        u64::try_from(all).unwrap_or(u64::MAX)
    }

    fn opcode(&self) -> Option<ibv_wr_opcode> {
        Some(match (self.operation, self.immediate) {
            (Operation::Send, None) => IBV_WR_SEND,
            (Operation::Send, Some(_)) => IBV_WR_SEND_WITH_IMM,
            (Operation::Write, None) => IBV_WR_RDMA_WRITE,
            (Operation::Write, Some(_)) => IBV_WR_RDMA_WRITE_WITH_IMM,
            (Operation::Read, None) => IBV_WR_RDMA_READ,
            (Operation::FetchAdd, None) => IBV_WR_ATOMIC_FETCH_AND_ADD,
            (Operation::CompareSwap, None) => IBV_WR_ATOMIC_CMP_AND_SWP,
            _ => return None,
        })
    }

    /// Refuses requests that the type of queue pair does not have, and what no device would report:
    /// memory of another domain, and more bytes than the peer's memory has.
    fn check(
        &self,
        kind: ibv_qp_type,
        pd: &ProtectionDomain,
        address: Option<&AddressHandle>,
    ) -> Result<ibv_wr_opcode, &'static str> {
        let has = match self.operation {
            Operation::Send => true,
            Operation::Write => kind == IBV_QPT_RC || kind == IBV_QPT_UC,
            _ => kind == IBV_QPT_RC,
        };
        if !has {
            return Err("this type of queue pair does not have the operation");
        }
        let remote = self.remote.unwrap_or_default();
        if self.remote.is_some() && self.length() > remote.length {
            return Err("the peer's memory is shorter");
        }
        if self.atomic.is_some() && (self.length() != 8 || remote.address & 7 != 0) {
            return Err("an atomic operation has eight bytes and an aligned remote address");
        }
        let mut domains = self.segments.iter().map(Segment::domain);
        if !domains.all(|one| one.same(pd)) {
            return Err("memory of another protection domain");
        }
        if !address.is_none_or(|address| address.domain().same(pd)) {
            return Err("an address handle of another protection domain");
        }
        self.opcode().ok_or("the operation has no immediate data")
    }

    pub(crate) fn post(
        mut self,
        kind: ibv_qp_type,
        qp: &calls::Qp,
        to: Option<(&AddressHandle, u32, u32)>,
    ) -> Result<(), PostError<Self>> {
        let address = to.map(|(address, ..)| address);
        let opcode = match self.check(kind, &qp.pd, address) {
            Ok(opcode) => opcode,
            Err(reason) => {
                let invalid = Error::new("ibv_post_send", libc::EINVAL);
                return Err(PostError::new(invalid.because(reason), self));
            }
        };
        let flight = InFlight {
            id: self.id,
            operation: self.operation,
            signaled: self.flags & IBV_SEND_SIGNALED != 0,
            segments: std::mem::take(&mut self.segments),
            address: address.cloned(),
        };
        let details = post::Details {
            opcode,
            flags: self.flags,
            immediate: self.immediate.unwrap_or(0),
            remote: self.remote,
            atomic: self.atomic,
            inline: self.inline.as_deref(),
            receiver: to.map_or((0, 0), |(_, number, key)| (number, key)),
        };
        post::send(qp, &qp.sends, flight, &details).map_err(|(error, flight)| match flight {
            Some(flight) => {
                self.segments = flight.segments;
                PostError::new(error, self)
            }
            None => PostError::kept(error),
        })
    }
}

/// A request for a receive queue. It owns its memory; the completion returns it.
#[derive(Debug)]
#[must_use = "a request does nothing before it is posted"]
pub struct ReceiveRequest {
    id: u64,
    segments: SmallVec<[Segment; 1]>,
}

impl ReceiveRequest {
    /// Receives a message into this memory.
    pub fn new(memory: impl Into<Segment>) -> Self {
        Self {
            id: 0,
            segments: smallvec![memory.into()],
        }
    }

    /// Receives no bytes: for a write with immediate data.
    pub fn empty() -> Self {
        Self {
            id: 0,
            segments: SmallVec::new(),
        }
    }

    /// A number for the program; the completion has it.
    pub fn id(mut self, id: u64) -> Self {
        self.id = id;
        self
    }

    /// Further memory, behind that which the request has.
    pub fn and(mut self, memory: impl Into<Segment>) -> Self {
        self.segments.push(memory.into());
        self
    }

    /// The memory of the request, which was not posted.
    #[must_use]
    pub fn into_segments(self) -> Vec<Segment> {
        self.segments.into_vec()
    }

    pub(crate) fn post(
        mut self,
        verb: &'static str,
        pd: &ProtectionDomain,
        post: impl FnOnce(InFlight) -> Result<(), Unposted>,
    ) -> Result<(), PostError<Self>> {
        if !self.segments.iter().all(|one| one.domain().same(pd)) {
            let invalid = Error::new(verb, libc::EINVAL);
            let invalid = invalid.because("memory of another protection domain");
            return Err(PostError::new(invalid, self));
        }
        let flight = InFlight {
            id: self.id,
            operation: Operation::Receive,
            signaled: true,
            segments: std::mem::take(&mut self.segments),
            address: None,
        };
        post(flight).map_err(|(error, flight)| match flight {
            Some(flight) => {
                self.segments = flight.segments;
                PostError::new(error, self)
            }
            None => PostError::kept(error),
        })
    }
}
