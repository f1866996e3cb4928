//! Queues that a kernel driver shares with this process: entries of equal size, with the
//! indices of both sides in the same memory, or a flag in each entry.
//!
//! - [`index`]: the protocol of the two indices, without any memory of its own;
//! - [`Region`]: memory mapped from the command descriptor;
//! - [`Ring`]: indices and entries in a region, checked once against its size;
//! - [`ProducerRing`], [`ConsumerRing`]: the side that this process is;
//! - [`owner`]: the protocol of entries with a flag each in the place of indices;
//! - [`Slots`]: such entries in a region; [`Word`]: a number in a region;
//! - [`Lock`]: what a queue is behind, since verbs may be called by any thread.
//!
//! What the other side writes is not trusted. Its index is used only if it lies in the ring (EIO
//! otherwise); the own index is kept outside of the shared memory; the sizes that the region tells
//! are read and checked once. Entries are copied before they are looked at.
//!
//! unsafe code stands in `region`, `ring` and `slots` alone.

pub mod index;
pub mod owner;
mod region;
mod ring;
mod slots;

pub use crate::sys::lock::Lock;
pub use region::Region;
pub use ring::{ConsumerRing, Entry, ProducerRing, Ring, Shape};
pub use slots::{AtomicFlag, Slots, Word};

#[cfg(test)]
mod tests;
