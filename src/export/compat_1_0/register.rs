//! `ibv_register_driver@IBVERBS_1.1`, by which providers of libibverbs 1.1 registered.

use crate::symver;
use kit::log::Level;
use std::ffi::{CStr, c_char, c_int};

/// The function of such a provider: it makes a device from its folder and its ABI version.
type Init = Option<unsafe extern "C" fn(*const c_char, c_int) -> *mut u8>;

/// Accepts no provider: their interface predates 2017 and was removed. Programs also call this
/// function so that older libraries print no warning about devices that the programs drive
/// themselves.
unsafe extern "C" fn register_driver(name: *const c_char, _init: Init) {
    if name.is_null() {
        return;
    }
    // SAFETY: the caller passes a string.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    crate::core::log::line(
        Level::Warning,
        &format!("provider {name} registered by the interface of libibverbs 1.1: not taken"),
    );
}
symver!(old register_driver => "ibv_register_driver", "IBVERBS_1.1");
