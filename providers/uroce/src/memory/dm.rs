//! Device memory: ibv_alloc_dm(3).

use super::space::Space;
use kit::errno::{Errno, Result};
use kit::sys::device_memory::DeviceMemory;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `max_dm_size`: bytes a process, which one block may have all.
pub const MAX_DEVICE_MEMORY: usize = 1 << 26;
/// Blocks begin at the address of a page of the smallest size, so this is the largest alignment.
const LOG_PAGE: u32 = 12;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

/// Offsets and lengths of copies are multiples of this.
const WORD: usize = 4;

fn aligned(offset: u64, length: usize) -> Result<usize> {
    let at = usize::try_from(offset).map_err(|_| Errno(libc::EFAULT))?;
    if at.is_multiple_of(WORD) && length.is_multiple_of(WORD) {
        return Ok(at);
    }
    Err(Errno::INVAL)
}

/// A block of device memory. Regions of it keep the bytes when it is gone.
#[derive(Debug)]
pub struct Dm(Arc<DeviceMemory>);

impl Dm {
    /// `length` bytes of zero, aligned to 2 to the power `log_align`.
    ///
    /// # Errors
    /// EINVAL for no bytes, more than [`MAX_DEVICE_MEMORY`], or an alignment above 4096; ENOMEM if
    /// other blocks leave too little.
    pub fn new(length: usize, log_align: u32) -> Result<Self> {
        if length == 0 || length > MAX_DEVICE_MEMORY || log_align > LOG_PAGE {
            return Err(Errno::INVAL);
        }
        let more = |all: usize| {
            let all = all.checked_add(length)?;
            (all <= MAX_DEVICE_MEMORY).then_some(all)
        };
        let taken = ALLOCATED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.map_err(|_| Errno::NOMEM)?;
        let memory = DeviceMemory::new(length).inspect_err(|_| {
            ALLOCATED.fetch_sub(length, Ordering::Relaxed);
        })?;
        Ok(Self(Arc::new(memory)))
    }

    /// ibv_memcpy_to_dm(3).
    ///
    /// # Errors
    /// EFAULT beyond the end; EINVAL for an offset or length that is no multiple of 4, as devices
    /// with such memory have it: a program that works here works there.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        let at = aligned(offset, data.len())?;
        self.0.write(at, data).map_err(|_| Errno(libc::EFAULT))
    }

    /// ibv_memcpy_from_dm(3).
    ///
    /// # Errors
    /// As for [`Dm::write`].
    pub fn read(&self, offset: u64, data: &mut [u8]) -> Result<()> {
        let at = aligned(offset, data.len())?;
        self.0.read(at, data).map_err(|_| Errno(libc::EFAULT))
    }

    /// The part that begins `offset` bytes later; `None` if it is not all inside.
    pub(super) fn part(&self, offset: u64, length: usize) -> Option<Space> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(length)?;
        (end <= self.0.length()).then(|| Space::Device(Arc::clone(&self.0), start))
    }
}

impl Drop for Dm {
    fn drop(&mut self) {
        ALLOCATED.fetch_sub(self.0.length(), Ordering::Relaxed);
    }
}
