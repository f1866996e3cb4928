//! Raw system and C library calls, one a function.

pub mod application;
pub mod attr;
pub mod barrier;
mod careful;
pub mod child;
pub mod command;
pub mod cycles;
pub mod datagram;
pub mod detour;
pub mod device_memory;
pub mod dl;
pub mod dma_heap;
pub mod errno;
pub mod exit;
pub mod fd;
pub mod glob;
pub mod ioctl;
pub mod link;
pub mod lock;
pub mod madvise;
pub mod mapping;
pub mod memory;
pub mod other_process;
pub mod packet;
pub mod pages;
pub mod per_process;
pub mod privilege;
pub mod pthread;
mod put;
pub mod sched;
#[cfg(any(test, feature = "testing"))]
pub mod scratch;
pub mod shared;
pub mod shared_file;
pub mod signal;
pub mod stat;
pub mod write;

#[cfg(test)]
mod tests;
