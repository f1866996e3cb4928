//! `ibv_cmd_*` of contexts, devices and ports.

use super::{
    buffer::{bytes, request},
    locate,
};
use crate::{export::ret, per_node, private, symver};
use bytemuck::Zeroable;
use kit::{
    abi::{
        handle::{Ctx, DeviceRef, SysfsView},
        ibv_command_buffer, ibv_context, ibv_device_attr, ibv_device_attr_ex, ibv_fd_arr,
        ibv_port_attr, ibv_query_device_ex_input,
        kernel::{ib_uverbs_get_context, ib_uverbs_query_port},
    },
    errno::{Errno, Result},
    uverbs::{Driver, Link, context, device},
};
use std::{
    ffi::{c_int, c_void},
    ptr,
};

/// Notes the kernel's answer about a context.
///
/// # Safety
/// The context is being opened by this thread.
unsafe fn note(ctx: Ctx<'_>, reported: context::Context) {
    if let Some(fd) = reported.async_fd {
        ctx.set_async_fd(fd);
    }
    // SAFETY: nothing else refers to the context yet; its device is held.
    unsafe {
        (*ctx.as_ptr()).num_comp_vectors = reported.num_comp_vectors;
        if let Some(support) = reported.core_support {
            (*ctx.device()).core_support = support;
        }
    }
}

/// # Safety
/// As a provider calls `ibv_cmd_get_context`: the context is being opened, the buffers are the
/// provider's own.
unsafe fn get(
    context: *mut ibv_context,
    cmd: &mut [u8],
    fds: &[c_int],
    resp: &mut [u8],
) -> Result<()> {
    // SAFETY: vouched for by the caller.
    unsafe {
        let ctx = Ctx::from_raw(context)?;
        let mut driver = Driver::buffers::<ib_uverbs_get_context>(cmd, resp)?;
        note(ctx, context::get_context_with(&ctx, fds, &mut driver)?);
    }
    Ok(())
}

unsafe extern "C" fn get_context(
    context: *mut c_void,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
) -> c_int {
    // SAFETY: the provider is opening this context and passes its own buffers.
    ret::command(unsafe {
        let (cmd, resp) = (bytes(cmd, cmd_size), bytes(resp, resp_size));
        get(locate::context::<34>(context), cmd, &[], resp)
    })
}
symver!(get_context => "ibv_cmd_get_context", "IBVERBS_PRIVATE_34");

/// Since release 57: with descriptors for the kernel's driver.
unsafe extern "C" fn get_context_with<const NODE: u16>(
    context: *mut c_void,
    cmd: *mut c_void,
    cmd_size: usize,
    fds: *const ibv_fd_arr,
    resp: *mut c_void,
    resp_size: usize,
) -> c_int {
    // SAFETY: the provider is opening this context and passes its own buffers and descriptors.
    ret::command(unsafe {
        let (cmd, resp) = (bytes(cmd, cmd_size), bytes(resp, resp_size));
        descriptors(fds).and_then(|fds| get(locate::context::<NODE>(context), cmd, fds, resp))
    })
}
per_node!(
    get_context_with(
        context: *mut c_void,
        cmd: *mut c_void,
        cmd_size: usize,
        fds: *const ibv_fd_arr,
        resp: *mut c_void,
        resp_size: usize
    ) -> c_int => "ibv_cmd_get_context", [57, 59, 64, 65]
);

