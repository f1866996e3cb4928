//! Functions that the C file of `__verbs_log` calls.

use crate::{core::log, hidden};
use std::ffi::{c_char, c_int};

extern "C" fn log_wants(level: u32) -> c_int {
    log::wants(level).into()
}
hidden!(log_wants => "ferroverbs_log_wants");

unsafe extern "C" fn log_write(text: *const c_char, length: usize) {
    // SAFETY: the C file passes the text that it formatted and its length.
    log::write(unsafe { std::slice::from_raw_parts(text.cast(), length) });
}
hidden!(log_write => "ferroverbs_log_write");
