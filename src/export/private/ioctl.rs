//! Method calls that a provider puts together itself.

use crate::{export::ret, private};
use kit::{
    abi::{handle::Ctx, ibv_command_buffer, ibv_context},
    sys::link::{Link, run_foreign},
};
use std::ffi::{c_int, c_uint};

unsafe extern "C" fn execute(context: *mut ibv_context, cmd: *mut ibv_command_buffer) -> c_int {
    // SAFETY: the provider passes its context, or NULL, and a buffer that it filled with room
    // for the attributes of the linked ones.
    ret::command(unsafe {
        Ctx::from_raw(context)
            .and_then(|ctx| run_foreign(ctx.cmd_fd()?, ctx.private().driver_id, cmd))
    })
}
private!(execute => "execute_ioctl");

/// Number of attributes of a buffer with `num_attrs` attributes and those of `link`.
unsafe extern "C" fn final_num_attrs(num_attrs: c_uint, link: *mut ibv_command_buffer) -> c_uint {
    // SAFETY: the provider passes a chain that it filled, or NULL.
    let linked = unsafe { Link::from_raw(link) }.map_or(0, Link::count);
    num_attrs.saturating_add(c_uint::try_from(linked).unwrap_or(c_uint::MAX))
}
private!(final_num_attrs => "__ioctl_final_num_attrs");
