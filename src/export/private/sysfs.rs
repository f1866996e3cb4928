//! Functions that the C file of `ibv_read_ibdev_sysfs_file` calls.

use crate::core::sysfs;
use crate::export::device::with_buffer;
use crate::hidden;
use kit::abi::{handle::SysfsView, verbs_sysfs_dev};
use kit::{errno::Errno, sys::errno::set as set_errno};
use std::ffi::{CStr, c_char, c_int};

/// # Safety
/// `buf` has room for `size` bytes; `device` is NULL or a device's; `file` is a string.
unsafe extern "C" fn read_ibdev_file(
    buf: *mut c_char,
    size: usize,
    device: *mut verbs_sysfs_dev,
    file: *const c_char,
) -> c_int {
    // SAFETY: the provider passes the device that it was given.
    let Ok(device) = (unsafe { SysfsView::from_raw(device) }) else {
        set_errno(Errno::INVAL);
        return -1;
    };
    // SAFETY: the C file has formatted the name; the buffer is the provider's own.
    unsafe {
        let file = CStr::from_ptr(file);
        with_buffer(buf, size, |buf| sysfs::read_ibdev_file(device, file, buf))
    }
}
hidden!(read_ibdev_file => "ferroverbs_read_ibdev_file");
