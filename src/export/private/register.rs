//! Where providers register.

use crate::{load, private, symver};
use kit::abi::handle::Driver;
use kit::abi::verbs_device_ops;

/// A provider's constructor calls this with its table.
///
/// A table lies in the provider's object. The library keeps those that it loaded itself; what a
/// program loaded it may unload again, up to the first device list.
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
symver!(register_driver::<34> => "verbs_register_driver_34", "IBVERBS_PRIVATE_34");
private!(register_driver::<57> => "verbs_register_driver_57", [57]);
private!(register_driver::<59> => "verbs_register_driver_59", [59]);
private!(register_driver::<64> => "verbs_register_driver_64", [64]);
private!(register_driver::<65> => "verbs_register_driver_65", [65]);
