//! Registered memory.
//!
//! A [`Buffer`] belongs to the program alone, which reads and writes it as a slice. It moves into
//! the request that names it and comes back with the completion. A [`MemoryRegion`] is open to
//! remote peers, who access it at any time; so its bytes are copied, never borrowed.
#![forbid(unsafe_code)]

use std::{
    fmt,
    ops::{BitOr, Deref, DerefMut, Range},
    sync::Arc,
};

use kit::abi::{
    IBV_ACCESS_FLUSH_GLOBAL, IBV_ACCESS_FLUSH_PERSISTENT, IBV_ACCESS_LOCAL_WRITE,
    IBV_ACCESS_MW_BIND, IBV_ACCESS_ON_DEMAND, IBV_ACCESS_RELAXED_ORDERING,
    IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, ibv_mr, ibv_sge,
    kernel::{
        IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH, IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT,
        IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE, IB_UVERBS_ADVISE_MR_FLAG_FLUSH,
    },
};

use crate::{
    device_memory::DeviceMemory,
    domain::ProtectionDomain,
    error::{Error, Result},
    sys::{
        owner::{ExclusiveMemory, MemoryOwner},
        pages::Pages,
        region::{Dmabuf, Exclusive, Region, Shared},
    },
};

/// What remote peers may do to a memory region, or by a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access(u32);

impl Access {
    /// Nothing: the memory is used by local requests alone.
    pub const LOCAL: Self = Self(0);
    /// RDMA read.
    pub const REMOTE_READ: Self = Self(IBV_ACCESS_REMOTE_READ);
    /// RDMA write.
    pub const REMOTE_WRITE: Self = Self(IBV_ACCESS_REMOTE_WRITE);
    /// Atomic operations.
    pub const REMOTE_ATOMIC: Self = Self(IBV_ACCESS_REMOTE_ATOMIC);
    /// Memory windows may be bound to the region ([`MemoryWindow`](crate::MemoryWindow)). It is of
    /// no use for a queue pair or a window.
    pub const WINDOW: Self = Self(IBV_ACCESS_MW_BIND);
    /// The device fetches the pages of a region when it uses them, and they may be swapped out
    /// ([`MemoryRegion::prefetch`]). A queue pair and a window have no use for it.
    pub const ON_DEMAND: Self = Self(IBV_ACCESS_ON_DEMAND);
    /// Flushes until the bytes that were written are visible to all of this machine
    /// ([`SendRequest::flush`](crate::SendRequest::flush)).
    pub const FLUSH_GLOBAL: Self = Self(IBV_ACCESS_FLUSH_GLOBAL);
    /// Flushes until the bytes that were written outlive a loss of power. uroce has none: EINVAL.
    pub const FLUSH_PERSISTENT: Self = Self(IBV_ACCESS_FLUSH_PERSISTENT);
    /// Writes of a device need not arrive in order.
    pub const RELAXED_ORDERING: Self = Self(IBV_ACCESS_RELAXED_ORDERING);

    pub(crate) fn of_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Whether it has all of the other.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Of a region, which local requests write to.
    fn of_region(self) -> u32 {
        self.0 | IBV_ACCESS_LOCAL_WRITE
    }

    /// `enum ibv_access_flags`.
    pub(crate) fn bits(self) -> u32 {
        self.0
    }
}

impl BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Registered memory that this program alone accesses: a slice of bytes, which requests own while
/// they are in flight.
pub struct Buffer(Exclusive);

impl Buffer {
    pub(crate) fn new(pd: &ProtectionDomain, length: usize) -> Result<Self> {
        Exclusive::new(pd, length).map(Self)
    }

    pub(crate) fn of(pd: &ProtectionDomain, owner: impl ExclusiveMemory) -> Result<Self> {
        Exclusive::of(pd, Pages::of(Box::new(owner))).map(Self)
    }

    /// Cuts off the bytes from `at` on, as a buffer of the same registration; at the end or past
    /// it, an empty one.
    #[must_use]
    pub fn split_off(&mut self, at: usize) -> Self {
        Self(self.0.split_off(at))
    }

    /// Takes a buffer back that was cut off at the end of this one.
    ///
    /// # Errors
    /// The other buffer, if it does not begin where this one ends.
    pub fn append(&mut self, other: Self) -> std::result::Result<(), Self> {
        self.0.append(other.0).map_err(Self)
    }

    /// Cuts it into buffers of equal length, for many requests over one registration; the rest is
    /// the last one.
    #[must_use]
    pub fn chunks_of(mut self, length: usize) -> Vec<Self> {
        let mut chunks = Vec::new();
        while self.len() > length.max(1) {
            let rest = self.split_off(length.max(1));
            chunks.push(std::mem::replace(&mut self, rest));
        }
        chunks.push(self);
        chunks
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Buffer");
        shown.field("length", &self.0.length());
        shown.finish_non_exhaustive()
    }
}

/// Registered memory that remote peers may access. Copies are the same region.
#[derive(Clone)]
pub struct MemoryRegion(Arc<Shared>);

