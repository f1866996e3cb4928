//! Devices: `verbs_device`, which a provider allocates around the `ibv_device` that applications
//! hold.

use super::sysfs::{put, text};
use super::{Driver, SysfsDev, SysfsView};
use crate::abi::*;
use crate::errno::{Errno, Result};
use core::ffi::{CStr, c_char, c_int};
use core::marker::PhantomData;
use core::mem::offset_of;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;

// An ibv_device and its verbs_device have the same address.
const _: () = assert!(offset_of!(verbs_device, device) == 0);

/// A device, valid for `'a`.
#[derive(Clone, Copy)]
pub struct DeviceRef<'a> {
    raw: NonNull<verbs_device>,
    life: PhantomData<&'a verbs_device>,
}

impl<'a> DeviceRef<'a> {
    /// Takes the pointer that C passed.
    ///
    /// # Errors
    /// EINVAL when it is NULL.
    ///
    /// # Safety
    /// A pointer that is not NULL must be a device that a provider made and whose references
    /// last for `'a`.
    pub unsafe fn from_raw(raw: *mut ibv_device) -> Result<Self> {
        let raw = NonNull::new(raw.cast()).ok_or(Errno::INVAL)?;
        Ok(Self {
            raw,
            life: PhantomData,
        })
    }

    fn get(self) -> &'a verbs_device {
        // SAFETY: valid for 'a; once it is in a list only the reference count changes.
        unsafe { self.raw.as_ref() }
    }

    /// The pointer for C.
    pub fn as_ptr(self) -> *mut ibv_device {
        self.raw.as_ptr().cast()
    }

    /// Name of the RDMA device.
    pub fn name(self) -> &'a CStr {
        text(&self.get().device.name)
    }

    /// The kernel's attributes of the device; none for a device that a provider made by itself.
    pub fn sysfs(self) -> Option<SysfsView<'a>> {
        // SAFETY: the device owns it.
        unsafe { SysfsView::from_raw(self.get().sysfs) }.ok()
    }

    /// The kernel's index, -1 when it is not known.
    pub fn index(self) -> c_int {
        self.sysfs().map_or(-1, SysfsView::index)
    }

    /// The provider.
    ///
    /// # Errors
    /// EINVAL when the device names none.
    pub fn driver(self) -> Result<Driver> {
        // SAFETY: a provider's table stays loaded while it has devices.
        unsafe { Driver::from_raw(self.get().ops) }
    }

    /// Takes a reference.
    pub fn hold(self) -> HeldDevice {
        self.get().refcount.fetch_add(1, Ordering::Relaxed);
        HeldDevice(self.raw)
    }
}

/// A reference to a device. The last one that goes gives the device back to its provider.
pub struct HeldDevice(NonNull<verbs_device>);

// SAFETY: devices may be used from any thread, and the count is atomic.
unsafe impl Send for HeldDevice {}
// SAFETY: as above.
unsafe impl Sync for HeldDevice {}

impl HeldDevice {
    /// Makes a new device complete: the members that the library fills, and one reference.
    ///
    /// # Safety
    /// `driver` has just made the device out of `found`.
    pub(super) unsafe fn adopt(
        mut raw: NonNull<verbs_device>,
        driver: Driver,
        found: SysfsDev,
        dev_path: &str,
    ) -> Self {
        // SAFETY: nothing else refers to the device yet.
        let device = unsafe { raw.as_mut() };
        let view = found.view();
        let c = &mut device.device;
        c.node_type = view.node_type();
        c.transport_type = transport(view.node_type());
        copy(&mut c.name, view.name());
        copy(&mut c.dev_name, view.sysfs_name());
        copy(&mut c.ibdev_path, view.path());
        set(&mut c.dev_path, dev_path);
        device.ops = driver.as_ptr();
        device.refcount.store(1, Ordering::Release);
        device.sysfs = found.into_raw();
        Self(raw)
    }

    /// Takes back a reference that [`Self::into_raw`] gave out.
    ///
    /// # Errors
    /// EINVAL when the pointer is NULL.
    ///
    /// # Safety
    /// The pointer came from `into_raw`, and this is the only time that it comes back.
    pub unsafe fn from_raw(raw: *mut ibv_device) -> Result<Self> {
        NonNull::new(raw.cast()).map(Self).ok_or(Errno::INVAL)
    }

    /// The device.
    pub fn device(&self) -> DeviceRef<'_> {
        DeviceRef {
            raw: self.0,
            life: PhantomData,
        }
    }

    /// Hands the reference to C.
    pub fn into_raw(self) -> *mut ibv_device {
        let raw = self.0.as_ptr().cast();
        core::mem::forget(self);
        raw
    }
}

impl Clone for HeldDevice {
    fn clone(&self) -> Self {
        self.device().hold()
    }
}

impl Drop for HeldDevice {
    fn drop(&mut self) {
        let device = self.device();
        if device.get().refcount.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let (driver, sysfs) = (device.driver(), device.get().sysfs);
        // SAFETY: that was the last reference, so it is not read any more; it came from the C
        // library's heap (or is NULL).
        unsafe { libc::free(sysfs.cast()) };
        if let Ok(driver) = driver {
            // SAFETY: as above, and the device names its own driver.
            unsafe { driver.uninit_device(self.0.as_ptr()) };
        }
    }
}

/// The transport of a kind of device.
pub(crate) fn transport(node: ibv_node_type) -> ibv_transport_type {
    match node {
        IBV_NODE_CA | IBV_NODE_SWITCH | IBV_NODE_ROUTER => IBV_TRANSPORT_IB,
        IBV_NODE_RNIC => IBV_TRANSPORT_IWARP,
        IBV_NODE_USNIC => IBV_TRANSPORT_USNIC,
        IBV_NODE_USNIC_UDP => IBV_TRANSPORT_USNIC_UDP,
        IBV_NODE_UNSPECIFIED => IBV_TRANSPORT_UNSPECIFIED,
        _ => IBV_TRANSPORT_UNKNOWN,
    }
}

/// A name as C keeps it.
///
/// # Errors
/// ENAMETOOLONG; EINVAL if there is a NUL in it.
pub(crate) fn name_of<const SIZE: usize>(name: &str) -> Result<[c_char; SIZE]> {
    if name.contains('\0') {
        return Err(Errno::INVAL);
    }
    let mut array = [0; SIZE];
    put(&mut array, name)?;
    Ok(array)
}

/// Copies a name; the arrays are as long as those that the names come from.
fn copy(array: &mut [c_char], value: &CStr) {
    set(array, value.to_str().unwrap_or_default());
}

/// Empty when the text does not fit.
fn set(array: &mut [c_char], value: &str) {
    if put(array, value).is_err() {
        array.fill(0);
    }
}

/// Takes a reference that [`release`] gives back: for a context, which keeps its device.
pub fn hold(device: DeviceRef<'_>) {
    device.hold().into_raw();
}

/// Gives back a reference that [`hold`] took; the device may be gone when this returns.
///
/// # Safety
/// Every call answers one call of [`hold`], and the caller does not use the device afterwards.
pub unsafe fn release(device: DeviceRef<'_>) {
    drop(HeldDevice(device.raw));
}
