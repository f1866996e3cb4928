//! Devices: ibv_get_device_list(3) of 1.0.
//!
//! Each device of a list has a wrapper, which the list holds, and every context that was opened
//! with it: 1.0 promised that an open device stays when its list is freed.

use super::{layout::*, ret};
use crate::core::devices;
use crate::export::device as today;
use crate::symver;
use kit::abi::{be64, handle::HeldDevice, ibv_device};
use kit::errno::{Errno, Result};
use kit::sys::memory;
use std::ffi::{c_char, c_int};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A wrapper with its reference count. It holds the device.
#[repr(C)]
struct Shared {
    shown: ibv_device_1_0,
    holders: AtomicUsize,
}

fn wrap(held: HeldDevice) -> Result<*mut ibv_device_1_0> {
    let new = memory::new(Shared {
        shown: ibv_device_1_0 {
            obsolete_sysfs_dev: null_mut(),
            obsolete_sysfs_ibdev: null_mut(),
            real_device: held.device().as_ptr(),
            ops: [None; 2],
        },
        holders: AtomicUsize::new(1),
    })?;
    // The wrapper has the reference from here on.
    let _ = held.into_raw();
    Ok(new.cast())
}

/// Adds a reference to the device.
///
/// # Safety
/// `device` is a live wrapper.
pub(super) unsafe fn hold(device: *mut ibv_device_1_0) {
    // SAFETY: every wrapper is the beginning of a Shared.
    unsafe { &(*device.cast::<Shared>()).holders }.fetch_add(1, Ordering::Relaxed);
}

/// One less.
///
/// # Safety
/// `device` is a live wrapper that the caller holds, and does not use afterwards.
pub(super) unsafe fn release(device: *mut ibv_device_1_0) {
    let shared = device.cast::<Shared>();
    // SAFETY: as for `hold`; the last one ends the wrapper and gives the device back.
    unsafe {
        if (*shared).holders.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        drop(HeldDevice::from_raw((*shared).shown.real_device));
        memory::free(shared.cast());
    }
}

/// The device of today, or NULL for NULL.
///
/// # Safety
/// `device` is NULL or a live wrapper.
pub(super) unsafe fn real(device: *mut ibv_device_1_0) -> *mut ibv_device {
    // SAFETY: vouched for by the caller.
    unsafe { device.as_ref() }.map_or(null_mut(), |d| d.real_device)
}

unsafe extern "C" fn get_device_list(num_devices: *mut c_int) -> *mut *mut ibv_device_1_0 {
    let report = |count: c_int| {
        // SAFETY: the caller passes NULL or a pointer to an int.
        if let Some(reported) = unsafe { num_devices.as_mut() } {
            *reported = count;
        }
    };
    report(0);
    crate::export::start();
    let list = devices::all().and_then(|held| {
        let count = c_int::try_from(held.len()).map_err(|_| Errno::NOMEM)?;
        Ok((count, array(held)?))
    });
    if let Ok((count, _)) = list {
        report(count);
    }
    ret::pointer(list.map(|(_, array)| array))
}
symver!(old get_device_list => "ibv_get_device_list", "IBVERBS_1.0");

/// A NULL-terminated array of wrappers.
fn array(held: Vec<HeldDevice>) -> Result<*mut *mut ibv_device_1_0> {
    let list = memory::zeroed((held.len() + 1) * size_of::<*mut ibv_device_1_0>())?;
    let list = list.cast::<*mut ibv_device_1_0>();
    for (index, device) in held.into_iter().enumerate() {
        match wrap(device) {
            // SAFETY: there is room for each device, and for a NULL behind them.
            Ok(device) => unsafe { list.add(index).write(device) },
            Err(e) => {
                // SAFETY: the array ends with NULL after those that were made.
                unsafe { free_device_list(list) };
                return Err(e);
            }
        }
    }
    Ok(list)
}

unsafe extern "C" fn free_device_list(list: *mut *mut ibv_device_1_0) {
    if list.is_null() {
        return;
    }
    let mut next = list;
    // SAFETY: the caller passes a list of 1.0, once; it ends with NULL and holds its wrappers.
    unsafe {
        while !(*next).is_null() {
            release(*next);
            next = next.add(1);
        }
        memory::free(list.cast());
    }
}
symver!(old free_device_list => "ibv_free_device_list", "IBVERBS_1.0");

unsafe extern "C" fn get_device_name(device: *mut ibv_device_1_0) -> *const c_char {
    // SAFETY: the caller passes a device that it holds, or NULL.
    unsafe { today::get_device_name(real(device)) }
}
symver!(old get_device_name => "ibv_get_device_name", "IBVERBS_1.0");

unsafe extern "C" fn get_device_guid(device: *mut ibv_device_1_0) -> be64 {
    // SAFETY: as above.
    unsafe { today::get_device_guid(real(device)) }
}
symver!(old get_device_guid => "ibv_get_device_guid", "IBVERBS_1.0");
