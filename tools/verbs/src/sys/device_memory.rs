//! Memory of a device: ibv_alloc_dm(3).

use std::sync::{PoisonError, RwLock};

use kit::abi::{ibv_alloc_dm_attr, ibv_dm};

use super::{
    extended::extended,
    object::{Object, made, status},
};
use crate::{
    context::Context,
    error::{Error, Result},
};

/// Memory of a device.
pub(crate) struct Memory {
    dm: Object<ibv_dm, Context>,
    length: usize,
    /// Copies of this process do not overlap in time, unless both read.
    copying: RwLock<()>,
}

impl Memory {
    pub(crate) fn new(context: &Context, length: usize, log_align: u32) -> Result<Self> {
        let device = context.object();
        let alloc = extended!(device, "ibv_alloc_dm", alloc_dm)?;
        let free = extended!(device, "ibv_free_dm", free_dm)?;
        let mut attr = ibv_alloc_dm_attr {
            length,
            log_align_req: log_align,
            comp_mask: 0,
        };
        // SAFETY: the device is open, and is kept. The memory is new.
        let dm = unsafe {
            let at = made("ibv_alloc_dm", alloc(device.as_ptr(), &raw mut attr))?;
            Object::new(at, free, context.clone())
        };
        Ok(Self {
            dm,
            length,
            copying: RwLock::new(()),
        })
    }

    pub(crate) fn as_ptr(&self) -> *mut ibv_dm {
        self.dm.as_ptr()
    }

    pub(crate) fn context(&self) -> &Context {
        &self.dm
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    fn check(&self, verb: &'static str, offset: usize, length: usize) -> Result<u64> {
        let end = offset.checked_add(length);
        let inside = end.is_some_and(|end| end <= self.length);
        let invalid = Error::new(verb, libc::EINVAL);
        match (inside, u64::try_from(offset)) {
            (true, Ok(offset)) => Ok(offset),
            _ => Err(invalid.because("the range reaches past the end")),
        }
    }

    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        const VERB: &str = "ibv_memcpy_to_dm";
        let offset = self.check(VERB, offset, bytes.len())?;
        let _writing = self.copying.write().unwrap_or_else(PoisonError::into_inner);
        let at = self.dm.as_ptr();
        // SAFETY: the memory lives; the range lies inside.
        unsafe {
            let verb = (*at).memcpy_to_dm;
            let verb = verb.ok_or(Error::new(VERB, libc::EOPNOTSUPP))?;
            status(VERB, verb(at, offset, bytes.as_ptr().cast(), bytes.len()))
        }
    }

    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        const VERB: &str = "ibv_memcpy_from_dm";
        let offset = self.check(VERB, offset, into.len())?;
        let _reading = self.copying.read().unwrap_or_else(PoisonError::into_inner);
        let at = self.dm.as_ptr();
        // SAFETY: the memory lives; the range lies inside.
        unsafe {
            let verb = (*at).memcpy_from_dm;
            let verb = verb.ok_or(Error::new(VERB, libc::EOPNOTSUPP))?;
            status(VERB, verb(into.as_mut_ptr().cast(), at, offset, into.len()))
        }
    }
}
