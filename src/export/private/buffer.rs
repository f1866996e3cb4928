//! The command and response buffers that providers pass.

use std::ffi::c_void;

/// The `size` bytes at `at`; empty for NULL.
///
/// # Safety
/// A pointer that is not NULL is good for reads and writes of `size` bytes during `'a`, and
/// nobody else uses them meanwhile.
pub unsafe fn bytes<'a>(at: *mut c_void, size: usize) -> &'a mut [u8] {
    if at.is_null() {
        return &mut [];
    }
    // SAFETY: vouched for by the caller.
    unsafe { std::slice::from_raw_parts_mut(at.cast(), size) }
}
