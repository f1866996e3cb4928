//! Shared memory.

use crate::errno::{Errno, Result};
use core::ptr::{NonNull, null_mut};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Memory that another party reads and writes too. It is never seen through a reference, save for
/// atomics.
pub struct Region(Owner);

/// Most regions have one owner: a count of owners would be a block of memory more for each queue.
enum Owner {
    One(Bytes),
    Many(Arc<Bytes>),
}

struct Bytes {
    at: NonNull<u8>,
    length: usize,
    mapped: bool,
}

// SAFETY: the memory belongs to the value, and is used by atomics and by copies alone.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl Region {
    /// Maps `length` bytes at `offset` of a descriptor, shared, to be read and written.
    ///
    /// # Errors
    /// EINVAL for no bytes; ENOMEM, and other errors of mmap(2).
    pub fn map(fd: BorrowedFd<'_>, offset: u64, length: usize) -> Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, to which nothing refers.
        let at = unsafe { mmap(null_mut(), length, protection, MapFlags::SHARED, fd, offset) }?;
        let at = NonNull::new(at.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self(Owner::One(Bytes {
            at,
            length,
            mapped: true,
        })))
    }

    /// Zeros without a kernel that maps them, so that tests can be both sides.
    ///
    /// # Errors
    /// ENOMEM.
    #[cfg(any(test, feature = "testing"))]
    pub fn plain(length: usize) -> Result<Self> {
        let at = crate::sys::memory::zeroed(length)?;
        let at = NonNull::new(at.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self(Owner::Many(Arc::new(Bytes {
            at,
            length,
            mapped: false,
        }))))
    }

    /// The same memory again: for the other side in tests.
    ///
    /// # Panics
    /// If the region is neither [`Region::plain`] nor [`Region::twice`].
    #[cfg(any(test, feature = "testing"))]
    #[allow(clippy::panic)] // of tests alone
    #[must_use]
    pub fn share(&self) -> Self {
        match &self.0 {
            Owner::Many(bytes) => Self(Owner::Many(Arc::clone(bytes))),
            Owner::One(_) => panic!("the region has one owner"),
        }
    }

    /// The memory for two structures that lie in it.
    #[must_use]
    pub fn twice(self) -> [Self; 2] {
        let bytes = match self.0 {
            Owner::One(bytes) => Arc::new(bytes),
            Owner::Many(bytes) => bytes,
        };
        [
            Self(Owner::Many(Arc::clone(&bytes))),
            Self(Owner::Many(bytes)),
        ]
    }

    fn bytes(&self) -> &Bytes {
        match &self.0 {
            Owner::One(bytes) => bytes,
            Owner::Many(bytes) => bytes,
        }
    }

    /// Bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.bytes().length
    }

    /// The place of `size` bytes at `offset`, if they lie in the region and `offset` is a multiple
    /// of `align`.
    ///
    /// # Errors
    /// EIO if they do not: then the kernel's description of the region is wrong.
    pub(super) fn place(&self, offset: usize, size: usize, align: usize) -> Result<NonNull<u8>> {
        let bytes = self.bytes();
        let end = offset.checked_add(size).ok_or(Errno::IO)?;
        if end > bytes.length || !offset.is_multiple_of(align) {
            return Err(Errno::IO);
        }
        // SAFETY: within the region.
        let place = unsafe { bytes.at.add(offset) };
        if !place.addr().get().is_multiple_of(align) {
            return Err(Errno::IO);
        }
        Ok(place)
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the memory any more; it came from where it goes to.
        unsafe {
            if self.mapped {
                // A failure has no remedy, and leaves only the memory mapped.
                let _ = munmap(self.at.as_ptr().cast(), self.length);
            } else {
                crate::sys::memory::free(self.at.as_ptr().cast());
            }
        }
    }
}