/// # Safety
/// `fds` is NULL, or points to that many descriptors.
unsafe fn descriptors<'a>(fds: *const ibv_fd_arr) -> Result<&'a [c_int]> {
    // SAFETY: vouched for by the caller.
    let Some(fds) = (unsafe { fds.as_ref() }) else {
        return Ok(&[]);
    };
    let count = usize::try_from(fds.count).map_err(|_| Errno::INVAL)?;
    if count == 0 {
        return Ok(&[]);
    }
    let first = ret::not_null(fds.arr)?;
    // SAFETY: as above.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

unsafe extern "C" fn query_context(
    context: *mut ibv_context,
    link: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: the provider is importing this context and passes its attributes or NULL.
    ret::command(unsafe {
        Ctx::from_raw(context).and_then(|ctx| {
            let mut driver = Driver::linked(Link::from_raw(link));
            note(ctx, context::query_context(&ctx, &mut driver)?);
            Ok(())
        })
    })
}
private!(query_context => "ibv_cmd_query_context");

unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
    cmd: *mut c_void,
    cmd_size: usize,
) -> c_int {
    // SAFETY: the provider passes its context, room for the answer and its own buffer.
    ret::command(unsafe {
        Ctx::from_raw(context).and_then(|ctx| {
            let attr = ret::not_null(attr)?.cast::<u8>();
            let mut driver = request::<ib_uverbs_query_port>(cmd, cmd_size)?;
            // The provider's structure has the size of its generation.
            let size = ctx.private().layout().port_attr;
            let mut whole = ibv_port_attr::zeroed();
            let known = (&raw mut whole).cast::<u8>();
            ptr::copy_nonoverlapping(attr, known, size);
            device::query_port(&ctx, port, &mut whole, &mut driver)?;
            ptr::copy_nonoverlapping(known, attr, size);
            Ok(())
        })
    })
}
private!(query_port => "ibv_cmd_query_port");

unsafe extern "C" fn query_port_speed(
    context: *mut ibv_context,
    port: u32,
    speed: *mut u64,
) -> c_int {
    // SAFETY: the provider passes its context and room for the speed.
    ret::command(unsafe {
        Ctx::from_raw(context).and_then(|ctx| {
            let speed = ret::not_null(speed)?;
            speed.write(device::query_port_speed(&ctx, port)?);
            Ok(())
        })
    })
}
private!(query_port_speed => "ibv_cmd_query_port_speed", [59, 64, 65]);

/// The provider's response buffer; `resp_size` is its length, and receives the number of bytes that
/// the kernel filled.
unsafe extern "C" fn query_device_any(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
    attr_size: usize,
    resp: *mut c_void,
    resp_size: *mut usize,
) -> c_int {
    // SAFETY: the provider passes its context, the application's structure of `attr_size`
    // bytes, and its own buffer or NULL.
    ret::command(unsafe {
        Ctx::from_raw(context).and_then(|ctx| {
            if input.as_ref().is_some_and(|input| input.comp_mask != 0) {
                return Err(Errno::INVAL);
            }
            let resp = match resp_size.as_ref() {
                Some(size) => bytes(resp, *size),
                None => &mut [],
            };
            let filled = query_device(ctx, attr, attr_size, resp)?;
            if let Some(size) = resp_size.as_mut() {
                *size = filled;
            }
            Ok(())
        })
    })
}
private!(query_device_any => "ibv_cmd_query_device_any");

/// # Safety
/// `attr` is NULL or good for `attr_size` bytes.
unsafe fn query_device(
    ctx: Ctx<'_>,
    attr: *mut ibv_device_attr_ex,
    attr_size: usize,
    resp: &mut [u8],
) -> Result<usize> {
    let attr = ret::not_null(attr)?;
    if attr_size == size_of::<ibv_device_attr>() {
        // SAFETY: the caller vouches for the room; the structure's members are numbers, of which
        // every value is one.
        return device::query_plain(&ctx, unsafe { &mut (*attr).orig_attr }, resp);
    }
    // SAFETY: the context's device is held.
    let device = unsafe { DeviceRef::from_raw((*ctx.as_ptr()).device)? };
    let ports = device.sysfs().map_or(0, SysfsView::ports);
    let Some(beyond) = attr_size.checked_sub(size_of::<ibv_device_attr_ex>()) else {
        let mut whole = ibv_device_attr_ex::zeroed();
        let filled = device::query_device(&ctx, attr_size, &mut whole, ports, resp)?;
        // SAFETY: room for `attr_size` bytes, as vouched for by the caller; the structure has more.
        unsafe {
            ptr::copy_nonoverlapping((&raw const whole).cast(), attr.cast::<u8>(), attr_size)
        };
        return Ok(filled);
    };
    // SAFETY: as above, there is room for all of it.
    let filled = device::query_device(&ctx, attr_size, unsafe { &mut *attr }, ports, resp)?;
    // SAFETY: as above.
    unsafe { attr.add(1).cast::<u8>().write_bytes(0, beyond) };
    Ok(filled)
}
