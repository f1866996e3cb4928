//! Registered memory, and the two ways in which a program has it.

use std::{
    os::fd::{AsRawFd, BorrowedFd},
    sync::{Arc, PoisonError, RwLock},
};

use kit::abi::{IBV_ACCESS_ZERO_BASED, ibv_mr, ibv_sge, kernel::ib_uverbs_advise_mr_advice};

use super::{
    device_memory,
    extended::extended,
    object::{Object, made, status},
    pages::Pages,
    raw,
};
use crate::{
    domain::ProtectionDomain,
    error::{Error, Result},
};

/// A registration with its memory, which stays until the device has given the registration up.
pub(crate) struct Region {
    mr: Object<ibv_mr, (Memory, ProtectionDomain)>,
    /// Of the first byte, as requests name it.
    address: u64,
    length: usize,
    lkey: u32,
    rkey: u32,
}

/// What a registration keeps.
enum Memory {
    Host(Pages),
    /// The device keeps a DMA buffer by itself.
    Dmabuf,
    Device {
        _memory: Arc<device_memory::Memory>,
    },
    /// There is none.
    Null,
}

/// A part of a DMA buffer.
#[derive(Clone, Copy)]
pub(crate) struct Dmabuf<'a> {
    pub fd: BorrowedFd<'a>,
    pub offset: u64,
    pub length: usize,
    /// The address of the first byte in requests.
    pub address: u64,
}

impl Region {
    pub(crate) fn new(pd: &ProtectionDomain, length: usize, access: u32) -> Result<Self> {
        Self::host(pd, Pages::new(length)?, access)
    }

    /// Memory of this process.
    pub(crate) fn host(pd: &ProtectionDomain, pages: Pages, access: u32) -> Result<Self> {
        let (at, length) = (pages.as_ptr(), pages.length());
        // The device and other processes access the memory by its address.
        let address = u64::try_from(at.expose_provenance()).unwrap_or(u64::MAX);
        let memory = Memory::Host(pages);
        let pd_at = pd.object().as_ptr();
        let access = access.cast_signed();
        // SAFETY: the domain lives; the pages stay until the registration is given up.
        unsafe {
            let mr = raw::ibv_reg_mr(pd_at, at.cast(), length, access);
            Self::of("ibv_reg_mr", mr, (memory, pd), (address, length))
        }
    }

    /// ibv_reg_mr_iova2(3): new memory of this process, at another address in requests.
    pub(crate) fn placed(
        pd: &ProtectionDomain,
        length: usize,
        address: u64,
        access: u32,
    ) -> Result<Self> {
        const VERB: &str = "ibv_reg_mr_iova2";
        let end = u64::try_from(length)
            .ok()
            .and_then(|length| address.checked_add(length));
        end.ok_or(Error::new(VERB, libc::EINVAL).because("the addresses end before the memory"))?;
        let pages = Pages::new(length)?;
        let (at, length) = (pages.as_ptr(), pages.length());
        // The device and other processes access the memory by its address.
        at.expose_provenance();
        let memory = Memory::Host(pages);
        let pd_at = pd.object().as_ptr();
        // SAFETY: the domain lives; the pages stay until the registration is given up.
        unsafe {
            let mr = raw::ibv_reg_mr_iova2(pd_at, at.cast(), length, address, access);
            Self::of(VERB, mr, (memory, pd), (address, length))
        }
    }

    /// ibv_alloc_null_mr(3).
    pub(crate) fn null(pd: &ProtectionDomain) -> Result<Self> {
        const VERB: &str = "ibv_alloc_null_mr";
        let verb = extended!(pd.context().object(), "ibv_alloc_null_mr", alloc_null_mr)?;
        // SAFETY: the domain lives, and is kept.
        unsafe {
            let mr = verb(pd.object().as_ptr());
            Self::of(VERB, mr, (Memory::Null, pd), (0, usize::MAX))
        }
    }

