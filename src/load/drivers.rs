#![forbid(unsafe_code)]
//! The providers that have registered, in the order in which they did.

use kit::abi::handle::Driver;
use parking_lot::Mutex;

/// Held for a push or a copy only: providers register from constructors, at any time.
static REGISTERED: Mutex<Vec<Driver>> = Mutex::new(Vec::new());

/// Adds a provider. One that is there already, because it was unloaded and loaded again, is not
/// added twice.
pub fn register(driver: Driver) {
    let mut registered = REGISTERED.lock();
    if !registered.contains(&driver) {
        registered.push(driver);
    }
}

/// The providers so far.
pub fn registered() -> Vec<Driver> {
    REGISTERED.lock().clone()
}
