//! Fork protection: ibv_fork_init(3), ibv_is_fork_initialized(3), and the two calls by which
//! providers protect their memory.

use super::ret;
use crate::{
    core::fork::{self, Status},
    symver,
};
use kit::abi::{IBV_FORK_DISABLED, IBV_FORK_ENABLED, IBV_FORK_UNNEEDED, ibv_fork_status};
use std::ffi::{c_int, c_void};

symver!(ibv_fork_init => "ibv_fork_init", "IBVERBS_1.1");
/// Starts fork protection; 0 or an errno value.
pub extern "C" fn ibv_fork_init() -> c_int {
    ret::code(fork::init())
}

symver!(ibv_is_fork_initialized => "ibv_is_fork_initialized", "IBVERBS_1.13");
/// Whether registered memory survives a fork.
pub extern "C" fn ibv_is_fork_initialized() -> ibv_fork_status {
    match fork::status() {
        Status::Disabled => IBV_FORK_DISABLED,
        Status::Enabled => IBV_FORK_ENABLED,
        Status::Unneeded => IBV_FORK_UNNEEDED,
    }
}

symver!(ibv_dontfork_range => "ibv_dontfork_range", "IBVERBS_1.1");
/// Keeps the pages of a range out of children; 0, or -1 with errno set.
pub extern "C" fn ibv_dontfork_range(base: *mut c_void, size: usize) -> c_int {
    ret::minus_one(fork::dont_fork(base.addr(), size))
}

symver!(ibv_dofork_range => "ibv_dofork_range", "IBVERBS_1.1");
/// Ends one ibv_dontfork_range of the same range; 0, or -1 with errno set.
pub extern "C" fn ibv_dofork_range(base: *mut c_void, size: usize) -> c_int {
    ret::minus_one(fork::do_fork(base.addr(), size))
}

#[cfg(test)]
mod tests;
