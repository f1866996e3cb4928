//! Queues whose entries have a flag that names their owner.

use super::owner::Flag;
use super::{Entry, Region};
use crate::errno::{Errno, Result};
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};

mod sealed {
    /// Atomics of which any bits are a value.
    pub trait Atomic {}
    impl Atomic for core::sync::atomic::AtomicU8 {}
    impl Atomic for core::sync::atomic::AtomicU16 {}
}

/// The atomics that flags can be.
pub trait AtomicFlag: Flag + sealed::Atomic {}
impl AtomicFlag for AtomicU8 {}
impl AtomicFlag for AtomicU16 {}

/// A queue of entries of `SIZE` bytes, each with a flag of type `F` at `AT`. Entries are counted on
/// and on; the queue comes round where its length is a power of two.
pub struct Slots<const SIZE: usize, const AT: usize, F> {
    first: NonNull<u8>,
    mask: u32,
    /// Keeps the memory.
    _region: Region,
    flag: PhantomData<F>,
}

// SAFETY: the pointer leads into the region, which may be used by any thread.
unsafe impl<const SIZE: usize, const AT: usize, F: AtomicFlag> Send for Slots<SIZE, AT, F> {}
// SAFETY: as above; entries are written through a mutable reference.
unsafe impl<const SIZE: usize, const AT: usize, F: AtomicFlag> Sync for Slots<SIZE, AT, F> {}

impl<const SIZE: usize, const AT: usize, F: AtomicFlag> Slots<SIZE, AT, F> {
    /// The queue of `count` entries at the beginning of a region.
    ///
    /// # Errors
    /// EIO for a count that is no power of two, or that the region has no room for.
    pub fn new(region: Region, count: u32) -> Result<Self> {
        const {
            assert!(SIZE.is_multiple_of(align_of::<u64>()));
            assert!(AT + size_of::<F>() <= SIZE && AT.is_multiple_of(align_of::<F>()));
        }
        if !count.is_power_of_two() {
            return Err(Errno::IO);
        }
        let size = Self::bytes(count)?;
        Ok(Self {
            first: region.place(0, size, align_of::<u64>())?,
            mask: count - 1,
            _region: region,
            flag: PhantomData,
        })
    }

    /// Bytes of that many entries.
    ///
    /// # Errors
    /// EIO for more than there can be.
    pub fn bytes(count: u32) -> Result<usize> {
        let count = usize::try_from(count).ok();
        count
            .and_then(|count| count.checked_mul(SIZE))
            .ok_or(Errno::IO)
    }

    /// Entries.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u32 {
        self.mask + 1
    }

    #[inline]
    fn place(&self, index: u32) -> NonNull<u8> {
        // `new` refused queues with more entries than usize can count.
        let index = (index & self.mask) as usize;
        // SAFETY: `new` found room for all entries.
        unsafe { self.first.add(index * SIZE) }
    }

    /// The flag of an entry.
    #[inline]
    #[must_use]
    pub fn flag(&self, index: u32) -> &F {
        // SAFETY: within the entry, aligned, and lives as long as the region; any bits are a value
        // of the atomic, and both sides use it as one.
        unsafe { self.place(index).add(AT).cast::<F>().as_ref() }
    }

    /// An entry, which belongs to this side if its flag shows it.
    #[inline]
    pub fn entry(&mut self, index: u32) -> Entry<'_, SIZE> {
        // SAFETY: `place` answers an entry of `SIZE` bytes, a multiple of the alignment.
        unsafe { Entry::new(self.place(index), SIZE) }
    }
}

/// A number in a region that the other side reads.
pub struct SharedWord {
    at: NonNull<AtomicU32>,
    /// Keeps the memory.
    _region: Region,
}

// SAFETY: the pointer leads into the region, which may be used by any thread.
unsafe impl Send for SharedWord {}
// SAFETY: as above; it is an atomic.
unsafe impl Sync for SharedWord {}

impl SharedWord {
    /// The number at `offset`.
    ///
    /// # Errors
    /// EIO outside of the region.
    pub fn new(region: Region, offset: usize) -> Result<Self> {
        let at = region.place(offset, size_of::<AtomicU32>(), align_of::<AtomicU32>())?;
        Ok(Self {
            at: at.cast(),
            _region: region,
        })
    }

    /// Writes it, before whatever is read next.
    pub fn set(&self, value: u32) {
        // SAFETY: `new` found room for it, aligned; both sides use it atomically.
        unsafe { self.at.as_ref() }.store(value, Ordering::SeqCst);
    }
}