impl MemoryRegion {
    pub(crate) fn new(pd: &ProtectionDomain, length: usize, access: Access) -> Result<Self> {
        let region = Region::new(pd, length, access.of_region())?;
        Ok(Self::shared(region))
    }

    pub(crate) fn of(
        pd: &ProtectionDomain,
        owner: impl MemoryOwner,
        access: Access,
    ) -> Result<Self> {
        let region = Region::host(pd, Pages::of(Box::new(owner)), access.of_region())?;
        Ok(Self::shared(region))
    }

    pub(crate) fn of_dmabuf(
        pd: &ProtectionDomain,
        part: Dmabuf<'_>,
        access: Access,
    ) -> Result<Self> {
        let region = Region::dmabuf(pd, part, access.of_region())?;
        Ok(Self::shared(region))
    }

    pub(crate) fn of_device(
        pd: &ProtectionDomain,
        memory: &DeviceMemory,
        range: Range<usize>,
        access: Access,
    ) -> Result<Self> {
        let invalid = Error::new("ibv_reg_dm_mr", libc::EINVAL);
        if !memory.inner().context().same(pd.context()) {
            return Err(invalid.because("memory of another open device"));
        }
        let length = range.end.checked_sub(range.start).ok_or(invalid)?;
        let offset = u64::try_from(range.start).map_err(|_| invalid)?;
        if range.end > memory.len() {
            return Err(invalid.because("the range reaches past the end"));
        }
        let part = (offset, length);
        let region = Region::device(pd, memory.inner(), part, access.of_region())?;
        Ok(Self::shared(region))
    }

    pub(crate) fn placed(
        pd: &ProtectionDomain,
        length: usize,
        address: u64,
        access: Access,
    ) -> Result<Self> {
        let region = Region::placed(pd, length, address, access.of_region())?;
        Ok(Self::shared(region))
    }

    pub(crate) fn null(pd: &ProtectionDomain) -> Result<Self> {
        Ok(Self::shared(Region::null(pd)?))
    }

    fn shared(region: Region) -> Self {
        Self(Arc::new(Shared::new(region)))
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.region().length()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its address, length and key, which a peer needs to access it.
    #[must_use]
    pub fn remote(&self) -> RemoteMemory {
        RemoteMemory {
            address: self.0.region().address(),
            length: u64::try_from(self.len()).unwrap_or(u64::MAX),
            rkey: self.0.region().rkey(),
        }
    }

    /// Copies bytes out of it.
    ///
    /// # Errors
    /// EINVAL if they reach past the end; EOPNOTSUPP for a DMA buffer and memory of a device.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        self.0.read(offset, into)
    }

    /// Copies bytes into it.
    ///
    /// # Errors
    /// EINVAL if they reach past the end; EOPNOTSUPP for a DMA buffer and memory of a device.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.0.write(offset, bytes)
    }

    /// Has the device fetch the pages of a range of a region that has [`Access::ON_DEMAND`].
    ///
    /// ```
    /// use verbs::{Access, Prefetch};
    /// # verbs::use_uroce("lo");
    /// # let context = verbs::Device::find("uroce_lo")?.open()?;
    /// # let pd = context.protection_domain()?;
    /// let region = pd.memory_region(1 << 20, Access::ON_DEMAND)?;
    /// region.prefetch(0..65536, Prefetch::Write)?;
    /// # Ok::<(), verbs::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of ibv_advise_mr(3): EOPNOTSUPP if the device cannot; EINVAL for a region that is not on
    /// demand, and past its end.
    pub fn prefetch(&self, range: Range<usize>, how: Prefetch) -> Result<()> {
        let advice = match how {
            Prefetch::Read => IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH,
            Prefetch::Write => IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE,
            Prefetch::Present => IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT,
        };
        let length = range.end.saturating_sub(range.start);
        let flags = IB_UVERBS_ADVISE_MR_FLAG_FLUSH;
        self.0.region().advise(range.start, length, advice, flags)
    }

    /// The eight bytes at an offset as an integer of the host's byte order, as atomic operations
    /// see them.
    ///
    /// # Errors
    /// EINVAL if they reach past the end.
    pub fn read_u64(&self, offset: usize) -> Result<u64> {
        let mut bytes = [0; 8];
        self.read(offset, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// A part of it for a local request.
    ///
    /// # Errors
    /// EINVAL if it reaches past the end.
    pub fn slice(&self, range: Range<usize>) -> Result<RegionSlice> {
        let none = Error::new("MemoryRegion::slice", libc::EINVAL);
        let length = range.end.checked_sub(range.start).ok_or(none)?;
        let slice = RegionSlice {
            region: self.clone(),
            offset: range.start,
            length,
        };
        slice.sge().ok_or(none)?;
        Ok(slice)
    }
}

impl fmt::Debug for MemoryRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryRegion").field(&self.remote()).finish()
    }
}

/// What the device is to fetch pages for: the advice of ibv_advise_mr(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Prefetch {
    /// To read them.
    Read,
    /// To write to them, too.
    Write,
    /// Those that the process has; none is brought in.
    Present,
}

