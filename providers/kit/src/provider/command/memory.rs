#![forbid(unsafe_code)]
//! Empty memory that is known again by its inode.

use super::{Inode, NAME};
use crate::errno::Result;
use rustix::fs::{MemfdFlags, fstat, memfd_create};
use std::os::fd::{BorrowedFd, OwnedFd};

pub(super) fn new() -> Result<OwnedFd> {
    Ok(memfd_create(NAME, MemfdFlags::CLOEXEC)?)
}

pub(super) fn inode(fd: BorrowedFd<'_>) -> Result<Inode> {
    let stat = fstat(fd)?;
    Ok((stat.st_dev, stat.st_ino))
}
