//! The command and response buffers that providers pass, and the answer to a destroyed object.

use crate::export::ret;
use kit::{errno::Result, sys::command::WriteCommand, uverbs::Driver};
use std::{
    ffi::{c_int, c_void},
    ptr,
};

/// The `size` bytes at `at`; empty for NULL.
///
/// # Safety
/// A pointer that is not NULL is good for reads and writes of `size` bytes during `'a`, and
/// nothing else uses them meanwhile.
pub unsafe fn bytes<'a>(at: *mut c_void, size: usize) -> &'a mut [u8] {
    if at.is_null() {
        return &mut [];
    }
    // SAFETY: vouched for by the caller.
    unsafe { std::slice::from_raw_parts_mut(at.cast(), size) }
}

/// The provider's part of command `C`: behind the structures of `C` in these buffers.
///
/// # Errors
/// EINVAL when a buffer is too short for the structures of `C`.
///
/// # Safety
/// As for [`bytes`], for each buffer.
pub unsafe fn driver<'a, C: WriteCommand>(
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
) -> Result<Driver<'a>> {
    // SAFETY: vouched for by the caller.
    let (cmd, resp) = unsafe { (bytes(cmd, cmd_size), bytes(resp, resp_size)) };
    Driver::buffers::<C>(cmd, resp)
}

/// As [`driver`], for a command without response.
///
/// # Errors
/// As [`driver`].
///
/// # Safety
/// As for [`bytes`].
pub unsafe fn request<'a, C: WriteCommand>(cmd: *mut c_void, size: usize) -> Result<Driver<'a>> {
    // SAFETY: vouched for by the caller.
    unsafe { driver::<C>(cmd, size, ptr::null_mut(), 0) }
}

/// As [`driver`], for a command of which the provider passes the response alone.
///
/// # Errors
/// As [`driver`].
///
/// # Safety
/// As for [`bytes`].
pub unsafe fn response<'a, C: WriteCommand>(resp: *mut c_void, size: usize) -> Result<Driver<'a>> {
    // SAFETY: vouched for by the caller.
    unsafe { driver::<C>(ptr::null_mut(), 0, resp, size) }
}

/// The result for `cancel.c` of destroying an object in the kernel: an errno if positive; 0 with
/// the numbers of events in `events`, for whose acknowledgement `cancel.c` waits before the
/// provider frees the object; -1 if the device was removed and the kernel has no numbers.
///
/// # Safety
/// There is room for the numbers.
pub unsafe fn destroyed<T>(done: Result<Option<T>>, events: *mut T) -> c_int {
    match done {
        Err(e) => ret::command(Err(e)),
        Ok(None) => -1,
        Ok(Some(numbers)) => {
            // SAFETY: vouched for by the caller.
            unsafe { events.write(numbers) };
            0
        }
    }
}