    /// ibv_advise_mr(3), of a range. The advice is one that changes no memory.
    pub(crate) fn advise(
        &self,
        offset: usize,
        length: usize,
        advice: ib_uverbs_advise_mr_advice,
        flags: u32,
    ) -> Result<()> {
        const VERB: &str = "ibv_advise_mr";
        let pd = self.domain();
        let verb = extended!(pd.context().object(), "ibv_advise_mr", advise_mr)?;
        let mut sge = self
            .sge(offset, length)
            .ok_or(Error::new(VERB, libc::EINVAL).because("the range reaches past the end"))?;
        // SAFETY: domain and region live; the list of one range lives during the call.
        status(VERB, unsafe {
            verb(pd.object().as_ptr(), advice, flags, &raw mut sge, 1)
        })
    }

    /// ibv_reg_dmabuf_mr(3).
    pub(crate) fn dmabuf(pd: &ProtectionDomain, part: Dmabuf<'_>, access: u32) -> Result<Self> {
        let Dmabuf {
            fd,
            offset,
            length,
            address,
        } = part;
        let (fd, access) = (fd.as_raw_fd(), access.cast_signed());
        let pd_at = pd.object().as_ptr();
        // SAFETY: the domain lives, and the descriptor is open.
        unsafe {
            let mr = raw::ibv_reg_dmabuf_mr(pd_at, offset, length, address, fd, access);
            let memory = (Memory::Dmabuf, pd);
            Self::of("ibv_reg_dmabuf_mr", mr, memory, (address, length))
        }
    }

    /// ibv_reg_dm_mr(3). Its addresses begin at 0.
    pub(crate) fn device(
        pd: &ProtectionDomain,
        memory: &Arc<device_memory::Memory>,
        (offset, length): (u64, usize),
        access: u32,
    ) -> Result<Self> {
        let device = pd.context().object();
        let verb = extended!(device, "ibv_reg_dm_mr", reg_dm_mr)?;
        let (pd_at, dm) = (pd.object().as_ptr(), memory.as_ptr());
        let kept = Memory::Device {
            _memory: Arc::clone(memory),
        };
        // SAFETY: domain and memory live; both are kept.
        unsafe {
            let mr = verb(pd_at, dm, offset, length, access | IBV_ACCESS_ZERO_BASED);
            Self::of("ibv_reg_dm_mr", mr, (kept, pd), (0, length))
        }
    }

    /// # Safety
    /// A verb made the region, which is new, of this memory and domain.
    unsafe fn of(
        verb: &'static str,
        mr: *mut ibv_mr,
        (memory, pd): (Memory, &ProtectionDomain),
        (address, length): (u64, usize),
    ) -> Result<Self> {
        let mr = made(verb, mr)?;
        // SAFETY: by the caller; nothing has been done with the region yet.
        let (mr, lkey, rkey) = unsafe {
            let (lkey, rkey) = (mr.as_ref().lkey, mr.as_ref().rkey);
            let mr = Object::new(mr, raw::ibv_dereg_mr, (memory, pd.clone()));
            (mr, lkey, rkey)
        };
        Ok(Self {
            mr,
            address,
            length,
            lkey,
            rkey,
        })
    }

    /// The memory, if it is this process's.
    fn pages(&self) -> Option<&Pages> {
        match &self.mr.0 {
            Memory::Host(pages) => Some(pages),
            Memory::Dmabuf | Memory::Device { .. } | Memory::Null => None,
        }
    }

