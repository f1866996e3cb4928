//! The way of a provider to the kernel.

use crate::abi::handle::Ctx;
use crate::errno::{Errno, Result};
use crate::sys::{ioctl::Ioctl, write::Request};
use crate::table::Private;
use crate::uverbs::Kernel;
use core::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// The kernel behind an open context. It may be kept and shared at will: once the context is
/// closed, every command is answered EBADF.
#[derive(Clone)]
pub struct Commands(Arc<Private>);

impl Commands {
    pub(super) fn of(ctx: Ctx<'_>) -> Self {
        Self(ctx.share_private())
    }

    /// The command descriptor, from which queues are mapped.
    ///
    /// # Errors
    /// EBADF once the context is closed.
    #[inline]
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>> {
        match self.0.cmd_fd() {
            // SAFETY: the context owns the descriptor and is open; closing it while a verb of it
            // runs is forbidden to applications (ibv_close_device(3)).
            fd if fd >= 0 => Ok(unsafe { BorrowedFd::borrow_raw(fd) }),
            _ => Err(Errno(libc::EBADF)),
        }
    }

    /// Number of the descriptor for asynchronous events, -1 for none, as the commands that make
    /// queues take it.
    #[must_use]
    pub fn async_fd(&self) -> c_int {
        self.0.async_fd()
    }
}

impl Kernel for Commands {
    fn private(&self) -> &Private {
        &self.0
    }

    fn ioctl(&self, call: &mut Ioctl<'_>) -> Result<()> {
        call.run(self.descriptor()?, self.0.driver_id)
    }

    #[inline(always)] // so that the doorbell's kind is known
    fn write(&self, request: &mut Request<'_>) -> Result<()> {
        request.send(self.descriptor()?)
    }
}
