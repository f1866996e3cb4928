//! Memory that belongs to a device in user space: pages of zeros, unmapped with the last user.
//!
//! It is a sealed memfd whose descriptor stays open, so that other processes of the user can map it
//! ([`super::sealed_file`]), as long as there are few: programs need their descriptors. Further
//! memory, and all where the system has no memfd, is this process's alone.

use super::application::{ApplicationMemory, AtomicWord, OutOfRange};
use super::shared::Shared;
use crate::errno::Result;
use core::ffi::c_void;
use core::ptr::{null_mut, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::os::fd::OwnedFd;

/// Descriptors of such memory that a process has open.
const FILES: usize = 64;

static OPEN: AtomicUsize = AtomicUsize::new(0);

/// A descriptor, counted.
#[derive(Debug)]
struct Counted(#[expect(dead_code, reason = "open for others")] OwnedFd);

impl Drop for Counted {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Relaxed);
    }
}

/// Whose pages they are.
#[derive(Debug)]
enum Pages {
    /// Those of a file, mapped as long as this is there.
    File(
        #[expect(dead_code, reason = "mapped")] Shared,
        #[expect(dead_code, reason = "open")] Counted,
    ),
    /// Of this process alone.
    Own,
}

/// A block of memory that any number of threads may use at the same time, as with
/// [`ApplicationMemory`]. It begins at the address of a page.
#[derive(Debug)]
pub struct DeviceMemory {
    memory: ApplicationMemory,
    pages: Pages,
}

impl DeviceMemory {
    /// `length` bytes of zero, at least one.
    ///
    /// # Errors
    /// ENOMEM; EINVAL for no bytes.
    pub fn new(length: usize) -> Result<Self> {
        Self::of_file(length).map_or_else(|| Self::of_process(length), Ok)
    }

    /// `None` if there are enough, or no file is possible.
    fn of_file(length: usize) -> Option<Self> {
        let one_more = |open: usize| (open < FILES).then_some(open + 1);
        OPEN.fetch_update(Relaxed, Relaxed, one_more).ok()?;
        let made = Shared::create(c"uroce-memory", length).inspect_err(|_| {
            OPEN.fetch_sub(1, Relaxed);
        });
        let (file, fd) = made.ok()?;
        let counted = Counted(fd);
        let address = file.words().as_ptr().expose_provenance();
        // SAFETY: mapped, and writable, as long as the file is in the value, which hands out no
        // copy of the range; nothing else refers to it.
        let memory = unsafe { ApplicationMemory::new(address, length) }.ok()?;
        Some(Self {
            memory,
            pages: Pages::File(file, counted),
        })
    }

    fn of_process(length: usize) -> Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that no other code has.
        let at = unsafe { mmap_anonymous(null_mut(), length, protection, MapFlags::PRIVATE) }?;
        // SAFETY: the mapping is there, and writable, until the value is dropped, which hands out
        // no copy of the range; nothing refers to it.
        let memory = unsafe { ApplicationMemory::new(at.expose_provenance(), length) }?;
        Ok(Self {
            memory,
            pages: Pages::Own,
        })
    }

    /// Address of the first byte, by which other processes name it to the kernel.
    #[must_use]
    pub fn address(&self) -> usize {
        self.memory.address()
    }

    /// Bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.memory.length()
    }

    /// As [`ApplicationMemory::read`].
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> core::result::Result<(), OutOfRange> {
        self.memory.read(offset, to)
    }

    /// As [`ApplicationMemory::write`].
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub fn write(&self, offset: usize, from: &[u8]) -> core::result::Result<(), OutOfRange> {
        self.memory.write(offset, from)
    }

    /// As [`ApplicationMemory::word`].
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub fn word(&self, offset: usize) -> core::result::Result<AtomicWord<'_>, OutOfRange> {
        self.memory.word(offset)
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if matches!(self.pages, Pages::File(..)) {
            return;
        }
        let at = with_exposed_provenance_mut::<c_void>(self.memory.address());
        // SAFETY: the mapping of `of_process`, no part of which is used any more. It cannot fail
        // for a mapping that is there, and there would be nothing to do about it.
        let _ = unsafe { munmap(at, self.memory.length()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_opens_few_files() {
        let many: Vec<_> = (0..FILES + 20)
            .map(|_| DeviceMemory::new(8).expect("memory"))
            .collect();
        let files = |all: &[DeviceMemory]| {
            let is_file = |memory: &&DeviceMemory| matches!(memory.pages, Pages::File(..));
            all.iter().filter(is_file).count()
        };
        // Another test may have one.
        assert!((FILES - 4..=FILES).contains(&files(&many)));
        drop(many);
        let again = DeviceMemory::new(8).expect("memory");
        assert_eq!(files(&[again]), 1);
    }

    #[test]
    fn it_is_zeroed_and_ends_where_it_ends() {
        for memory in [DeviceMemory::new(100), DeviceMemory::of_process(100)] {
            check(&memory.expect("memory"));
        }
        assert!(DeviceMemory::new(0).is_err());
        assert!(DeviceMemory::new(usize::MAX / 2).is_err());
    }

    fn check(memory: &DeviceMemory) {
        let mut bytes = [1; 100];
        assert_eq!(memory.read(0, &mut bytes), Ok(()));
        assert_eq!(bytes, [0; 100]);
        assert_eq!(memory.write(99, &[5, 6]), Err(OutOfRange));
        assert_eq!(memory.write(98, &[5, 6]), Ok(()));
        assert_eq!(memory.word(0).expect("aligned").fetch_add(9), 0);
        assert!(memory.word(96).is_err());
        assert_eq!(memory.read(0, &mut bytes), Ok(()));
        assert_eq!((bytes[98], bytes[99], memory.length()), (5, 6, 100));
    }
}
