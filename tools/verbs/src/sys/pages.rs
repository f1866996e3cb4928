//! Memory that is registered: its allocation, and access to bytes that devices access too.

use std::{
    alloc::{self, Layout},
    mem,
    ops::Range,
    panic::{RefUnwindSafe, UnwindSafe},
    ptr::NonNull,
    slice,
};

use super::owner::MemoryOwner;
use crate::error::{Error, Result};

/// The bytes of a page: of the largest that there are, where the kernel does not report it.
pub(crate) fn page_size() -> usize {
    // SAFETY: takes a number.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(65536)
}

/// Whole pages for that many bytes: protection at fork(2) covers pages, so other memory of the
/// process has none of them. None if there are too many bytes.
pub(crate) fn layout(length: usize) -> Option<Layout> {
    let layout = Layout::from_size_align(length.max(1), page_size()).ok()?;
    Some(layout.pad_to_align())
}

/// Memory of this process: its own, zeroed when it is made, or that of an owner.
pub(crate) struct Pages {
    at: NonNull<u8>,
    length: usize,
    backing: Backing,
}

enum Backing {
    Allocated(Layout),
    Owned { _owner: Box<dyn MemoryOwner> },
}

// SAFETY: the memory belongs to no thread. What may access it at the same time is stated at each
// function.
unsafe impl Send for Pages {}
// SAFETY: the same.
unsafe impl Sync for Pages {}

/// A panic leaves bytes behind, each of which is valid. The owner is dropped and not used
/// otherwise.
impl UnwindSafe for Pages {}
impl RefUnwindSafe for Pages {}

impl Pages {
    pub(crate) fn new(length: usize) -> Result<Self> {
        let none = || Error::new("ibv_reg_mr", libc::ENOMEM);
        let layout = layout(length).ok_or_else(none)?;
        // SAFETY: the size is not zero.
        let at = NonNull::new(unsafe { alloc::alloc_zeroed(layout) }).ok_or_else(none)?;
        Ok(Self {
            at,
            length,
            backing: Backing::Allocated(layout),
        })
    }

    /// The memory of an owner.
    pub(crate) fn of(mut owner: Box<dyn MemoryOwner>) -> Self {
        let memory = owner.memory();
        Self {
            at: memory.cast(),
            length: memory.len(),
            backing: Backing::Owned { _owner: owner },
        }
    }

    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Where the range begins, if it lies inside.
    pub(crate) fn at(&self, offset: usize, length: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(length)?;
        // SAFETY: inside the memory.
        (end <= self.length).then(|| unsafe { self.at.add(offset) })
    }

    /// The bytes of a range; none outside.
    ///
    /// # Safety
    /// Nothing writes to the range while the slice lives: no thread and no device.
    pub(crate) unsafe fn bytes(&self, offset: usize, length: usize) -> &[u8] {
        let Some(at) = self.at(offset, length) else {
            return &[];
        };
        // SAFETY: inside the memory, which is initialised; by the caller nothing writes.
        unsafe { slice::from_raw_parts(at.as_ptr(), length) }
    }

    /// The same for writing.
    ///
    /// # Safety
    /// Nothing else accesses the range while the slice lives: no thread and no device.
    #[allow(clippy::mut_from_ref)] // disjoint ranges have separate owners
    pub(crate) unsafe fn bytes_mut(&self, offset: usize, length: usize) -> &mut [u8] {
        let Some(at) = self.at(offset, length) else {
            return &mut [];
        };
        // SAFETY: inside the memory, which is initialised; by the caller nothing else accesses it.
        unsafe { slice::from_raw_parts_mut(at.as_ptr(), length) }
    }

    /// Copies bytes out of a range that devices may write to; whether the range lies inside.
    ///
    /// # Safety
    /// No thread of this process writes to the range.
    pub(crate) unsafe fn copy_out(&self, offset: usize, into: &mut [u8]) -> bool {
        let Some(from) = self.at(offset, into.len()) else {
            return false;
        };
        let (first, words, last) = split(from, into.len());
        // SAFETY: the three parts are the range, and the words are aligned. The accesses are
        // volatile, because a device writes behind the compiler's back.
        unsafe {
            for at in first.chain(last) {
                if let Some(byte) = into.get_mut(at) {
                    *byte = from.add(at).read_volatile();
                }
            }
            for at in words.step_by(WORD) {
                if let Some(word) = into.get_mut(at..at + WORD) {
                    let read = from.add(at).cast::<u64>().read_volatile();
                    word.copy_from_slice(&read.to_ne_bytes());
                }
            }
        }
        true
    }

