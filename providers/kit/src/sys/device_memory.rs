//! Memory that belongs to a device in user space: pages of zeros, unmapped with the last user.

use super::application::{ApplicationMemory, AtomicWord, OutOfRange};
use crate::errno::Result;
use core::ffi::c_void;
use core::ptr::{null_mut, with_exposed_provenance_mut};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// A block of memory that any number of threads may use at the same time, as with
/// [`ApplicationMemory`]. It begins at the address of a page.
#[derive(Debug)]
pub struct DeviceMemory(ApplicationMemory);

impl DeviceMemory {
    /// `length` bytes of zero, at least one.
    ///
    /// # Errors
    /// ENOMEM; EINVAL for no bytes.
    pub fn new(length: usize) -> Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that no other code has.
        let at = unsafe { mmap_anonymous(null_mut(), length, protection, MapFlags::PRIVATE) }?;
        // SAFETY: the mapping is there, and writable, until the value is dropped, which hands out
        // no copy of the range; nothing refers to it.
        let memory = unsafe { ApplicationMemory::new(at.expose_provenance(), length) };
        memory.map(Self)
    }

    /// Bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.0.length()
    }

    /// As [`ApplicationMemory::read`].
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> core::result::Result<(), OutOfRange> {
        self.0.read(offset, to)
    }

    /// As [`ApplicationMemory::write`].
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub fn write(&self, offset: usize, from: &[u8]) -> core::result::Result<(), OutOfRange> {
        self.0.write(offset, from)
    }

    /// As [`ApplicationMemory::word`].
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub fn word(&self, offset: usize) -> core::result::Result<AtomicWord<'_>, OutOfRange> {
        self.0.word(offset)
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let at = with_exposed_provenance_mut::<c_void>(self.0.address());
        // SAFETY: the mapping of `new`, no part of which is used any more. It cannot fail for a
        // mapping that is there, and there would be nothing to do about it.
        let _ = unsafe { munmap(at, self.0.length()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_zeroed_and_ends_where_it_ends() {
        let memory = DeviceMemory::new(100).expect("memory");
        let mut bytes = [1; 100];
        assert_eq!(memory.read(0, &mut bytes), Ok(()));
        assert_eq!(bytes, [0; 100]);
        assert_eq!(memory.write(99, &[5, 6]), Err(OutOfRange));
        assert_eq!(memory.write(98, &[5, 6]), Ok(()));
        assert_eq!(memory.word(0).expect("aligned").fetch_add(9), 0);
        assert!(memory.word(96).is_err());
        assert_eq!(memory.read(0, &mut bytes), Ok(()));
        assert_eq!((bytes[98], bytes[99], memory.length()), (5, 6, 100));
        assert!(DeviceMemory::new(0).is_err());
        assert!(DeviceMemory::new(usize::MAX / 2).is_err());
    }
}
