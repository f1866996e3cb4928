//! What is to be done when the program exits.

use core::ffi::c_int;
use std::sync::OnceLock;

static HANDLER: OnceLock<fn()> = OnceLock::new();

/// Has a function called at exit(3), and when the library is unloaded. The first one stays; an end
/// by a signal or _exit(2) calls nothing.
pub fn at_exit(handler: fn()) {
    if HANDLER.set(handler).is_ok() {
        // SAFETY: a handler that lives as long as the library: glibc calls those of an unloaded
        // library before it goes. Without memory for it, the handler is not called.
        let _: c_int = unsafe { libc::atexit(exiting) };
    }
}

extern "C" fn exiting() {
    if let Some(handler) = HANDLER.get() {
        handler();
    }
}
