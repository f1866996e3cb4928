//! Opening and closing: ibv_open_device(3) of 1.0.

use super::{device, layout::*, post, ret};
use crate::export::context as today;
use crate::symver;
use kit::abi::{MUTEX_GROWTH, ibv_context};
use kit::errno::{Errno, Result};
use kit::sys::{errno, memory};
use std::{ffi::c_int, mem::offset_of, ptr::null_mut};

/// A context of 1.0 points here where a current context has all ones.
static MARK: u8 = 0;

/// Words from the end of a context of 1.0 to the mark.
const REST: usize = 9 + MUTEX_GROWTH / size_of::<usize>();

/// A context of 1.0, as long as a current one, so that the same member distinguishes them.
#[repr(C)]
struct Marked {
    shown: ibv_context_1_0,
    /// Room up to the mark.
    rest: [usize; REST],
    mark: *const u8,
}
const _: () = assert!(offset_of!(Marked, mark) == offset_of!(ibv_context, abi_compat));
const _: () = assert!(size_of::<Marked>() == size_of::<ibv_context>());

/// Whether a context is one of 1.0.
///
/// # Safety
/// `context` is a live context of either version.
pub(super) unsafe fn is_old<T>(context: *mut T) -> bool {
    // SAFETY: both are that long.
    let mark = unsafe { (&raw const (*context.cast::<Marked>()).mark).read() };
    std::ptr::eq(mark, &raw const MARK)
}

/// EINVAL for a context that is not one of 1.0.
///
/// # Safety
/// `context` is NULL or a live context of either version.
pub(super) unsafe fn check(context: *mut ibv_context_1_0) -> Result<()> {
    // SAFETY: vouched for by the caller.
    if context.is_null() || !unsafe { is_old(context) } {
        return Err(Errno::INVAL);
    }
    Ok(())
}

/// The context of today.
///
/// # Errors
/// As for [`check`].
///
/// # Safety
/// As for [`check`].
pub(super) unsafe fn real(context: *mut ibv_context_1_0) -> Result<*mut ibv_context> {
    // SAFETY: vouched for by the caller.
    unsafe {
        check(context)?;
        Ok((*context).real_context)
    }
}

unsafe extern "C" fn open_device(device: *mut ibv_device_1_0) -> *mut ibv_context_1_0 {
    // SAFETY: the caller passes a device that it holds, or NULL.
    ret::pointer(unsafe { open(device) })
}
symver!(old open_device => "ibv_open_device", "IBVERBS_1.0");

/// # Safety
/// `device` is NULL or a live wrapper.
unsafe fn open(device: *mut ibv_device_1_0) -> Result<*mut ibv_context_1_0> {
    let new = memory::new(Marked {
        shown: ibv_context_1_0 {
            device,
            ops: post::OPS,
            cmd_fd: -1,
            async_fd: -1,
            num_comp_vectors: 0,
            real_context: null_mut(),
        },
        rest: [0; REST],
        mark: &raw const MARK,
    })?;
    // SAFETY: the block is new; the wrapper of the device is live (vouched for by the caller),
    // and so is a context that was just opened.
    unsafe {
        let context = today::open_device(device::real(device));
        let Some(opened) = context.as_ref() else {
            let why = errno::get();
            memory::free(new.cast());
            return Err(why);
        };
        device::hold(device);
        let shown = &mut (*new).shown;
        shown.cmd_fd = opened.cmd_fd;
        shown.async_fd = opened.async_fd;
        shown.num_comp_vectors = opened.num_comp_vectors;
        shown.real_context = context;
    }
    Ok(new.cast())
}

unsafe extern "C" fn close_device(context: *mut ibv_context_1_0) -> c_int {
    // SAFETY: the caller passes an open context or NULL, and does not use it afterwards.
    unsafe {
        ret::code_of(real(context), |open| {
            let answer = today::close_device(open);
            if answer == 0 {
                device::release((*context).device);
                memory::free(context.cast());
            }
            answer
        })
    }
}
symver!(old close_device => "ibv_close_device", "IBVERBS_1.0");
