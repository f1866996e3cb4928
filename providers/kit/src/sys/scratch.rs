//! Memory for tests of code that works on an application's memory.
//!
//! For tests only: nothing keeps a test from using bytes after it took them away, and then it ends
//! with a signal.

use super::application::ApplicationMemory;
use crate::errno::{Errno, Result};
use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicUsize, Ordering};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// Where pages are asked for. Memory that is mapped without a wish comes from elsewhere, and no
/// address is asked for twice: where a test unmapped pages, no other thread's are put meanwhile.
/// It is below the shadow of AddressSanitizer, and above where valgrind begins to map.
static NEXT: AtomicUsize = AtomicUsize::new(0x6800_0000);

/// Pages of an application, at first zeros that can be written. They stay mapped for good, unless
/// they are unmapped.
#[derive(Clone, Copy, Debug)]
pub struct Scratch(ApplicationMemory);

impl Scratch {
    /// Bytes of a page.
    #[must_use]
    pub fn page() -> usize {
        rustix::param::page_size()
    }

    /// That many new pages.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new(pages: usize) -> Result<Self> {
        let length = pages.saturating_mul(Self::page());
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let wish = with_exposed_provenance_mut(NEXT.fetch_add(length, Ordering::Relaxed));
        // SAFETY: a new mapping, to which nothing refers: the wish replaces none.
        let at = unsafe { mmap_anonymous(wish, length, protection, MapFlags::PRIVATE) }?;
        // SAFETY: mapped for ever, unless tests change it (see the module).
        unsafe { ApplicationMemory::new(at.expose_provenance(), length) }.map(Self)
    }

    /// The whole address space, as implicit on-demand paging has it.
    ///
    /// # Errors
    /// None.
    pub fn everything() -> Result<ApplicationMemory> {
        // SAFETY: used on demand only, in tests.
        unsafe { ApplicationMemory::new(0, usize::MAX) }
    }

    /// A range that may not be in the pages.
    ///
    /// # Errors
    /// EINVAL if it wraps around.
    pub fn range(&self, offset: usize, length: usize) -> Result<ApplicationMemory> {
        // SAFETY: of these pages; where a test goes beyond them, it does not use the range.
        unsafe { ApplicationMemory::new(self.0.address().wrapping_add(offset), length) }
    }

    /// All of it.
    #[must_use]
    pub fn memory(&self) -> ApplicationMemory {
        self.0
    }

    /// Unmaps the pages; nothing is mapped there later.
    ///
    /// # Errors
    /// Those of munmap(2).
    pub fn unmap(&self) -> Result<()> {
        let at = with_exposed_provenance_mut(self.0.address());
        // SAFETY: the mapping of `new` (see the module).
        Ok(unsafe { munmap(at, self.0.length()) }?)
    }

    /// Some of the pages.
    ///
    /// # Errors
    /// EINVAL for pages that are not there.
    pub fn part(&self, first: usize, pages: usize) -> Result<Self> {
        let (offset, length) = (first * Self::page(), pages * Self::page());
        let part = self.0.part(offset, length);
        part.map(Self).map_err(|_| Errno::INVAL)
    }

    /// Makes the pages read-only.
    ///
    /// # Errors
    /// Those of mprotect(2).
    pub fn forbid_writing(&self) -> Result<()> {
        self.protect(MprotectFlags::READ)
    }

    /// Makes the pages of no use at all.
    ///
    /// # Errors
    /// Those of mprotect(2).
    pub fn forbid(&self) -> Result<()> {
        self.protect(MprotectFlags::empty())
    }

    fn protect(&self, flags: MprotectFlags) -> Result<()> {
        let at = with_exposed_provenance_mut(self.0.address());
        // SAFETY: the mapping of `new` (see the module).
        Ok(unsafe { mprotect(at, self.0.length(), flags) }?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_is_given_twice() {
        let first = Scratch::new(3).expect("memory");
        first.unmap().expect("unmapped");
        let second = Scratch::new(3).expect("memory");
        assert!(second.memory().address() >= first.memory().address() + first.memory().length());
    }
}
