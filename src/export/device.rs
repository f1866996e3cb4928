//! Devices: ibv_get_device_list(3), ibv_get_device_name(3), ibv_get_device_guid(3),
//! ibv_get_device_index(3), and the sysfs helpers that librdmacm and others use.

use super::ret;
use crate::core::{devices, sysfs};
use crate::symver;
use kit::abi::handle::{DeviceRef, HeldDevice};
use kit::abi::{be64, ibv_device};
use kit::errno::{Errno, Result};
use kit::sys::errno::set as set_errno;
use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;
use std::ptr::null;

/// # Safety
/// `num_devices` is NULL or may be written.
unsafe extern "C" fn get_device_list(num_devices: *mut c_int) -> *mut *mut ibv_device {
    let report = |count: c_int| {
        if !num_devices.is_null() {
            // SAFETY: the caller passes NULL or a pointer to an int.
            unsafe { *num_devices = count }
        }
    };
    report(0);
    super::start();
    let list = devices::all().and_then(|held| {
        let count = c_int::try_from(held.len()).map_err(|_| Errno::NOMEM)?;
        Ok((count, array(held)?))
    });
    if let Ok((count, _)) = list {
        report(count);
    }
    ret::pointer(list.map(|(_, array)| array))
}
symver!(get_device_list => "ibv_get_device_list", "IBVERBS_1.1");

/// A NULL-terminated array, from the C library's heap: programs older than
/// `ibv_free_device_list` free it by themselves.
fn array(held: Vec<HeldDevice>) -> Result<*mut *mut ibv_device> {
    let slots = held.len() + 1;
    // SAFETY: all zeros is an array of NULL.
    let array = unsafe { libc::calloc(slots, size_of::<*mut ibv_device>()) };
    let array = array.cast::<*mut ibv_device>();
    if array.is_null() {
        return Err(Errno::NOMEM);
    }
    for (index, device) in held.into_iter().enumerate() {
        // SAFETY: there is a slot for each device.
        unsafe { array.add(index).write(device.into_raw()) };
    }
    Ok(array)
}

/// # Safety
/// `list` is NULL or came from `ibv_get_device_list` and is freed once.
unsafe extern "C" fn free_device_list(list: *mut *mut ibv_device) {
    if list.is_null() {
        return;
    }
    let mut next = list;
    // SAFETY: the array ends with NULL, and holds a reference to each device.
    unsafe {
        while let Ok(device) = HeldDevice::from_raw(*next) {
            drop(device);
            next = next.add(1);
        }
        libc::free(list.cast());
    }
}
symver!(free_device_list => "ibv_free_device_list", "IBVERBS_1.1");

/// # Safety
/// `device` is NULL or a device that the caller holds by a list or an open context.
pub(super) unsafe extern "C" fn get_device_name(device: *mut ibv_device) -> *const c_char {
    if device.is_null() {
        set_errno(Errno::INVAL);
        return null();
    }
    // SAFETY: the caller holds the device; programs expect the member's own address.
    unsafe { (&raw const (*device).name).cast() }
}
symver!(get_device_name => "ibv_get_device_name", "IBVERBS_1.1");

/// # Safety
/// As `get_device_name`.
pub(super) unsafe extern "C" fn get_device_guid(device: *mut ibv_device) -> be64 {
    // SAFETY: as above.
    let guid = unsafe { DeviceRef::from_raw(device) }.and_then(devices::guid);
    be64::new(guid.unwrap_or_else(|e| {
        set_errno(e);
        0
    }))
}
symver!(get_device_guid => "ibv_get_device_guid", "IBVERBS_1.1");

/// # Safety
/// As `get_device_name`.
unsafe extern "C" fn get_device_index(device: *mut ibv_device) -> c_int {
    // SAFETY: as above.
    let device = unsafe { DeviceRef::from_raw(device) };
    ret::count(device.map(DeviceRef::index))
}
symver!(get_device_index => "ibv_get_device_index", "IBVERBS_1.9");

unsafe extern "C" fn get_sysfs_path() -> *const c_char {
    sysfs::root().as_ptr()
}
symver!(get_sysfs_path => "ibv_get_sysfs_path", "IBVERBS_1.0");

/// # Safety
/// `dir` and `file` are NULL or strings; `buf` has room for `size` bytes.
unsafe extern "C" fn read_sysfs_file(
    dir: *const c_char,
    file: *const c_char,
    buf: *mut c_char,
    size: usize,
) -> c_int {
    if dir.is_null() || file.is_null() {
        set_errno(Errno::INVAL);
        return -1;
    }
    // SAFETY: the caller passes strings and a buffer of that size.
    unsafe {
        let (dir, file) = (CStr::from_ptr(dir), CStr::from_ptr(file));
        with_buffer(buf, size, |buf| sysfs::read_file(dir, file, buf))
    }
}
symver!(read_sysfs_file => "ibv_read_sysfs_file", "IBVERBS_1.0");

/// Reads into a caller's buffer: the length, or -1 with errno set, where there is one.
///
/// # Safety
/// `buf` has room for `size` bytes.
pub unsafe fn with_buffer(
    buf: *mut c_char,
    size: usize,
    read: impl FnOnce(&mut [MaybeUninit<u8>]) -> std::result::Result<usize, sysfs::ReadError>,
) -> c_int {
    let buf = match (buf.is_null(), size) {
        (true, 1..) => {
            set_errno(Errno(libc::EFAULT));
            return -1;
        }
        (true, 0) => &mut [],
        (false, _) => {
            let size = size.min(isize::MAX.unsigned_abs());
            // SAFETY: the caller's buffer, which nothing else uses during the call.
            unsafe { std::slice::from_raw_parts_mut(buf.cast(), size) }
        }
    };
    match read(buf) {
        Ok(length) => c_int::try_from(length).unwrap_or(c_int::MAX),
        Err(error) => {
            if let Some(e) = error.errno() {
                set_errno(e);
            }
            -1
        }
    }
}

#[cfg(test)]
mod tests;
