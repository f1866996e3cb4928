//! Work requests.
#![forbid(unsafe_code)]

use std::sync::Arc;

use kit::abi::*;
use smallvec::{SmallVec, smallvec};

use crate::{
    address::AddressHandle,
    completion::Operation,
    domain::ProtectionDomain,
    error::{Error, PostError},
    memory::{Access, RegionSlice, RemoteMemory, Segment},
    sys::{
        calls,
        flight::{Effect, InFlight, Unposted},
        post,
        window::Binding,
    },
    window::MemoryWindow,
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
    invalidated: Option<u32>,
    binding: Option<Binding>,
    srq: Option<u32>,
    flush: (u8, u8),
    flags: ibv_send_flags,
}

/// Where a datagram goes.
pub(crate) struct Receiver {
    pub address: AddressHandle,
    pub number: u32,
    pub qkey: u32,
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
            invalidated: None,
            binding: None,
            srq: None,
            flush: (0, 0),
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

    /// Writes eight bytes to eight aligned bytes of the peer's memory at once: no reader sees a
    /// part of them. The peer's region has [`Access::REMOTE_WRITE`]. It is posted in a batch
    /// ([`QueuePair::batch`](crate::QueuePair::batch)): ibv_wr_atomic_write(3).
    ///
    /// ```
    /// use verbs::{Access, Operation, SendRequest};
    /// # verbs::use_uroce("lo");
    /// # let context = verbs::Device::find("uroce_lo")?.open()?;
    /// # let pd = context.protection_domain()?;
    /// # let cq = context.completion_queue(64)?;
    /// # let access = Access::REMOTE_WRITE | Access::FLUSH_GLOBAL;
    /// # let build = || pd.reliable(&cq).access(access).batches().build();
    /// # let (a, b) = (build()?, build()?);
    /// # let (at_a, at_b) = (a.endpoint(), b.endpoint());
    /// # let (qp, b) = (a.connect(&at_b)?, b.connect(&at_a)?);
    /// let region = pd.memory_region(4096, Access::REMOTE_WRITE | Access::FLUSH_GLOBAL)?;
    /// # let remote = region.remote();
    /// let mut batch = qp.batch();
    /// batch.push(SendRequest::flush(remote, false))?;
    /// batch.push(SendRequest::atomic_write(*b"complete", remote))?;
    /// batch.post()?;
    /// # let mut done = 0;
    /// # while done < 2 {
    /// for completion in cq.wait()? {
    ///     completion.success()?;
    /// #   done += 1;
    /// }
    /// # }
    /// # let mut bytes = [0; 8];
    /// # region.read(0, &mut bytes)?;
    /// # assert_eq!(&bytes, b"complete");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn atomic_write(bytes: [u8; 8], remote: RemoteMemory) -> Self {
        Self {
            inline: Some(Box::new(bytes)),
            ..Self::new(Operation::AtomicWrite)
        }
        .at(remote)
    }

    /// Completes when all that this queue pair has written to the peer's memory before can be seen
    /// by all of the peer, or, if it is to be `persistent`, outlives a loss of power. The peer's
    /// region and queue pair have [`Access::FLUSH_GLOBAL`] or [`Access::FLUSH_PERSISTENT`]. It is
    /// posted in a batch: ibv_wr_flush(3).
    pub fn flush(remote: RemoteMemory, persistent: bool) -> Self {
        Self::flushes(remote, persistent, IBV_FLUSH_RANGE)
    }

    /// The same for the whole region that the memory is a part of.
    pub fn flush_region(remote: RemoteMemory, persistent: bool) -> Self {
        Self::flushes(remote, persistent, IBV_FLUSH_MR)
    }

    fn flushes(remote: RemoteMemory, persistent: bool, level: ibv_selectivity_level) -> Self {
        let placement = match persistent {
            true => IBV_FLUSH_PERSISTENT,
            false => IBV_FLUSH_GLOBAL,
        };
        // Numbers of both enumerations fit.
        let number = |of: u32| u8::try_from(of).unwrap_or(0);
        Self {
            flush: (number(placement), number(level)),
            ..Self::new(Operation::Flush)
        }
        .at(remote)
    }

    /// Binds a window to a part of a region, which has [`Access::WINDOW`]; a peer then has this
    /// access by the window's key ([`MemoryWindow::remote`]). The window keeps the region, also
    /// when it is bound to another one, until it is dropped.
    ///
    /// If a device cannot bind it so, the request fails: a window of type 2 that is bound already,
    /// a region that does not allow it.
    pub fn bind(window: &MemoryWindow, slice: RegionSlice, access: Access) -> Self {
        Self::binding(window, Some(slice), access)
    }

    /// Unbinds a window of type 1. One of type 2 is invalidated instead.
    pub fn unbind(window: &MemoryWindow) -> Self {
        Self::binding(window, None, Access::LOCAL)
    }

    fn binding(window: &MemoryWindow, slice: Option<RegionSlice>, access: Access) -> Self {
        let window = Arc::clone(window.inner());
        let binding = Binding {
            window,
            slice,
            access,
        };
        Self {
            binding: Some(binding),
            ..Self::new(Operation::Bind)
        }
    }

    /// Invalidates the key of a window of type 2 of this end: no peer has access by it any more.
    pub fn invalidate(rkey: u32) -> Self {
        Self {
            invalidated: Some(rkey),
            ..Self::new(Operation::Invalidate)
        }
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

    /// The receive queue of a request of XRC, which takes the message or the immediate data, and
    /// whose protection domain has the memory that is written or read: its number
    /// ([`XrcReceiveQueue::number`](crate::XrcReceiveQueue::number)).
    pub fn receive_queue(mut self, number: u32) -> Self {
        self.srq = Some(number);
        self
    }

    /// The message invalidates the key of a window of type 2 of the peer, which was bound by the
    /// same connection ([`Completion::invalidated`](crate::Completion)). A message has either this
    /// or immediate data.
    pub fn invalidating(mut self, rkey: u32) -> Self {
        self.invalidated = Some(rkey);
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
        let invalidates = self.invalidated.is_some();
        Some(match (self.operation, self.immediate, invalidates) {
            (Operation::Send, None, false) => IBV_WR_SEND,
            (Operation::Send, Some(_), false) => IBV_WR_SEND_WITH_IMM,
            (Operation::Send, None, true) => IBV_WR_SEND_WITH_INV,
            (Operation::Write, None, false) => IBV_WR_RDMA_WRITE,
            (Operation::Write, Some(_), false) => IBV_WR_RDMA_WRITE_WITH_IMM,
            (Operation::Read, None, false) => IBV_WR_RDMA_READ,
            (Operation::FetchAdd, None, false) => IBV_WR_ATOMIC_FETCH_AND_ADD,
            (Operation::CompareSwap, None, false) => IBV_WR_ATOMIC_CMP_AND_SWP,
            (Operation::AtomicWrite, None, false) => IBV_WR_ATOMIC_WRITE,
            (Operation::Flush, None, false) => IBV_WR_FLUSH,
            (Operation::Bind, None, false) => IBV_WR_BIND_MW,
            (Operation::Invalidate, None, true) => IBV_WR_LOCAL_INV,
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
        let xrc = kind == IBV_QPT_XRC_SEND;
        let reliable = xrc || kind == IBV_QPT_RC;
        let has = match self.operation {
            Operation::Send => self.invalidated.is_none() || reliable,
            Operation::Write | Operation::Bind | Operation::Invalidate => {
                reliable || kind == IBV_QPT_UC
            }
            _ => reliable,
        };
        if !has {
            return Err("this type of queue pair does not have the operation");
        }
        let plain = self.immediate.is_none() && self.invalidated.is_none();
        if kind == IBV_QPT_RAW_PACKET && !plain {
            return Err("a frame has no immediate data, and invalidates no key");
        }
        let moves = !matches!(self.operation, Operation::Bind | Operation::Invalidate);
        match self.srq {
            None if xrc && moves => return Err("a request of XRC names a receive queue"),
            Some(_) if !xrc => return Err("only requests of XRC name a receive queue"),
            _ => {}
        }
        let remote = self.remote.unwrap_or_default();
        if self.remote.is_some() && self.length() > remote.length {
            return Err("the peer's memory is shorter");
        }
        if self.atomic.is_some() && (self.length() != 8 || remote.address & 7 != 0) {
            return Err("an atomic operation has eight bytes and an aligned remote address");
        }
        let writes = self.operation == Operation::AtomicWrite;
        if writes && remote.address & 7 != 0 {
            return Err("an atomic write has an aligned remote address");
        }
        let mut domains = self.segments.iter().map(Segment::domain);
        if !domains.all(|one| one.same(pd)) {
            return Err("memory of another protection domain");
        }
        if self.inline.is_some() && !self.segments.iter().all(Segment::is_host) {
            return Err("memory that is not this process's cannot be sent inline");
        }
        if !address.is_none_or(|address| address.domain().same(pd)) {
            return Err("an address handle of another protection domain");
        }
        if let Some(binding) = &self.binding {
            let slice = binding.slice.as_ref();
            let regions = slice.is_none_or(|slice| slice.domain().same(pd));
            if !regions || !binding.window.domain().same(pd) {
                return Err("a window or a region of another protection domain");
            }
            if slice.is_none() && binding.window.kind() != IBV_MW_TYPE_1 {
                return Err("a window of type 2 is invalidated, not unbound");
            }
        }
        let local = moves && !writes && self.operation != Operation::Flush;
        if !local && !self.segments.is_empty() {
            return Err("the operation has no memory");
        }
        self.opcode()
            .ok_or("the operation has no immediate data, or invalidates no key")
    }

    /// The same for a batch.
    pub(crate) fn check_for_batch(
        &self,
        kind: ibv_qp_type,
        pd: &ProtectionDomain,
        address: Option<&AddressHandle>,
    ) -> Result<ibv_wr_opcode, Error> {
        let invalid = Error::new("ibv_wr_start", libc::EINVAL);
        let binding = self.binding.as_ref();
        if binding.is_some_and(|binding| binding.window.kind() == IBV_MW_TYPE_1) {
            return Err(invalid.because("windows of type 1 are not bound in a batch"));
        }
        let checked = self.check(kind, pd, address);
        checked.map_err(|reason| invalid.because(reason))
    }

    /// What the send queue owns of it while it is in flight.
    pub(crate) fn take_flight(&mut self, to: Option<&Receiver>) -> InFlight {
        InFlight {
            id: self.id,
            operation: self.operation,
            signaled: self.flags & IBV_SEND_SIGNALED != 0,
            segments: std::mem::take(&mut self.segments),
            address: to.map(|to| to.address.clone()),
            effect: self.binding.clone().map(Effect::Binds).map(Box::new),
        }
    }

    /// Takes back its memory, as it was not posted.
    pub(crate) fn with_flight(mut self, flight: InFlight) -> Self {
        self.segments = flight.segments;
        self
    }

    pub(crate) fn details(
        &self,
        opcode: ibv_wr_opcode,
        to: Option<&Receiver>,
    ) -> post::Details<'_> {
        post::Details {
            opcode,
            flags: self.flags,
            immediate: self.immediate.unwrap_or(0),
            remote: self.remote,
            atomic: self.atomic,
            inline: self.inline.as_deref(),
            receiver: to.map_or((0, 0), |to| (to.number, to.qkey)),
            invalidated: self.invalidated.unwrap_or(0),
            srq: self.srq,
            flush: self.flush,
        }
    }

    pub(crate) fn post(
        mut self,
        kind: ibv_qp_type,
        qp: &calls::Qp,
        to: Option<Receiver>,
    ) -> Result<(), PostError<Self>> {
        let to = to.as_ref();
        if matches!(self.operation, Operation::AtomicWrite | Operation::Flush) {
            let invalid = Error::new("ibv_post_send", libc::EINVAL);
            let invalid = invalid.because("the operation is posted in a batch alone");
            return Err(PostError::new(invalid, self));
        }
        let opcode = match self.check(kind, &qp.pd, to.map(|to| &to.address)) {
            Ok(opcode) => opcode,
            Err(reason) => {
                let invalid = Error::new("ibv_post_send", libc::EINVAL);
                return Err(PostError::new(invalid.because(reason), self));
            }
        };
        let flight = self.take_flight(to);
        let details = self.details(opcode, to);
        post::send(qp, &qp.sends, flight, &details).map_err(|(error, flight)| match flight {
            Some(flight) => PostError::new(error, self.with_flight(flight)),
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
        self,
        verb: &'static str,
        pd: &ProtectionDomain,
        post: impl FnOnce(InFlight) -> Result<(), Unposted>,
    ) -> Result<(), PostError<Self>> {
        self.post_as(Operation::Receive, verb, pd, post)
    }

    /// The same for a receive of another kind, with what the post returns.
    pub(crate) fn post_as<T>(
        mut self,
        operation: Operation,
        verb: &'static str,
        pd: &ProtectionDomain,
        post: impl FnOnce(InFlight) -> Result<T, Unposted>,
    ) -> Result<T, PostError<Self>> {
        if !self.segments.iter().all(|one| one.domain().same(pd)) {
            let invalid = Error::new(verb, libc::EINVAL);
            let invalid = invalid.because("memory of another protection domain");
            return Err(PostError::new(invalid, self));
        }
        let flight = InFlight {
            segments: std::mem::take(&mut self.segments),
            ..InFlight::without_memory(self.id, operation)
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
