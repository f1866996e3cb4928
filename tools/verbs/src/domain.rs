//! Protection domains.
#![forbid(unsafe_code)]

use std::{fmt, ops::Range, os::fd::BorrowedFd, sync::Arc};

use crate::{
    completion::CompletionQueue,
    context::Context,
    device_memory::DeviceMemory,
    error::{Error, Result},
    memory::{Access, Buffer, MemoryRegion},
    qp::QueuePairBuilder,
    srq::SharedReceiveQueue,
    sys::{
        calls,
        owner::{ExclusiveMemory, MemoryOwner},
        region::Dmabuf,
    },
    transport::{Datagram, RawPacket, Reliable, Unreliable, XrcInitiator},
    window::MemoryWindow,
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

    /// Registers memory of the program's own that this program alone accesses, for example a
    /// vector.
    ///
    /// ```
    /// # verbs::use_uroce("lo");
    /// # let context = verbs::Device::find("uroce_lo")?.open()?;
    /// # let pd = context.protection_domain()?;
    /// let buffer = pd.buffer_of(b"a message".to_vec())?;
    /// assert_eq!(&*buffer, b"a message");
    /// # Ok::<(), verbs::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of ibv_reg_mr(3). The owner is dropped then.
    pub fn buffer_of(&self, owner: impl ExclusiveMemory) -> Result<Buffer> {
        Buffer::of(self, owner)
    }

    /// Registers memory of the program's own that remote peers may access, and other processes: for
    /// example memory that is mapped. The region has its owner, whose type states by `unsafe` that
    /// the memory stays ([`MemoryOwner`]).
    ///
    /// # Errors
    /// Of ibv_reg_mr(3). The owner is dropped then.
    pub fn region_of(&self, owner: impl MemoryOwner, access: Access) -> Result<MemoryRegion> {
        MemoryRegion::of(self, owner, access)
    }

    /// Allocates and registers memory that remote peers may access, all zero, whose first byte has
    /// this address in requests, in place of that in this process. Peers can then have addresses
    /// that mean something to them.
    ///
    /// ```
    /// use verbs::Access;
    /// # verbs::use_uroce("lo");
    /// # let context = verbs::Device::find("uroce_lo")?.open()?;
    /// # let pd = context.protection_domain()?;
    /// let region = pd.memory_region_at(4096, 0x1000_0000, Access::REMOTE_WRITE)?;
    /// assert_eq!(region.remote().address, 0x1000_0000);
    /// # Ok::<(), verbs::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of ibv_reg_mr_iova(3): EINVAL for addresses that end before the memory does.
    pub fn memory_region_at(
        &self,
        length: usize,
        address: u64,
        access: Access,
    ) -> Result<MemoryRegion> {
        MemoryRegion::placed(self, length, address, access)
    }

    /// Makes a region without memory for local requests: zeros are read from it, and bytes
    /// that are written to it are lost. A part of a message that the program does not need is
    /// received there.
    ///
    /// ```
    /// # verbs::use_uroce("lo");
    /// # let context = verbs::Device::find("uroce_lo")?.open()?;
    /// # let pd = context.protection_domain()?;
    /// use verbs::ReceiveRequest;
    ///
    /// let nothing = pd.null_region()?;
    /// // 64 bytes of a message are thrown away, and the rest is received.
    /// let request = ReceiveRequest::new(nothing.slice(0..64)?).and(pd.buffer(1024)?);
    /// # drop(request);
    /// # Ok::<(), verbs::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of ibv_alloc_null_mr(3): EOPNOTSUPP if the device has none.
    pub fn null_region(&self) -> Result<MemoryRegion> {
        MemoryRegion::null(self)
    }

    /// Registers a part of a DMA buffer, such as memory of a GPU. `address` is that of its first
    /// byte in requests. This process does not access it: [`MemoryRegion::read`] and
    /// [`MemoryRegion::write`] fail with EOPNOTSUPP.
    ///
    /// # Errors
    /// Of ibv_reg_dmabuf_mr(3): EOPNOTSUPP if the device has no such regions, as uroce.
    pub fn dmabuf_region(
        &self,
        fd: BorrowedFd<'_>,
        range: Range<u64>,
        address: u64,
        access: Access,
    ) -> Result<MemoryRegion> {
        let invalid = Error::new("ibv_reg_dmabuf_mr", libc::EINVAL);
        let length = range.end.checked_sub(range.start);
        let length = length.and_then(|length| usize::try_from(length).ok());
        let part = Dmabuf {
            fd,
            offset: range.start,
            length: length.ok_or(invalid)?,
            address,
        };
        MemoryRegion::of_dmabuf(self, part, access)
    }

    /// Registers a part of a device's memory. Its addresses begin at 0. It is copied by
    /// [`DeviceMemory::read`] and [`DeviceMemory::write`]; those of the region fail with
    /// EOPNOTSUPP.
    ///
    /// # Errors
    /// Of ibv_reg_dm_mr(3): EOPNOTSUPP if the device has no such regions; EINVAL for memory of
    /// another open device, and past the end.
    pub fn device_memory_region(
        &self,
        memory: &DeviceMemory,
        range: Range<usize>,
        access: Access,
    ) -> Result<MemoryRegion> {
        MemoryRegion::of_device(self, memory, range, access)
    }

    /// Makes a memory window of type 1.
    ///
    /// # Errors
    /// Of ibv_alloc_mw(3): EOPNOTSUPP if the device has no windows.
    pub fn memory_window(&self) -> Result<MemoryWindow> {
        MemoryWindow::of_type_1(self)
    }

    /// Makes a memory window of type 2.
    ///
    /// # Errors
    /// Of ibv_alloc_mw(3): EOPNOTSUPP if the device has no windows.
    pub fn memory_window_2(&self) -> Result<MemoryWindow> {
        MemoryWindow::of_type_2(self)
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

    /// Begins a sending queue pair of XRC, whose completions go to `cq`.
    pub fn xrc_initiator(&self, cq: &CompletionQueue) -> QueuePairBuilder<XrcInitiator> {
        QueuePairBuilder::new(self, cq)
    }

    /// Begins a queue pair for raw packets ([`flow`](crate::flow)).
    pub fn raw_packets(&self, cq: &CompletionQueue) -> QueuePairBuilder<RawPacket> {
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
