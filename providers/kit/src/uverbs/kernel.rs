#![forbid(unsafe_code)]
//! The kernel as commands see it.

use crate::abi::handle::Ctx;
use crate::errno::Result;
use crate::sys::ioctl::Ioctl;
use crate::sys::write::Request;
use crate::table::Private;

/// An executor of commands: an open context, or a fake kernel in tests.
pub trait Kernel {
    /// The library's knowledge of the kernel behind it.
    fn private(&self) -> &Private;

    /// Calls a method.
    ///
    /// # Errors
    /// The kernel's own errno.
    fn ioctl(&self, call: &mut Ioctl<'_>) -> Result<()>;

    /// Writes a command to the command descriptor.
    ///
    /// # Errors
    /// The kernel's own errno.
    fn write(&self, request: &mut Request<'_>) -> Result<()>;
}

impl Kernel for Ctx<'_> {
    fn private(&self) -> &Private {
        Ctx::private(*self)
    }

    fn ioctl(&self, call: &mut Ioctl<'_>) -> Result<()> {
        call.run(self.cmd_fd()?, Ctx::private(*self).driver_id)
    }

    fn write(&self, request: &mut Request<'_>) -> Result<()> {
        request.send(self.cmd_fd()?)
    }
}
