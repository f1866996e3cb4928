#![forbid(unsafe_code)]
//! The providers that have registered, in the order in which they did.
//!
//! A provider's table lies in its object. Objects that the library loaded stay for good. One that
//! the program loaded (or is linked with) may be unloaded again as long as no device list has
//! made use of it; the first list keeps it loaded, or forgets it when it is gone.

use kit::abi::handle::Driver;
use kit::sys::dl::{self, Object};
use parking_lot::Mutex;

struct Registration {
    driver: Driver,
    /// Where the table lies while it may still be unloaded.
    unkept: Option<Object>,
}

/// Held for short steps only: providers register from constructors, at any time, and nothing is
/// asked of the dynamic linker meanwhile.
static REGISTERED: Mutex<Vec<Registration>> = Mutex::new(Vec::new());

/// Adds a provider whose object stays loaded.
pub fn register(driver: Driver) {
    add(driver, None);
}

/// Adds a provider whose object the program may unload. A table in no object (made at run time)
/// is the business of whoever made it.
pub fn register_unkept(driver: Driver) {
    let object = Object::at(driver.as_ptr().addr());
    add(driver, object);
}

/// One that is there already, because it was unloaded and loaded again, is not added twice.
fn add(driver: Driver, unkept: Option<Object>) {
    let mut registered = REGISTERED.lock();
    match registered.iter_mut().find(|known| known.driver == driver) {
        None => registered.push(Registration { driver, unkept }),
        Some(known) if known.unkept.is_some() => known.unkept = unkept,
        Some(_) => {}
    }
}

/// Keeps the objects of all providers loaded from here on; forgets those that are gone. To be
/// called with no lock held that a constructor may want.
pub fn keep() {
    let open: Vec<(Driver, Object)> = REGISTERED
        .lock()
        .iter()
        .filter_map(|known| Some((known.driver, known.unkept.clone()?)))
        .collect();
    for (driver, object) in open {
        let kept = dl::pin(&object);
        let mut registered = REGISTERED.lock();
        let Some(at) = registered
            .iter()
            .position(|known| known.driver == driver && known.unkept.as_ref() == Some(&object))
        else {
            continue;
        };
        if kept {
            registered[at].unkept = None;
        } else {
            registered.remove(at);
        }
    }
}

/// The providers that are kept.
pub fn registered() -> Vec<Driver> {
    REGISTERED
        .lock()
        .iter()
        .filter(|known| known.unkept.is_none())
        .map(|known| known.driver)
        .collect()
}
