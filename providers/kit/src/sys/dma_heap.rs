//! Memory of the kernel's DMA heaps (`/dev/dma_heap`).

use super::fd;
use crate::errno::{Errno, Result};
use bytemuck::{Pod, Zeroable};
use core::ffi::{c_int, c_void};
use rustix::mm::{MapFlags, ProtFlags};
use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

/// `struct dma_heap_allocation_data`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
struct Allocation {
    len: u64,
    fd: u32,
    fd_flags: u32,
    heap_flags: u64,
}

/// `DMA_HEAP_IOCTL_ALLOC`: reads and writes that structure, number 0 of type `H`.
const ALLOC: libc::Ioctl = 0xc018_4800;
const _: () = assert!(size_of::<Allocation>() == 0x18);

/// An open heap.
pub struct DmaHeap(File);

impl DmaHeap {
    /// Opens the heap of that file.
    ///
    /// # Errors
    /// ENOENT where the kernel has no such heap, EACCES.
    pub fn open(file: &Path) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(file);
        Ok(Self(file?))
    }

    /// Allocates a DMA buffer of `size` bytes and maps it.
    ///
    /// # Errors
    /// The kernel's: ENOMEM, EINVAL for no byte.
    pub fn alloc(&self, size: usize) -> Result<(*mut c_void, OwnedFd)> {
        let flags = libc::O_RDWR | libc::O_CLOEXEC;
        let mut asked = Allocation {
            len: u64::try_from(size).map_err(|_| Errno::INVAL)?,
            fd_flags: flags.cast_unsigned(),
            ..Allocation::default()
        };
        // SAFETY: the kernel reads and writes that structure.
        let answer: c_int = unsafe { libc::ioctl(self.0.as_raw_fd(), ALLOC, &raw mut asked) };
        if answer != 0 {
            return Err(super::errno::get());
        }
        let buffer = fd::made(asked.fd.into())?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let at = unsafe {
            let place = core::ptr::null_mut();
            rustix::mm::mmap(place, size, protection, MapFlags::SHARED, buffer.as_fd(), 0)
        }?;
        Ok((at, buffer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_heap_is_an_error() {
        let nowhere = Path::new("/nowhere/heap");
        assert_eq!(DmaHeap::open(nowhere).err(), Some(Errno(libc::ENOENT)));
        let heap = DmaHeap::open(Path::new("/dev/zero")).unwrap();
        assert_eq!(heap.alloc(4096).err(), Some(Errno(libc::ENOTTY)));
    }
}
