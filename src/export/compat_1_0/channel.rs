//! Completion channels of programs of 1.0, which know of them their descriptor alone.
//!
//! `ibv_create_comp_channel` and `ibv_destroy_comp_channel` have one version for all programs:
//! the context decides which kind of channel is created. A current channel begins with a pointer,
//! whose halves are never all ones.

use super::{context, ret};
use kit::abi::{ibv_comp_channel, ibv_context};
use kit::errno::Result;
use kit::sys::{errno, memory};
use std::ffi::c_int;

const MARK: u32 = u32::MAX;

/// `struct ibv_comp_channel` of 1.0 (its descriptor), and the library's members after it.
#[repr(C)]
struct ibv_comp_channel_1_0 {
    fd: c_int,
    mark: u32,
    real: *mut ibv_comp_channel,
}
const _: () = assert!(size_of::<ibv_comp_channel_1_0>() == size_of::<ibv_comp_channel>());

/// Whether the channel is one of 1.0.
///
/// # Safety
/// `channel` is NULL or a live channel of either version.
unsafe fn is_old(channel: *mut ibv_comp_channel) -> bool {
    // SAFETY: both are that long.
    !channel.is_null()
        && unsafe { (&raw const (*channel.cast::<ibv_comp_channel_1_0>()).mark).read() } == MARK
}

/// The channel of today: itself, if it is one.
///
/// # Safety
/// As for [`is_old`].
pub(super) unsafe fn real(channel: *mut ibv_comp_channel) -> *mut ibv_comp_channel {
    // SAFETY: vouched for by the caller.
    unsafe {
        if is_old(channel) {
            (*channel.cast::<ibv_comp_channel_1_0>()).real
        } else {
            channel
        }
    }
}

/// A channel of 1.0 around the one that `make` makes on the context of today, if the context is
/// one of 1.0.
///
/// # Safety
/// `context` is NULL or a live context of either version; `make` answers a new channel, or NULL
/// with errno.
pub unsafe fn create(
    context: *mut ibv_context,
    make: unsafe extern "C" fn(*mut ibv_context) -> *mut ibv_comp_channel,
    destroy: unsafe extern "C" fn(*mut ibv_comp_channel) -> c_int,
) -> Option<*mut ibv_comp_channel> {
    // SAFETY: vouched for by the caller.
    let open = unsafe { context::real(context.cast()) }.ok()?;
    // SAFETY: as above.
    let made = unsafe { wrap(make(open), destroy) };
    Some(ret::pointer(made))
}

/// # Safety
/// `channel` is new, or NULL with errno.
unsafe fn wrap(
    channel: *mut ibv_comp_channel,
    destroy: unsafe extern "C" fn(*mut ibv_comp_channel) -> c_int,
) -> Result<*mut ibv_comp_channel> {
    // SAFETY: vouched for by the caller.
    let Some(made) = (unsafe { channel.as_ref() }) else {
        return Err(errno::get());
    };
    let new = memory::new(ibv_comp_channel_1_0 {
        fd: made.fd,
        mark: MARK,
        real: channel,
    });
    if new.is_err() {
        // SAFETY: nothing else refers to the channel.
        unsafe { destroy(channel) };
    }
    new.map(<*mut ibv_comp_channel_1_0>::cast)
}

/// Destroys a channel of 1.0 with the one of today behind it, if it is one.
///
/// # Safety
/// `channel` is NULL or a live channel of either version, and is not used after an answer of 0.
pub unsafe fn destroy(
    channel: *mut ibv_comp_channel,
    destroy: unsafe extern "C" fn(*mut ibv_comp_channel) -> c_int,
) -> Option<c_int> {
    // SAFETY: vouched for by the caller.
    unsafe {
        if !is_old(channel) {
            return None;
        }
        let answer = destroy(real(channel));
        if answer == 0 {
            memory::free(channel.cast());
        }
        Some(answer)
    }
}
