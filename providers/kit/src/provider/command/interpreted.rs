#![forbid(unsafe_code)]
//! The replacement of such memory in tests under Miri, which supports neither memfd_create(2) nor
//! inodes: a pipe, recognised by the number of its descriptor. Duplicates are not recognised.

use crate::errno::Result;
use rustix::pipe::pipe;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// As of such memory.
pub(super) type Inode = (u64, u64);

/// As of such memory.
pub(super) const NAME: &str = "verbs";

pub(super) fn new() -> Result<OwnedFd> {
    let (read, _) = pipe()?;
    Ok(read)
}

pub(super) fn inode(fd: BorrowedFd<'_>) -> Result<Inode> {
    Ok((0, u64::from(fd.as_raw_fd().cast_unsigned())))
}
