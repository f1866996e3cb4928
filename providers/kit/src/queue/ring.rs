//! Indices and entries in shared memory.

use super::Region;
use super::index::{Consumer, Producer};
use crate::errno::{Errno, Result};
use bytemuck::Pod;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

/// How a ring lies in its region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Offset of the producer's index, in bytes.
    pub producer: usize,
    /// Offset of the consumer's index.
    pub consumer: usize,
    /// Offset of the first entry.
    pub entries: usize,
    /// Binary logarithm of an entry's size in bytes.
    pub log2_entry: u32,
    /// Entries less 1, all ones in binary.
    pub mask: u32,
}

/// A ring. `LEAST` is how many bytes every entry has at least, as far as members of fixed places
/// reach.
pub struct Ring<const LEAST: usize> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    entries: NonNull<u8>,
    log2_entry: u32,
    mask: u32,
    /// Keeps the memory.
    _region: Region,
}

// SAFETY: the pointers lead into the region, which may be used by any thread.
unsafe impl<const LEAST: usize> Send for Ring<LEAST> {}
// SAFETY: as above; entries are reached through the one producer or consumer.
unsafe impl<const LEAST: usize> Sync for Ring<LEAST> {}

/// Alignment of entries.
const ALIGN: usize = align_of::<u64>();
/// Larger entries, or more of them, are not to be believed.
const LOG2_MOST: u32 = 31;

impl<const LEAST: usize> Ring<LEAST> {
    /// Finds a ring in a region.
    ///
    /// # Errors
    /// EIO for an invalid shape, or one that exceeds the region.
    pub fn new(region: Region, shape: &Shape) -> Result<Self> {
        const { assert!(LEAST.is_multiple_of(ALIGN)) };
        let count = u64::from(shape.mask) + 1;
        if !count.is_power_of_two() || shape.log2_entry > LOG2_MOST {
            return Err(Errno::IO);
        }
        let entry = 1usize << shape.log2_entry;
        let size = usize::try_from(count)
            .ok()
            .and_then(|count| count.checked_mul(entry))
            .ok_or(Errno::IO)?;
        if entry < LEAST.max(ALIGN) {
            return Err(Errno::IO);
        }
        let index = |offset| region.place(offset, size_of::<AtomicU32>(), align_of::<AtomicU32>());
        Ok(Self {
            producer: index(shape.producer)?.cast(),
            consumer: index(shape.consumer)?.cast(),
            entries: region.place(shape.entries, size, ALIGN)?,
            log2_entry: shape.log2_entry,
            mask: shape.mask,
            _region: region,
        })
    }

    #[inline]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: `new` found room for it, aligned; both sides use it atomically.
        unsafe { self.producer.as_ref() }
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { self.consumer.as_ref() }
    }

    /// Bytes of an entry.
    fn size(&self) -> usize {
        1usize << self.log2_entry
    }

    #[inline]
    fn entry(&self, index: u32) -> Entry<'_, LEAST> {
        // `new` refused rings with more entries than usize can count.
        let index = (index & self.mask) as usize;
        // SAFETY: `new` found room for all entries, which are aligned and have `LEAST` bytes.
        unsafe { Entry::new(self.entries.add(index << self.log2_entry), self.size()) }
    }
}

impl Region {
    /// The number at `offset`, such as those that describe a queue's shape. A number that is
    /// checked is to be read once.
    ///
    /// # Errors
    /// EIO outside of the region.
    pub fn number(&self, offset: usize) -> Result<u32> {
        let place = self.place(offset, size_of::<AtomicU32>(), align_of::<AtomicU32>())?;
        // SAFETY: within the region, aligned, and lives as long as it.
        Ok(unsafe { place.cast::<AtomicU32>().as_ref() }.load(Ordering::Relaxed))
    }

    /// Writes the number at `offset`, as the kernel does when it makes a queue.
    ///
    /// # Errors
    /// EIO outside of the region.
    #[cfg(any(test, feature = "testing"))]
    pub fn set_number(&self, offset: usize, value: u32) -> Result<()> {
        let place = self.place(offset, size_of::<AtomicU32>(), align_of::<AtomicU32>())?;
        // SAFETY: as above.
        unsafe { place.cast::<AtomicU32>().as_ref() }.store(value, Ordering::Relaxed);
        Ok(())
    }
}

/// One entry, while it is this side's.
pub struct Entry<'a, const LEAST: usize> {
    at: NonNull<u8>,
    size: usize,
    life: PhantomData<&'a mut [u8]>,
}

