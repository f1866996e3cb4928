#![forbid(unsafe_code)]
//! The protocol of a ring's two indices (`struct rxe_queue_buf` of `rdma/rdma_user_rxe.h`).
//!
//! Both lie in the ring, from 0 to the mask; the ring is empty when they are equal, and full when
//! the producer's is one behind the consumer's. Entries are written before the producer's index is
//! released, and read before the consumer's is.

use crate::errno::{Errno, Result};
use core::sync::atomic::AtomicU32;

/// An index in shared memory.
pub trait Index {
    /// Reads the index that the other side released.
    fn acquire(&self) -> u32;
    /// Shows the other side how far this one is.
    fn release(&self, value: u32);
}

/// Makes an atomic an index; the tests' own kind of atomic, too, so that they try these orderings.
macro_rules! index {
    ($atomic:ty) => {
        impl $crate::queue::index::Index for $atomic {
            #[inline]
            fn acquire(&self) -> u32 {
                self.load(core::sync::atomic::Ordering::Acquire)
            }

            #[inline]
            fn release(&self, value: u32) {
                self.store(value, core::sync::atomic::Ordering::Release);
            }
        }
    };
}
#[cfg(all(test, not(miri)))]
pub(super) use index;

index!(AtomicU32);

/// An index that was read, if it lies in the ring.
///
/// # Errors
/// EIO if it does not.
#[inline]
fn inside(index: u32, mask: u32) -> Result<u32> {
    if index > mask {
        return Err(Errno::IO);
    }
    Ok(index)
}

/// The producer's side. There is only one producer.
#[derive(Debug)]
pub struct Producer {
    /// The entry to be written next.
    next: u32,
    /// The last value read of the consumer's index.
    seen: u32,
    mask: u32,
}

impl Producer {
    /// Continues from the shared indices.
    ///
    /// # Errors
    /// EIO for an index outside of the ring.
    pub fn new(producer: &impl Index, consumer: &impl Index, mask: u32) -> Result<Self> {
        Ok(Self {
            next: inside(producer.acquire(), mask)?,
            seen: inside(consumer.acquire(), mask)?,
            mask,
        })
    }

    /// Whether an entry is free. The consumer's index is looked at only if none was.
    ///
    /// # Errors
    /// EIO for an index outside of the ring.
    #[inline]
    pub fn has_room(&mut self, consumer: &impl Index) -> Result<bool> {
        let after = self.next.wrapping_add(1) & self.mask;
        if after != self.seen {
            return Ok(true);
        }
        self.seen = inside(consumer.acquire(), self.mask)?;
        Ok(after != self.seen)
    }

    /// The entry to be written.
    #[inline]
    #[must_use]
    pub fn at(&self) -> u32 {
        self.next
    }

    /// The entry is written.
    #[inline]
    pub fn step(&mut self) {
        self.next = self.next.wrapping_add(1) & self.mask;
    }

    /// Forgets entries from `at` on, which were not published.
    #[inline]
    pub fn back_to(&mut self, at: u32) {
        self.next = at & self.mask;
    }

    /// Hands all that is written to the consumer.
    #[inline]
    pub fn publish(&self, producer: &impl Index) {
        producer.release(self.next);
    }
}

/// The consumer's side. There is only one consumer.
#[derive(Debug)]
pub struct Consumer {
    /// The entry to be read next.
    next: u32,
    /// The last value read of the producer's index.
    seen: u32,
    mask: u32,
}

impl Consumer {
    /// Continues from the shared indices.
    ///
    /// # Errors
    /// EIO for an index outside of the ring.
    pub fn new(producer: &impl Index, consumer: &impl Index, mask: u32) -> Result<Self> {
        Ok(Self {
            next: inside(consumer.acquire(), mask)?,
            seen: inside(producer.acquire(), mask)?,
            mask,
        })
    }

    /// Whether an entry is there. The producer's index is looked at only if none was.
    ///
    /// # Errors
    /// EIO for an index outside of the ring.
    #[inline]
    pub fn has_entry(&mut self, producer: &impl Index) -> Result<bool> {
        if self.next != self.seen {
            return Ok(true);
        }
        self.seen = inside(producer.acquire(), self.mask)?;
        Ok(self.next != self.seen)
    }

    /// Looks at the producer's index: the entries from [`Self::at`] up to the answer are there.
    ///
    /// # Errors
    /// EIO for an index outside of the ring.
    #[inline]
    pub fn look(&mut self, producer: &impl Index) -> Result<u32> {
        self.seen = inside(producer.acquire(), self.mask)?;
        Ok(self.seen)
    }

    /// The entry to be read.
    #[inline]
    #[must_use]
    pub fn at(&self) -> u32 {
        self.next
    }

    /// The entry is read.
    #[inline]
    pub fn step(&mut self) {
        self.next = self.next.wrapping_add(1) & self.mask;
    }

    /// The entry behind the one at `at`.
    #[inline]
    #[must_use]
    pub fn after(&self, at: u32) -> u32 {
        at.wrapping_add(1) & self.mask
    }

    /// The entries before `at` are read.
    #[inline]
    pub fn go_to(&mut self, at: u32) {
        self.next = at & self.mask;
    }

    /// Gives all that is read back to the producer.
    #[inline]
    pub fn release(&self, consumer: &impl Index) {
        consumer.release(self.next);
    }
}