    /// Copies bytes into a range that devices may access; whether the range lies inside.
    ///
    /// # Safety
    /// No other thread of this process accesses the range.
    pub(crate) unsafe fn copy_in(&self, offset: usize, bytes: &[u8]) -> bool {
        let Some(into) = self.at(offset, bytes.len()) else {
            return false;
        };
        let (first, words, last) = split(into, bytes.len());
        // SAFETY: as for `copy_out`.
        unsafe {
            for at in first.chain(last) {
                if let Some(byte) = bytes.get(at) {
                    into.add(at).write_volatile(*byte);
                }
            }
            for at in words.step_by(WORD) {
                if let Some(Ok(word)) = bytes.get(at..at + WORD).map(<[u8; WORD]>::try_from) {
                    let word = u64::from_ne_bytes(word);
                    into.add(at).cast::<u64>().write_volatile(word);
                }
            }
        }
        true
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if let Backing::Allocated(layout) = self.backing {
            // SAFETY: allocated with this layout.
            unsafe { alloc::dealloc(self.at.as_ptr(), layout) };
        }
    }
}

const WORD: usize = mem::size_of::<u64>();

/// The bytes before the first aligned word, the words, and the bytes behind them.
fn split(at: NonNull<u8>, length: usize) -> (Range<usize>, Range<usize>, Range<usize>) {
    let first = at.as_ptr().align_offset(WORD).min(length);
    let end = first + (length - first) / WORD * WORD;
    (0..first, first..end, end..length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_copied_at_any_alignment() {
        let pages = Pages::new(100).unwrap();
        for offset in 0..20 {
            for length in 0..40_u8 {
                let bytes: Vec<u8> = (1..=length).collect();
                let mut read = vec![0; bytes.len()];
                // SAFETY: one thread, no device.
                unsafe {
                    assert!(pages.copy_in(offset, &bytes));
                    assert!(pages.copy_out(offset, &mut read));
                    assert_eq!(pages.bytes(offset, bytes.len()), bytes);
                }
                assert_eq!(read, bytes);
            }
        }
    }

    #[test]
    fn memory_has_its_pages_alone() {
        let size = page_size();
        for (length, whole) in [(0, size), (1, size), (size, size), (size + 1, 2 * size)] {
            let pages = Pages::new(length).unwrap();
            assert_eq!(pages.as_ptr().addr() % size, 0);
            let Backing::Allocated(layout) = pages.backing else {
                continue;
            };
            assert_eq!((layout.size(), pages.length()), (whole, length));
        }
        assert_eq!(
            Pages::new(usize::MAX).err().map(|e| e.errno()),
            Some(libc::ENOMEM)
        );
    }

    #[test]
    fn memory_of_an_owner_is_dropped_with_it() {
        struct Counted(Vec<u8>, #[allow(dead_code)] std::sync::Arc<()>);
        // SAFETY: that of a vector.
        unsafe impl MemoryOwner for Counted {
            fn memory(&mut self) -> NonNull<[u8]> {
                self.0.memory()
            }
        }
        let count = std::sync::Arc::new(());
        let owner = Counted(vec![7; 33], std::sync::Arc::clone(&count));
        let pages = Pages::of(Box::new(owner));
        assert_eq!(pages.length(), 33);
        // SAFETY: one thread, no device.
        unsafe {
            assert!(pages.copy_in(32, &[9]));
            assert_eq!(pages.bytes(31, 2), [7, 9]);
        }
        assert_eq!(std::sync::Arc::strong_count(&count), 2);
        drop(pages);
        assert_eq!(std::sync::Arc::strong_count(&count), 1);
    }

    #[test]
    fn a_range_outside_is_refused() {
        let pages = Pages::new(8).unwrap();
        assert!(pages.at(0, 8).is_some() && pages.at(8, 0).is_some());
        assert!(pages.at(1, 8).is_none() && pages.at(usize::MAX, 2).is_none());
        // SAFETY: one thread, no device.
        unsafe {
            assert!(!pages.copy_in(4, &[0; 5]));
            assert!(!pages.copy_out(9, &mut []));
        }
    }
}
