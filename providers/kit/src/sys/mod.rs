//! Raw system and C library calls, one a function.

pub mod application;
pub mod attr;
pub mod barrier;
mod batch;
pub mod child;
pub mod clock;
pub mod command;
mod control;
pub mod cycles;
pub mod datagram;
pub mod denied;
pub mod device_memory;
pub mod dl;
pub mod dma_heap;
pub mod driver_write;
pub mod epoll;
pub mod errno;
pub mod exit;
pub mod fd;
pub mod first;
pub mod fork_guard;
pub mod forks;
mod frame;
pub mod glob;
pub mod identity;
#[cfg(any(test, feature = "testing"))]
pub mod in_child;
pub mod ioctl;
mod kernel_copy;
pub mod link;
pub mod lock;
pub mod madvise;
pub mod mapping;
pub mod memory;
pub mod no_fault_copy;
pub mod other_process;
mod out_of_range;
pub mod output;
pub mod packet;
pub mod pages;
pub mod per_process;
pub mod pipe;
pub mod prefetch;
pub mod privilege;
pub mod pthread;
mod put;
pub mod ready;
pub mod sched;
#[cfg(any(test, feature = "testing"))]
pub mod scratch;
pub mod sealed_file;
pub mod shared;
pub mod signal;
pub mod stat;
pub mod thread;
pub mod write;

#[cfg(test)]
mod tests;
