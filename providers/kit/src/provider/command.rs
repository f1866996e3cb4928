#![forbid(unsafe_code)]
//! Command descriptors of devices in user space.
//!
//! A context has one because programs duplicate it and hand it on. Nothing is behind it: it is empty
//! memory, known again by its inode.

use crate::errno::{Errno, Result};
use parking_lot::Mutex;
use rustix::fs::{MemfdFlags, fstat, memfd_create};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

type Inode = (u64, u64);

static OPEN: Mutex<Vec<Inode>> = Mutex::new(Vec::new());

fn inode(fd: BorrowedFd<'_>) -> Result<Inode> {
    let stat = fstat(fd)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// A new descriptor.
///
/// # Errors
/// EMFILE, ENFILE, ENOMEM; ENOSYS before Linux 3.17.
pub(super) fn open() -> Result<OwnedFd> {
    let fd = memfd_create("verbs", MemfdFlags::CLOEXEC)?;
    let inode = inode(fd.as_fd())?;
    OPEN.lock().push(inode);
    Ok(fd)
}

/// The context of a descriptor is closed.
pub(super) fn forget(fd: BorrowedFd<'_>) {
    if let Ok(inode) = inode(fd) {
        OPEN.lock().retain(|known| *known != inode);
    }
}

/// Whether a descriptor is that of an open context of a device in user space, or a duplicate.
///
/// # Errors
/// [`Errno::INVAL`] if nothing is open there.
pub fn is_command(fd: BorrowedFd<'_>) -> Result<bool> {
    let inode = inode(fd).map_err(|_| Errno::INVAL)?;
    Ok(OPEN.lock().contains(&inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duplicate_is_known_until_the_context_is_closed() {
        let fd = open().expect("a descriptor");
        let copy = fd.try_clone().expect("a copy");
        assert_eq!(is_command(copy.as_fd()), Ok(true));
        let other = std::fs::File::open("/dev/null").expect("there");
        assert_eq!(is_command(other.as_fd()), Ok(false));
        forget(fd.as_fd());
        assert_eq!(is_command(copy.as_fd()), Ok(false));
    }
}
