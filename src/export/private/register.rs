//! Where providers register.

use crate::{load, per_node};
use kit::abi::handle::Driver;
use kit::abi::verbs_device_ops;

/// A provider's constructor calls this with its table.
///
/// A table lies in the provider's object. The library keeps providers that it loaded; a provider
/// that a program loaded may be unloaded again, up to the first device list.
///
/// # Safety
/// `ops` is NULL or a table that stays unchanged.
unsafe extern "C" fn register_driver<const NODE: u16>(ops: *const verbs_device_ops) {
    // SAFETY: the provider vouches for its table; that it stays is seen to below.
    let Ok(driver) = (unsafe { Driver::from_raw(ops) }) else {
        return;
    };
    if load::is_loading() {
        load::drivers::register(driver, NODE);
    } else {
        load::drivers::register_unkept(driver, NODE);
    }
}
per_node!(register_driver(ops: *const verbs_device_ops) => 34, "verbs_register_driver_34", []);
per_node!(register_driver(ops: *const verbs_device_ops) => "verbs_register_driver_57", [57]);
per_node!(register_driver(ops: *const verbs_device_ops) => "verbs_register_driver_59", [59]);
per_node!(register_driver(ops: *const verbs_device_ops) => "verbs_register_driver_64", [64]);
per_node!(register_driver(ops: *const verbs_device_ops) => "verbs_register_driver_65", [65]);
