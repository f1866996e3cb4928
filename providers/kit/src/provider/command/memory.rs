#![forbid(unsafe_code)]
//! Empty memory that is known again by its inode.

use crate::errno::Result;
use rustix::fs::{MemfdFlags, fstat, memfd_create};
use rustix::pipe::{PipeFlags, pipe_with};
use std::os::fd::{BorrowedFd, OwnedFd};

/// Device and inode.
pub(super) type Inode = (u64, u64);

/// The name of the memory, by which descriptors of other processes are known.
pub(super) const NAME: &str = "verbs";

pub(super) fn new() -> Result<OwnedFd> {
    memfd_create(NAME, MemfdFlags::CLOEXEC).or_else(|_| {
        // The kernel has no such memory, or the process may have none: half a pipe has an inode of
        // its own as well.
        let (read, _) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(read)
    })
}

pub(super) fn inode(fd: BorrowedFd<'_>) -> Result<Inode> {
    let stat = fstat(fd)?;
    Ok((stat.st_dev, stat.st_ino))
}
