//! Where providers register.

use crate::{load, symver};
use kit::abi::handle::Driver;
use kit::abi::verbs_device_ops;
use kit::sys::dl;

/// A provider's constructor calls this with its table.
///
/// A table lies in the provider's object. The library keeps those that it loaded itself; a
/// program may load a provider too and unload it again, and then its object is kept loaded.
///
/// # Safety
/// `ops` is NULL or a table that stays unchanged.
unsafe extern "C" fn register_driver(ops: *const verbs_device_ops) {
    // SAFETY: the provider vouches for its table; that it stays is seen to below.
    let Ok(driver) = (unsafe { Driver::from_raw(ops) }) else {
        return;
    };
    if !load::is_loading() {
        // A table in no object (made at run time) is the business of whoever made it.
        dl::pin(ops.addr());
    }
    load::drivers::register(driver);
}
symver!(register_driver => "verbs_register_driver_34", "IBVERBS_PRIVATE_34");