    /// Whether this process can access the memory.
    pub(crate) fn is_host(&self) -> bool {
        self.pages().is_some()
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn as_ptr(&self) -> *mut ibv_mr {
        self.mr.as_ptr()
    }

    pub(crate) fn rkey(&self) -> u32 {
        self.rkey
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn domain(&self) -> &ProtectionDomain {
        &self.mr.1
    }

    /// A range as requests name it; none outside.
    fn sge(&self, offset: usize, length: usize) -> Option<ibv_sge> {
        let end = offset.checked_add(length)?;
        if end > self.length {
            return None;
        }
        Some(ibv_sge {
            addr: self.address.checked_add(u64::try_from(offset).ok()?)?,
            length: u32::try_from(length).ok()?,
            lkey: self.lkey,
        })
    }
}

/// A range that one owner has: no other range of the region overlaps it, and no remote peer has
/// access. While a request is posted, the request is the owner.
pub(crate) struct Exclusive {
    region: Arc<Region>,
    offset: usize,
    length: usize,
}

impl Exclusive {
    pub(crate) fn new(pd: &ProtectionDomain, length: usize) -> Result<Self> {
        Self::of(pd, Pages::new(length)?)
    }

    /// Memory that nothing else accesses.
    pub(crate) fn of(pd: &ProtectionDomain, pages: Pages) -> Result<Self> {
        let region = Region::host(pd, pages, kit::abi::IBV_ACCESS_LOCAL_WRITE)?;
        let length = region.length();
        Ok(Self {
            region: Arc::new(region),
            offset: 0,
            length,
        })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self.region.pages() {
            // SAFETY: the range is this owner's, who lends it; no request that names it is posted,
            // and peers have no access.
            Some(pages) => unsafe { pages.bytes(self.offset, self.length) },
            None => &[],
        }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match self.region.pages() {
            // SAFETY: the same, and the owner is borrowed for writing.
            Some(pages) => unsafe { pages.bytes_mut(self.offset, self.length) },
            None => &mut [],
        }
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn domain(&self) -> &ProtectionDomain {
        self.region.domain()
    }

    /// Cuts off the bytes from `at` on; none are left past the end.
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        let at = at.min(self.length);
        let rest = Self {
            region: Arc::clone(&self.region),
            offset: self.offset + at,
            length: self.length - at,
        };
        self.length = at;
        rest
    }

    /// Takes back what follows directly in the same region, or returns it.
    pub(crate) fn append(&mut self, other: Self) -> std::result::Result<(), Self> {
        let follows = self.offset + self.length == other.offset;
        if !follows || !Arc::ptr_eq(&self.region, &other.region) {
            return Err(other);
        }
        self.length += other.length;
        Ok(())
    }

    pub(crate) fn sge(&self) -> Option<ibv_sge> {
        self.region.sge(self.offset, self.length)
    }
}

/// A region that devices and peers access while the program does. Its bytes are copied.
pub(crate) struct Shared {
    region: Region,
    /// Copies of this process do not overlap in time, unless both read.
    copying: RwLock<()>,
}

impl Shared {
    pub(crate) fn new(region: Region) -> Self {
        let copying = RwLock::new(());
        Self { region, copying }
    }

    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        let _reading = self.copying.read().unwrap_or_else(PoisonError::into_inner);
        let pages = self.region.pages().ok_or(of_device("MemoryRegion::read"))?;
        // SAFETY: no slice of the pages is ever lent, and the lock keeps writers away.
        let inside = unsafe { pages.copy_out(offset, into) };
        checked(inside, "MemoryRegion::read")
    }

    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        let _writing = self.copying.write().unwrap_or_else(PoisonError::into_inner);
        let pages = self
            .region
            .pages()
            .ok_or(of_device("MemoryRegion::write"))?;
        // SAFETY: no slice of the pages is ever lent, and the lock keeps others away.
        let inside = unsafe { pages.copy_in(offset, bytes) };
        checked(inside, "MemoryRegion::write")
    }

    pub(crate) fn sge(&self, offset: usize, length: usize) -> Option<ibv_sge> {
        self.region.sge(offset, length)
    }
}

fn checked(inside: bool, function: &'static str) -> Result<()> {
    match inside {
        true => Ok(()),
        false => Err(Error::new(function, libc::EINVAL)),
    }
}

fn of_device(function: &'static str) -> Error {
    Error::new(function, libc::EOPNOTSUPP).because("the memory is not this process's")
}
