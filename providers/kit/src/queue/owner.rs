#![forbid(unsafe_code)]
//! The protocol of queues whose entries say by a flag of their own whose they are
//! (`rdma/siw-abi.h`).
//!
//! A producer writes an entry and sets its flag; the consumer reads it and clears the flag. Each
//! side knows by itself which entry is next. A consumer that found nothing stops until a doorbell
//! is rung. While it is at work the bell can be spared: an entry that still has its flag is one
//! that the consumer has yet to come to, and then it finds those behind it, too. For that, both
//! sides write one flag and then read another; each must see what the other wrote, or be seen.

use core::sync::atomic::{AtomicU8, AtomicU16, Ordering};

/// A flag in shared memory.
pub trait Flag {
    /// What it holds.
    type Value: Copy;

    /// Reads it; what the other side wrote before it is seen after this.
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
/// the entry in front of it, `owned` the bit that marks an entry as the consumer's.
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
