#![forbid(unsafe_code)]
//! The common part of destroying objects that report no events.

use super::{Driver, Fallback, Ioctl, Kernel, Path, destroyed, try_ioctl, write};
use crate::errno::Result;
use crate::sys::command::WriteCommand;

/// The method that destroys an object.
pub(super) struct Method {
    /// Slot of the verb.
    pub slot: usize,
    /// `UVERBS_OBJECT_*`.
    pub object: u16,
    /// `UVERBS_METHOD_*_DESTROY`.
    pub method: u16,
    /// The attribute that names the object.
    pub attr: u16,
}

/// Destroys the object `handle` by the method, or else by the write command.
///
/// # Errors
/// The kernel's own errno, EBUSY while other objects use it.
pub(super) fn destroy<K: Kernel + ?Sized, C: WriteCommand<Resp = ()>>(
    kernel: &K,
    method: &Method,
    handle: u32,
    command: &C,
) -> Result<()> {
    let mut call = Ioctl::new(method.object, method.method);
    call.object_in(method.attr, handle);
    let answer = match try_ioctl(kernel, method.slot, &mut call, Fallback::Write) {
        Ok(Path::Ioctl) => Ok(()),
        Ok(_) => write(kernel, command, &mut Driver::none()),
        Err(e) => Err(e),
    };
    destroyed(answer)
}
