//! The frame of a method call: a header, and the attributes behind it.

use super::attr::Attr;
use crate::abi::ib_uverbs_ioctl_hdr;
use crate::abi::kernel::ioctl::RDMA_VERBS_IOCTL;
use crate::errno::{Errno, Result};
use core::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Bytes and attributes of a call with `count` attributes, as the header has them.
///
/// # Errors
/// EINVAL when 16 bits cannot hold them.
pub(super) fn lengths(count: usize) -> Result<(u16, u16)> {
    const MOST: usize = (u16::MAX as usize - size_of::<ib_uverbs_ioctl_hdr>()) / size_of::<Attr>();
    if count > MOST {
        return Err(Errno::INVAL);
    }
    // Both fit, since `count` is not above MOST; the compiler sees it too.
    let bytes = size_of::<ib_uverbs_ioctl_hdr>() + count * size_of::<Attr>();
    let bytes = u16::try_from(bytes).map_err(|_| Errno::INVAL)?;
    let count = u16::try_from(count).map_err(|_| Errno::INVAL)?;
    Ok((bytes, count))
}

/// Issues the ioctl, again after each interruption.
///
/// # Safety
/// `frame` points to a filled header followed by as many attributes as it states, whose addresses
/// are valid for their lengths.
pub(super) unsafe fn call(fd: BorrowedFd<'_>, frame: *mut ib_uverbs_ioctl_hdr) -> Result<()> {
    loop {
        // SAFETY: the caller vouches for the buffer; the descriptor is borrowed.
        if unsafe { libc::ioctl(fd.as_raw_fd(), RDMA_VERBS_IOCTL, frame) } == 0 {
            return Ok(());
        }
        let e = super::errno::get();
        if e.raw() != libc::EINTR {
            return Err(e);
        }
    }
}
