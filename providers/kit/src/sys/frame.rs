//! The frame of a method call: a header, and the attributes behind it.

use super::attr::Attr;
use crate::abi::ib_uverbs_ioctl_hdr;
use crate::abi::kernel::ioctl::RDMA_VERBS_IOCTL;
use crate::errno::{Errno, Result};
use core::ffi::c_void;
use core::mem::size_of;
use rustix::ioctl;
use std::os::fd::BorrowedFd;

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

/// An ioctl's number has 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "asserted")]
const NUMBER: ioctl::Opcode = {
    assert!(RDMA_VERBS_IOCTL >> 32 == 0);
    RDMA_VERBS_IOCTL as ioctl::Opcode
};

/// The ioctl without the C library's function, which costs several times as many instructions.
struct Call(*mut ib_uverbs_ioctl_hdr);

// SAFETY: the number is that of the call, which reads and writes what the frame names.
unsafe impl ioctl::Ioctl for Call {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> ioctl::Opcode {
        NUMBER
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.0.cast()
    }

    unsafe fn output_from_ptr(_: ioctl::IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// Issues the ioctl, again after each interruption.
///
/// # Safety
/// `frame` points to a filled header followed by as many attributes as it states, whose addresses
/// are valid for their lengths.
pub(super) unsafe fn call(fd: BorrowedFd<'_>, frame: *mut ib_uverbs_ioctl_hdr) -> Result<()> {
    loop {
        // SAFETY: the caller vouches for the buffer.
        match unsafe { ioctl::ioctl(fd, Call(frame)) } {
            Err(rustix::io::Errno::INTR) => {}
            answer => return answer.map_err(Errno::from),
        }
    }
}
