//! The common part of destroying objects that report events.

use super::destroy::Method;
use super::{Driver, Fallback, Ioctl, Kernel, Path, gone, try_ioctl_here, write};
use crate::errno::Result;
use crate::sys::command::WriteCommand;
use bytemuck::Pod;
use core::sync::atomic::Ordering;

/// Destroys the object `handle` by the method, whose attribute `events` counts its reported events,
/// or otherwise by the write command, from whose response the last argument takes the counts.
///
/// There are no counts for an object whose device was removed: its destruction is then a success
/// without events to wait for (`super::gone`).
///
/// # Errors
/// The kernel's own errno, EBUSY while other objects use it.
pub(super) fn destroy_reporting<K: Kernel + ?Sized, C: WriteCommand, R: Pod>(
    kernel: &K,
    method: &Method,
    events: u16,
    handle: u32,
    command: &C,
    reports: fn(C::Resp) -> R,
) -> Result<Option<R>> {
    let mut reported = R::zeroed();
    let mut call = Ioctl::new(method.object, method.method);
    call.value_out(events, &mut reported);
    call.object_in(method.attr, handle);
    let answer = match try_ioctl_here(kernel, method.slot, &mut call, Fallback::Write) {
        Ok(Path::Ioctl) => Ok(reported),
        Ok(_) => write(kernel, command, &mut Driver::none()).map(reports),
        Err(e) => Err(e),
    };
    match answer {
        Err(e) if gone(e) => Ok(None),
        answer => answer.map(Some),
    }
}

/// `fallback`; none for an imported context: a write command reports the new object's events to
/// the process that opened the context first.
pub(super) fn unless_imported<K: Kernel + ?Sized>(kernel: &K, fallback: Fallback) -> Fallback {
    if kernel.private().imported.load(Ordering::Relaxed) {
        return Fallback::None;
    }
    fallback
}
