//! `struct rdma_event_channel`.

use super::rdma_event_channel;
use core::ptr::NonNull;
use kit::errno::{Errno, Result};
use kit::sys::memory;
use rustix::fd::BorrowedFd;

/// A channel of the program or the library. A program guarantees that it destroys a channel after
/// the channel's ids.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Channel(NonNull<rdma_event_channel>);

// SAFETY: a block of the process, of which one member is read.
unsafe impl Send for Channel {}
// SAFETY: as above.
unsafe impl Sync for Channel {}

impl Channel {
    /// The channel at a pointer; none for NULL.
    pub fn of(channel: *mut rdma_event_channel) -> Option<Self> {
        NonNull::new(channel).map(Self)
    }

    /// A channel that owns this descriptor.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new(fd: i32) -> Result<Self> {
        let block = memory::new(rdma_event_channel { fd })?;
        Self::of(block).ok_or(Errno::NOMEM)
    }

    pub fn as_ptr(self) -> *mut rdma_event_channel {
        self.0.as_ptr()
    }

    pub fn address(self) -> usize {
        self.as_ptr().addr()
    }

    pub fn fd(self) -> i32 {
        // SAFETY: see above.
        unsafe { (&raw const (*self.as_ptr()).fd).read_volatile() }
    }

    /// The descriptor, until the channel is destroyed; none if the program has closed it.
    pub fn borrow(&self) -> Option<BorrowedFd<'_>> {
        let fd = self.fd();
        // SAFETY: the channel has the descriptor.
        (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Whether a thread that asks for an event waits for it, that is, whether the program left the
    /// descriptor blocking.
    pub fn waits(&self) -> bool {
        let flags = self.borrow().map(rustix::fs::fcntl_getfl);
        matches!(flags, Some(Ok(flags)) if !flags.contains(rustix::fs::OFlags::NONBLOCK))
    }

    /// Closes the descriptor and frees the block. The channel is not used afterwards.
    pub fn destroy(self) {
        let fd = self.fd();
        if fd >= 0 {
            // SAFETY: the channel owns the descriptor. If the program has closed it, the call
            // returns EBADF.
            unsafe { libc::close(fd) };
        }
        // SAFETY: a block of this library, freed once.
        unsafe { memory::free(self.as_ptr().cast()) }
    }
}