/// A part of a [`MemoryRegion`], for a local request.
#[derive(Clone, Debug)]
pub struct RegionSlice {
    region: MemoryRegion,
    offset: usize,
    length: usize,
}

impl RegionSlice {
    /// The region.
    #[must_use]
    pub fn region(&self) -> &MemoryRegion {
        &self.region
    }

    fn sge(&self) -> Option<ibv_sge> {
        self.region.0.sge(self.offset, self.length)
    }

    pub(crate) fn domain(&self) -> &ProtectionDomain {
        self.region.0.region().domain()
    }

    /// What a window is bound to: the region, the address and the length.
    pub(crate) fn place(&self) -> Option<(*mut ibv_mr, u64, u64)> {
        let region = self.region.0.region();
        let address = region.address() + u64::try_from(self.offset).ok()?;
        Some((region.as_ptr(), address, u64::try_from(self.length).ok()?))
    }
}

/// Memory of a request: its own, or a part of a region.
#[derive(Debug)]
pub enum Segment {
    /// Memory that the request owns until it has completed.
    Buffer(Buffer),
    /// A part of a region, which the request keeps registered.
    Region(RegionSlice),
}

impl Segment {
    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Buffer(buffer) => buffer.0.length(),
            Self::Region(slice) => slice.length,
        }
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies its first bytes out, of which it has as many.
    pub(crate) fn read_front(&self, into: &mut [u8]) -> Result<()> {
        match self {
            Self::Buffer(buffer) => {
                into.iter_mut()
                    .zip(&**buffer)
                    .for_each(|(to, byte)| *to = *byte);
                Ok(())
            }
            Self::Region(slice) => slice.region.read(slice.offset, into),
        }
    }

    /// Whether this process can access it.
    pub(crate) fn is_host(&self) -> bool {
        match self {
            Self::Buffer(_) => true,
            Self::Region(slice) => slice.region.0.region().is_host(),
        }
    }

    pub(crate) fn sge(&self) -> Option<ibv_sge> {
        match self {
            Self::Buffer(buffer) => buffer.0.sge(),
            Self::Region(slice) => slice.sge(),
        }
    }

    pub(crate) fn domain(&self) -> &ProtectionDomain {
        match self {
            Self::Buffer(buffer) => buffer.0.domain(),
            Self::Region(slice) => slice.domain(),
        }
    }
}

impl From<Buffer> for Segment {
    fn from(buffer: Buffer) -> Self {
        Self::Buffer(buffer)
    }
}

impl From<RegionSlice> for Segment {
    fn from(slice: RegionSlice) -> Self {
        Self::Region(slice)
    }
}

/// Memory of a remote peer. The peer sends it as bytes, by whatever way it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteMemory {
    /// The address at the peer.
    pub address: u64,
    /// How many bytes there are.
    pub length: u64,
    /// The key.
    pub rkey: u32,
}

impl RemoteMemory {
    /// Bytes of its encoding.
    pub const SIZE: usize = 20;

    /// A part of it; none if it reaches past the end.
    #[must_use]
    pub fn slice(&self, range: Range<u64>) -> Option<Self> {
        let length = range.end.checked_sub(range.start)?;
        (range.end <= self.length).then_some(Self {
            address: self.address.checked_add(range.start)?,
            length,
            rkey: self.rkey,
        })
    }

    /// Its encoding: address, length and key, in network order.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let (address, rest) = bytes.split_at_mut(8);
        let (length, rkey) = rest.split_at_mut(8);
        address.copy_from_slice(&self.address.to_be_bytes());
        length.copy_from_slice(&self.length.to_be_bytes());
        rkey.copy_from_slice(&self.rkey.to_be_bytes());
        bytes
    }

    /// The memory that [`RemoteMemory::to_bytes`] encoded.
    #[must_use]
    pub fn from_bytes(bytes: [u8; Self::SIZE]) -> Self {
        let [
            a0,
            a1,
            a2,
            a3,
            a4,
            a5,
            a6,
            a7,
            l0,
            l1,
            l2,
            l3,
            l4,
            l5,
            l6,
            l7,
            k0,
            k1,
            k2,
            k3,
        ] = bytes;
        Self {
            address: u64::from_be_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
            length: u64::from_be_bytes([l0, l1, l2, l3, l4, l5, l6, l7]),
            rkey: u32::from_be_bytes([k0, k1, k2, k3]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: RemoteMemory = RemoteMemory {
        address: 0x0102_0304_0506_0708,
        length: 0x1000,
        rkey: 0xa0b0_c0d0,
    };

    #[test]
    fn remote_memory_survives_its_encoding() {
        assert_eq!(RemoteMemory::from_bytes(MEMORY.to_bytes()), MEMORY);
    }

    #[test]
    fn a_part_of_remote_memory_lies_inside() {
        let part = MEMORY.slice(0x10..0x20).unwrap();
        assert_eq!(part.address, MEMORY.address + 0x10);
        assert_eq!(part.length, 0x10);
        assert!(MEMORY.slice(0..0x1001).is_none());
        #[allow(clippy::reversed_empty_ranges)] // the tested case
        let reversed = MEMORY.slice(2..1);
        assert!(reversed.is_none());
    }
}
