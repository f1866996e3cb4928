//! Registered memory, and the two ways in which a program has it.

use std::sync::{Arc, PoisonError, RwLock};

use kit::abi::{ibv_mr, ibv_sge};

use super::{
    object::{Object, made},
    pages::Pages,
    raw,
};
use crate::{
    domain::ProtectionDomain,
    error::{Error, Result},
};

/// A registration with its memory, which stays until the device has given the registration up.
pub(crate) struct Region {
    mr: Object<ibv_mr, (Pages, ProtectionDomain)>,
    lkey: u32,
    rkey: u32,
}

impl Region {
    pub(crate) fn new(pd: &ProtectionDomain, length: usize, access: u32) -> Result<Self> {
        const VERB: &str = "ibv_reg_mr";
        let pages = Pages::new(length)?;
        let at = pages.as_ptr();
        // The device and other processes access the memory by its address.
        let _ = at.expose_provenance();
        let pd_at = pd.object().as_ptr();
        // SAFETY: the domain lives; the pages stay until the registration is given up. Nothing has
        // been done with the new region yet.
        let (mr, lkey, rkey) = unsafe {
            let access = access.cast_signed();
            let mr = made(VERB, raw::ibv_reg_mr(pd_at, at.cast(), length, access))?;
            let (lkey, rkey) = (mr.as_ref().lkey, mr.as_ref().rkey);
            let mr = Object::new(mr, raw::ibv_dereg_mr, (pages, pd.clone()));
            (mr, lkey, rkey)
        };
        Ok(Self { mr, lkey, rkey })
    }

    fn pages(&self) -> &Pages {
        &self.mr.0
    }

    pub(crate) fn length(&self) -> usize {
        self.pages().length()
    }

    pub(crate) fn rkey(&self) -> u32 {
        self.rkey
    }

    pub(crate) fn address(&self) -> u64 {
        u64::try_from(self.pages().as_ptr().addr()).unwrap_or(u64::MAX)
    }

    pub(crate) fn domain(&self) -> &ProtectionDomain {
        &self.mr.1
    }

    /// A range as requests name it; none outside.
    fn sge(&self, offset: usize, length: usize) -> Option<ibv_sge> {
        self.pages().at(offset, length)?;
        Some(ibv_sge {
            addr: self.address() + u64::try_from(offset).ok()?,
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
        let region = Region::new(pd, length, kit::abi::IBV_ACCESS_LOCAL_WRITE)?;
        Ok(Self {
            region: Arc::new(region),
            offset: 0,
            length,
        })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the range is this owner's, who lends it; no request that names it is posted, and
        // peers have no access.
        unsafe { self.region.pages().bytes(self.offset, self.length) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the same, and the owner is borrowed for writing.
        unsafe { self.region.pages().bytes_mut(self.offset, self.length) }
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
    pub(crate) fn new(pd: &ProtectionDomain, length: usize, access: u32) -> Result<Self> {
        Ok(Self {
            region: Region::new(pd, length, access)?,
            copying: RwLock::new(()),
        })
    }

    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        let _reading = self.copying.read().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: no slice of the pages is ever lent, and the lock keeps writers away.
        let inside = unsafe { self.region.pages().copy_out(offset, into) };
        checked(inside, "MemoryRegion::read")
    }

    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        let _writing = self.copying.write().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: no slice of the pages is ever lent, and the lock keeps others away.
        let inside = unsafe { self.region.pages().copy_in(offset, bytes) };
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
