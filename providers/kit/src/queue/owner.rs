#![forbid(unsafe_code)]
//! The protocol of queues whose entries have a flag that names their owner (`rdma/siw-abi.h`).
//!
//! A producer writes an entry and sets its flag; the consumer reads it and clears the flag. Each
//! side knows by itself which entry is next. A consumer that found no entry stops until a doorbell
//! is rung. While the consumer works, the doorbell can be omitted: an entry whose flag is still set
//! is one that the consumer has yet to reach, and then it also finds later entries. For this, both
//! sides write one flag and then read another; at least one of them must see the other's flag.

use core::sync::atomic::{AtomicU8, AtomicU16, Ordering};

/// A flag in shared memory.
pub trait Flag {
    /// The type of its value.
    type Value: Copy;

    /// Reads it; writes of the other side before its write are visible afterwards.
    fn look(&self) -> Self::Value;

    /// Writes it, after everything that was written to the entry and before whatever is read next.
    fn set(&self, value: Self::Value);
}

impl Flag for AtomicU8 {
    type Value = u8;

    #[inline]
    fn look(&self) -> u8 {
        self.load(Ordering::SeqCst)
    }

    #[inline]
    fn set(&self, value: u8) {
        self.store(value, Ordering::SeqCst);
    }
}

impl Flag for AtomicU16 {
    type Value = u16;

    #[inline]
    fn look(&self) -> u16 {
        self.load(Ordering::SeqCst)
    }

    #[inline]
    fn set(&self, value: u16) {
        self.store(value, Ordering::SeqCst);
    }
}

/// Hands an entry over; returns whether the consumer has to be notified. `before` is the flag of
/// the preceding entry, `owned` the bit that marks an entry as the consumer's.
#[inline]
pub fn hand_over(
    flag: &impl Flag<Value = u16>,
    value: u16,
    before: &impl Flag<Value = u16>,
    owned: u16,
) -> bool {
    flag.set(value);
    before.look() & owned == 0
}
