#![forbid(unsafe_code)]
//! The providers that have registered, in the order in which they did.
//!
//! A provider's table lies in its object. Objects that the library loaded stay for good. One that
//! the program loaded (or is linked with) may be unloaded again as long as no device list has
//! made use of it; the first list keeps it loaded, or forgets it when it is gone.

use super::generation::{self, Decision, VARIABLE, Wish, from_variable, name_in};
use super::plugins;
use crate::warn::warn;
use kit::abi::handle::Driver;
use kit::generation::Layout;
use kit::log::{Level, line};
use kit::sys::dl::{self, Object};
use kit::sys::lock::Lock;
use kit::sys::{forks, privilege};
use std::env;

struct Registration {
    driver: Driver,
    /// Where the table lies while it may still be unloaded.
    unkept: Option<Object>,
}

/// Held for short steps only: providers register from constructors, at any time, and nothing is
/// asked of the dynamic linker meanwhile.
static REGISTERED: Lock<Vec<Registration>> = Lock::new(Vec::new());

/// Has fork(2) wait while another thread registers one.
pub fn across_forks() {
    let _ = forks::wait_for(&REGISTERED);
}

/// Adds a provider of that private node whose object remains loaded.
pub fn register(driver: Driver, node: u16) {
    let object = Object::at(driver.as_ptr().addr());
    if let Some(layout) = layout_of(driver, node, object.as_ref()) {
        add(driver.with_layout(layout), None);
    }
}

/// Adds a provider whose object the program may unload. A table in no object (made at run time)
/// is kept valid by the code that made it.
pub fn register_unkept(driver: Driver, node: u16) {
    let object = Object::at(driver.as_ptr().addr());
    if let Some(layout) = layout_of(driver, node, object.as_ref()) {
        add(driver.with_layout(layout), object);
    }
}

/// Finds the layout of a provider. A refusal is reported to the loading thread, or else logged.
fn layout_of(driver: Driver, node: u16, object: Option<&Object>) -> Option<&'static Layout> {
    let file = object.map(Object::file);
    let own_name = driver.name().to_string_lossy();
    let name = file.and_then(name_in).unwrap_or(&own_name);
    // A program with more rights than its caller does not listen to the caller's environment.
    let wish = env::var_os(VARIABLE)
        .filter(|_| !privilege::exceeds_caller())
        .and_then(|value| from_variable(&value, name))
        .map(|release| Wish {
            release,
            from: VARIABLE,
        });
    match generation::of(node, file, wish.or_else(plugins::wish)) {
        Ok(Decision { layout, from }) => {
            let Layout { first, last, .. } = layout;
            line(
                Level::Info,
                &format!(
                    "provider {name}: release {first} to {last}, IBVERBS_PRIVATE_{node}, by {from}"
                ),
            );
            Some(layout)
        }
        Err(reason) => {
            let reason = format!("its release is not clear: {reason}; {VARIABLE} can name it");
            line(
                Level::Warning,
                &format!("provider {name} refused: {reason}"),
            );
            if !plugins::refuse(&reason) {
                warn(&format!("Warning: driver '{name}' is not used: {reason}"));
            }
            None
        }
    }
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

/// The layout of the structures that a provider shares with the library: the one found when it
/// registered, or the library's layout for one that never did.
pub fn layout(driver: Driver) -> &'static Layout {
    let registered = REGISTERED.lock();
    let known = registered.iter().find(|known| known.driver == driver);
    known.map_or(driver, |known| known.driver).layout()
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
