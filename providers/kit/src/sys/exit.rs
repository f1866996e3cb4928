//! Functions to be called when the program exits.

use core::ffi::c_int;
use std::sync::OnceLock;

/// As many as there are callers in this library.
static HANDLERS: [OnceLock<fn()>; 3] = [const { OnceLock::new() }; 3];

/// Has a function called at exit(3), and when the library is unloaded: once, however often it is
/// asked for. An end by a signal or _exit(2) calls nothing.
pub fn at_exit(handler: fn()) {
    for (place, known) in HANDLERS.iter().enumerate() {
        if known.set(handler).is_ok() {
            if place == 0 {
                // SAFETY: a handler that lives as long as the library: glibc calls those of an
                // unloaded library before it goes. Without memory for it, nothing is called.
                let _: c_int = unsafe { libc::atexit(exiting) };
            }
            return;
        }
        if known
            .get()
            .is_some_and(|known| std::ptr::fn_addr_eq(*known, handler))
        {
            return;
        }
    }
}

extern "C" fn exiting() {
    for handler in HANDLERS.iter().filter_map(OnceLock::get) {
        handler();
    }
}
