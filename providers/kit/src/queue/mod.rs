//! Queues that a kernel driver shares with this process: a power of two of entries of equal size,
//! with either one index for each side or a flag in each entry.
//!
//! - [`index`]: the protocol of the indices, independent of memory;
//! - [`owner`]: the protocol of the flags, and when a doorbell can be omitted, independent of
//!   memory;
//! - [`Region`]: memory mapped from the command descriptor; plain memory in tests, so that they run
//!   under memcheck;
//! - [`Ring`]: indices and entries in a region, at the offsets of the driver's ABI, checked once
//!   against its size;
//! - [`ProducerRing`], [`ConsumerRing`]: the side of this process. Members of an entry are accessed
//!   at offsets checked by the compiler, bytes within the entry's size;
//! - [`Slots`]: entries with flags; [`SharedWord`]: a single shared number;
//! - [`Lock`]: protects a queue, because any thread may call a verb. It takes one exchange, and
//!   waits by futex(2).
//!
//! *Trust.* The other side's index is used only if it lies in the ring, otherwise the call ends
//! with EIO. The own index is kept outside of the shared memory. Sizes in the region are read and
//! checked once. Entries are copied before use. The other side's index is read again only when the
//! ring seems full or empty, and at the start of a batch.
//!
//! Unsafe code is in `region`, `ring` and `slots` only. Tests: `cargo test -p ferroverbs-kit
//! queue::`, where loom runs both protocols in every order of memory accesses.

pub mod index;
pub mod owner;
mod region;
mod ring;
mod slots;

pub use crate::sys::lock::Lock;
pub use region::Region;
pub use ring::{ConsumerRing, Entry, ProducerRing, Ring, Shape};
pub use slots::{AtomicFlag, SharedWord, Slots};

#[cfg(test)]
mod tests;