impl<const LEAST: usize> Entry<'_, LEAST> {
    /// The entry of `size` bytes at `at`.
    ///
    /// # Safety
    /// They are part of a region that stays for the entry's life, aligned to [`ALIGN`], and at
    /// least `LEAST`.
    #[inline]
    pub(super) unsafe fn new(at: NonNull<u8>, size: usize) -> Self {
        Self {
            at,
            size,
            life: PhantomData,
        }
    }

    /// Writes a member at a fixed place.
    #[inline]
    pub fn put<const AT: usize, T: Pod>(&mut self, value: T) {
        const {
            assert!(AT + size_of::<T>() <= LEAST);
            assert!(AT.is_multiple_of(align_of::<T>()) && align_of::<T>() <= ALIGN);
        }
        // SAFETY: every entry has `LEAST` bytes and is aligned; until it is published the other
        // side does not look at it. One that does all the same reads bytes of no meaning.
        unsafe { self.at.add(AT).cast::<T>().write(value) }
    }

    /// Reads a member at a fixed place.
    #[inline]
    #[must_use]
    pub fn get<const AT: usize, T: Pod>(&self) -> T {
        const {
            assert!(AT + size_of::<T>() <= LEAST);
            assert!(AT.is_multiple_of(align_of::<T>()) && align_of::<T>() <= ALIGN);
        }
        // SAFETY: as for `put`; any bytes are a value of `T`.
        unsafe { self.at.add(AT).cast::<T>().read() }
    }

    /// Writes `bytes` at `offset`.
    ///
    /// # Errors
    /// EINVAL beyond the end of the entry.
    #[inline]
    pub fn put_bytes(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        if offset > self.size || bytes.len() > self.size - offset {
            return Err(Errno::INVAL);
        }
        // SAFETY: within the entry; see `put`. Memory that this process may borrow does not overlap
        // with a region.
        unsafe {
            self.at
                .add(offset)
                .copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
        Ok(())
    }
}

/// The producer of a ring.
pub struct ProducerRing<const LEAST: usize> {
    ring: Ring<LEAST>,
    index: Producer,
}

impl<const LEAST: usize> ProducerRing<LEAST> {
    /// Continues from the ring's indices.
    ///
    /// # Errors
    /// EIO for an index outside of the ring.
    pub fn new(ring: Ring<LEAST>) -> Result<Self> {
        let index = Producer::new(ring.producer(), ring.consumer(), ring.mask)?;
        Ok(Self { ring, index })
    }

    /// Bytes of an entry.
    #[must_use]
    pub fn entry_size(&self) -> usize {
        self.ring.size()
    }

    /// The free entry to be written next.
    ///
    /// # Errors
    /// ENOMEM when the ring is full, EIO for an index outside of the ring.
    #[inline]
    pub fn free(&mut self) -> Result<Entry<'_, LEAST>> {
        if !self.index.has_room(self.ring.consumer())? {
            return Err(Errno::NOMEM);
        }
        Ok(self.ring.entry(self.index.at()))
    }

    /// The free entry is written.
    #[inline]
    pub fn step(&mut self) {
        self.index.step();
    }

    /// Where the next entry goes, for [`Self::back_to`].
    #[inline]
    #[must_use]
    pub fn at(&self) -> u32 {
        self.index.at()
    }

    /// Forgets the entries from `at` on, which were not published.
    pub fn back_to(&mut self, at: u32) {
        self.index.back_to(at);
    }

    /// Hands all that is written to the consumer.
    #[inline]
    pub fn publish(&self) {
        self.index.publish(self.ring.producer());
    }
}

/// The consumer of a ring.
pub struct ConsumerRing<const LEAST: usize> {
    ring: Ring<LEAST>,
    index: Consumer,
}

impl<const LEAST: usize> ConsumerRing<LEAST> {
    /// Continues from the ring's indices.
    ///
    /// # Errors
    /// EIO for an index outside of the ring.
    pub fn new(ring: Ring<LEAST>) -> Result<Self> {
        let index = Consumer::new(ring.producer(), ring.consumer(), ring.mask)?;
        Ok(Self { ring, index })
    }

    /// The entry to be read next, if there is one.
    ///
    /// # Errors
    /// EIO for an index outside of the ring.
    #[inline]
    pub fn head(&mut self) -> Result<Option<Entry<'_, LEAST>>> {
        if !self.index.has_entry(self.ring.producer())? {
            return Ok(None);
        }
        Ok(Some(self.ring.entry(self.index.at())))
    }

    /// Reads the oldest entries, as many as there are and `room` has places for, and gives them
    /// back to the producer; returns how many.
    ///
    /// # Errors
    /// EIO for an index outside of the ring.
    #[inline]
    pub fn take<T>(
        &mut self,
        room: &mut [T],
        read: impl Fn(&Entry<'_, LEAST>) -> T,
    ) -> Result<u32> {
        let end = self.index.look(self.ring.producer())?;
        let mut at = self.index.at();
        if at == end {
            return Ok(0);
        }
        let mut found = 0;
        for place in room {
            *place = read(&self.ring.entry(at));
            at = self.index.after(at);
            found += 1;
            if at == end {
                break;
            }
        }
        self.index.go_to(at);
        self.index.release(self.ring.consumer());
        Ok(found)
    }

    /// The entry is read.
    #[inline]
    pub fn step(&mut self) {
        self.index.step();
    }

    /// Gives all that is read back to the producer.
    #[inline]
    pub fn release(&self) {
        self.index.release(self.ring.consumer());
    }
}
