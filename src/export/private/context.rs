//! The life of a context: functions that a provider calls while it opens or closes a device.

use super::locate;
use crate::{core::context, export::ret, load::drivers, per_node, private};
use kit::{
    abi::{
        handle::{self, Ctx, DeviceRef},
        ibv_device, verbs_context,
    },
    errno::{Errno, Result},
    sys::memory,
};
use std::{
    ffi::{c_int, c_void},
    os::fd::{FromRawFd, OwnedFd},
};

/// Takes over the command descriptor; -1 for a device without one.
///
/// # Safety
/// A descriptor that is not negative is open, and only this function closes it.
unsafe fn take_fd(fd: c_int) -> Option<OwnedFd> {
    // SAFETY: vouched for by the caller.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Allocates a provider's context, `context_offset` bytes into which the `verbs_context` lies,
/// and makes it ready: defaults in every verb, the command descriptor owned, the device held.
///
/// The descriptor is closed on failure: the provider gave it away.
unsafe extern "C" fn init_and_alloc_context(
    device: *mut ibv_device,
    cmd_fd: c_int,
    alloc_size: usize,
    context_offset: *mut c_void,
    driver_id: u32,
) -> *mut c_void {
    // SAFETY: the provider hands over the descriptor and a device of ours.
    let made = unsafe {
        let fd = take_fd(cmd_fd);
        DeviceRef::from_raw(device)
            .and_then(|device| alloc(device, fd, alloc_size, context_offset.addr(), driver_id))
    };
    ret::pointer(made)
}
private!(init_and_alloc_context => "_verbs_init_and_alloc_context");

/// # Safety
/// `device` is a device of this library.
unsafe fn alloc(
    device: DeviceRef<'_>,
    fd: Option<OwnedFd>,
    size: usize,
    offset: usize,
    driver_id: u32,
) -> Result<*mut c_void> {
    let layout = drivers::layout(device.driver()?);
    let end = offset.checked_add(layout.context_size);
    if !offset.is_multiple_of(align_of::<verbs_context>()) || end.is_none_or(|end| end > size) {
        return Err(Errno::INVAL);
    }
    let block = memory::zeroed(size)?;
    // SAFETY: the block holds the provider's verbs_context at that offset (checked above), all
    // zero, which ends with ours.
    unsafe {
        let inner = offset + layout.inner_offset();
        let context = block.byte_add(inner).cast::<verbs_context>();
        Ctx::init_laid_out(context, device, fd, driver_id, layout);
        handle::hold(device);
        if let Ok(ctx) = Ctx::from_raw(&raw mut (*context).context) {
            context::prepare(ctx);
        }
    }
    Ok(block)
}

/// Releases the library's members of a context; the provider frees the memory.
unsafe extern "C" fn uninit_context<const NODE: u16>(context: *mut c_void) {
    // SAFETY: a provider closes a context that it made with the function above, once.
    unsafe {
        let Ok(ctx) = Ctx::from_raw(locate::context::<NODE>(context)) else {
            return;
        };
        let device = DeviceRef::from_raw((*ctx.as_ptr()).device);
        Ctx::uninit(ctx.verbs());
        if let Ok(device) = device {
            handle::release(device);
        }
    }
}
per_node!(uninit_context(context: *mut c_void) => 34, "verbs_uninit_context", [57, 59, 64, 65]);

unsafe extern "C" fn set_ops<const NODE: u16>(context: *mut c_void, ops: *const c_void) {
    if ops.is_null() {
        return;
    }
    // SAFETY: the provider passes its context and its table, both of its generation, which the
    // context has noted.
    unsafe {
        if let Ok(ctx) = Ctx::from_raw(locate::context::<NODE>(context)) {
            ctx.private().set_laid_out(ctx.verbs(), ops);
        }
    }
}
per_node!(set_ops(context: *mut c_void, ops: *const c_void) => 34, "verbs_set_ops", [57, 59, 64, 65]);
