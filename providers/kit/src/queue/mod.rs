//! Queues that a kernel driver shares with this process: rings of entries of equal size, with the
//! indices of both sides in the same memory.
//!
//! - [`index`]: the protocol of the two indices, without any memory of its own;
//! - [`Region`]: memory mapped from the command descriptor;
//! - [`Ring`]: indices and entries in a region, checked once against its size;
//! - [`ProducerRing`], [`ConsumerRing`]: the side that this process is.
//!
//! What the other side writes is not trusted. Its index is used only if it lies in the ring (EIO
//! otherwise); the own index is kept outside of the shared memory; the sizes that the region tells
//! are read and checked once. Entries are copied before they are looked at.
//!
//! unsafe code stands in `region` and `ring` alone.

pub mod index;
mod region;
mod ring;

pub use region::Region;
pub use ring::{ConsumerRing, Entry, ProducerRing, Ring, Shape};

#[cfg(test)]
mod tests;
