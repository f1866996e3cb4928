//! Opening, importing and closing a device: ibv_open_device(3), ibv_import_device(3).

use super::step::{self, Waiting};
use super::{buf, cq, dm, dmah, mr_ex, observe, port, ret};
use crate::{
    core::chardev::{self, Missing},
    core::wait::to_the_end,
    core::{context, devices, events::kept},
    hidden,
    load::drivers,
    symver,
};
use kit::{
    abi::{
        handle::{Ctx, DeviceRef, Driver, HeldDevice, LaterVerbs, LibraryVerbs},
        ibv_context, ibv_device, verbs_context,
    },
    errno::{Errno, Result},
    provider,
    sys::{errno, forks},
};
use std::{
    ffi::{c_int, c_void},
    os::fd::{BorrowedFd, OwnedFd},
    ptr::NonNull,
};

const LIBRARY_VERBS: LibraryVerbs = LibraryVerbs {
    create_cq_ex: cq::create_cq_ex,
    query_port: port::query_port_sized,
    compat_query_port: port::query_port,
    compat_query_device: port::query_device,
    later: LaterVerbs {
        free_buf: buf::free_buf,
        alloc_buf: buf::alloc_buf,
        dm_export_dmabuf_fd: dm::dm_export_dmabuf_fd,
        reg_mr_ex: mr_ex::reg_mr_ex,
        dealloc_dmah: dmah::dealloc_dmah,
        alloc_dmah: dmah::alloc_dmah,
    },
};

/// A step of ibv_open_device(3), which may wait for the device node; `private_data` goes to the
/// provider's `alloc_context`. 0 and the context, or NULL with errno set; or [`step::WAITS`].
unsafe extern "C" fn open_step(
    device: *mut ibv_device,
    private_data: *mut c_void,
    waiting: *mut Waiting,
    context: *mut *mut ibv_context,
) -> c_int {
    // SAFETY: the caller passes a device of a list that it holds, or NULL; cancel.c passes a call's
    // state, and room for the context.
    unsafe {
        let opened = DeviceRef::from_raw(device).and_then(|d| {
            let step = || chardev::open(d);
            let opened = d.driver().and_then(|driver| {
                let node = step::next(waiting, step)?;
                node.map(|node| open(d, driver, node, private_data))
                    .transpose()
            });
            opened.inspect_err(|e| observe::not_opened(d, *e))
        });
        match opened.transpose() {
            None => step::WAITS,
            Some(opened) => {
                context.write(ret::pointer(opened));
                0
            }
        }
    }
}
hidden!(open_step => "ferroverbs_open_step");

unsafe extern "C" fn open_abandon(rest: *mut c_void) {
    // SAFETY: cancel.c passes on what `open_step` has left.
    unsafe { step::abandon::<Missing>(rest) };
}
hidden!(open_abandon => "ferroverbs_open_abandon");

/// Opens a device for another function of the library. No cancellation point, as ibv_open_device in
/// `cancel.c` is.
///
/// # Safety
/// As for ibv_open_device(3).
pub(super) unsafe fn open_device(device: *mut ibv_device) -> *mut ibv_context {
    // SAFETY: vouched for by the caller; no provider expects private data from this call.
    unsafe {
        let opened = DeviceRef::from_raw(device).and_then(|d| {
            let opened = d.driver().and_then(|driver| {
                let node = chardev::open(d).and_then(to_the_end)?;
                open(d, driver, node, std::ptr::null_mut())
            });
            opened.inspect_err(|e| observe::not_opened(d, *e))
        });
        ret::pointer(opened)
    }
}

/// Opens a device of which this is the node, if it has one.
///
/// # Safety
/// `private_data` is a value for the device's provider.
unsafe fn open(
    device: DeviceRef<'_>,
    driver: Driver,
    cmd_fd: Option<OwnedFd>,
    private_data: *mut c_void,
) -> Result<*mut ibv_context> {
    // Only here: the node may have had to be waited for.
    let _entered = forks::enter();
    let has_kernel = cmd_fd.is_some();
    // SAFETY: the driver is the device's own; the caller vouches for the private data.
    let context = unsafe { driver.alloc_context(device, cmd_fd, private_data) };
    // SAFETY: the provider has just made it.
    let ctx = unsafe { complete(driver, context) }?;
    if has_kernel {
        with_async_events(ctx)?;
    }
    Ok(ctx.as_ptr())
}

unsafe extern "C" fn import_device(cmd_fd: c_int) -> *mut ibv_context {
    ret::pointer(import(cmd_fd))
}
symver!(import_device => "ibv_import_device", "IBVERBS_1.10");

fn import(cmd_fd: c_int) -> Result<*mut ibv_context> {
    super::start();
    let _entered = forks::enter();
    if cmd_fd >= 0 {
        // SAFETY: the caller passes a descriptor that it owns; one that is not open is an error.
        let fd = unsafe { BorrowedFd::borrow_raw(cmd_fd) };
        if let Some(held) = provider::command_device(fd)? {
            return import_from(&held, cmd_fd);
        }
    }
    let held = devices::from_cmd_fd(cmd_fd)?;
    let driver = held.device().driver()?;
    if !driver.imports() {
        return Err(Errno::OPNOTSUPP);
    }
    // SAFETY: the driver is the device's own.
    let context = unsafe { driver.import_context(held.device(), cmd_fd) };
    // SAFETY: the provider has just made it.
    let ctx = unsafe { complete(driver, context) }?;
    context::mark_imported(ctx);
    with_async_events(ctx)?;
    Ok(ctx.as_ptr())
}

/// Another context of a device in user space, in the process of the first.
fn import_from(held: &HeldDevice, cmd_fd: c_int) -> Result<*mut ibv_context> {
    let driver = held.device().driver()?;
    // SAFETY: the driver is the device's own.
    let context = unsafe { driver.import_context(held.device(), cmd_fd) };
    // SAFETY: the provider has just made it.
    let ctx = unsafe { complete(driver, context) }?;
    Ok(ctx.as_ptr())
}

/// Puts the library's own functions into a context that a provider has opened.
///
/// # Errors
/// The provider's errno when it made none.
///
/// # Safety
/// Nothing else refers to the context yet.
unsafe fn complete<'a>(driver: Driver, context: Option<NonNull<verbs_context>>) -> Result<Ctx<'a>> {
    let Some(context) = context else {
        return Err(errno::get());
    };
    // SAFETY: vouched for by the caller.
    unsafe {
        // The provider's verbs_context is that of its generation.
        let at = drivers::layout(driver).context_offset();
        let ctx = Ctx::from_raw(context.as_ptr().byte_add(at).cast())?;
        observe::cover(ctx);
        ctx.show_library_verbs(&LIBRARY_VERBS);
        Ok(ctx)
    }
}

/// Sees to the descriptor of asynchronous events; a context without one is closed again.
fn with_async_events(ctx: Ctx<'_>) -> Result<()> {
    context::ensure_async_fd(ctx).inspect_err(|_| {
        // SAFETY: the context is complete and nothing else refers to it.
        unsafe { (ctx.table().free_context())(ctx.as_ptr()) }
    })
}

pub(super) unsafe extern "C" fn close_device(context: *mut ibv_context) -> c_int {
    // SAFETY: the caller passes an open context or NULL.
    unsafe {
        ret::code_of(Ctx::from_raw(context), |ctx| {
            (ctx.table().free_context())(context);
            kept::forget(context.addr());
            0
        })
    }
}
symver!(close_device => "ibv_close_device", "IBVERBS_1.1");
