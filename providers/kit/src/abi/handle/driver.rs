//! The registration of a provider: its operations on devices, and its match table (`struct
//! verbs_device_ops` of rdma-core's `libibverbs/driver.h`).

use super::{DeviceRef, HeldDevice, SysfsDev};
use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::generation::{self, Layout};
use core::ffi::{CStr, c_void};
use core::mem::offset_of;
use core::ops::RangeInclusive;
use core::ptr::NonNull;
use std::os::fd::{IntoRawFd, OwnedFd};

/// The operations of a provider. Two are equal when they are the same table.
#[derive(Clone, Copy)]
pub struct Driver {
    ops: NonNull<verbs_device_ops>,
    layout: &'static Layout,
}

impl PartialEq for Driver {
    fn eq(&self, other: &Self) -> bool {
        self.ops == other.ops
    }
}

impl Eq for Driver {}

// SAFETY: the table is constant while it is registered, and providers' functions may be called
// from any thread.
unsafe impl Send for Driver {}
// SAFETY: as above.
unsafe impl Sync for Driver {}

/// One entry of a provider's match table.
#[derive(Clone, Copy)]
pub struct MatchEntry(NonNull<verbs_match_ent>);

/// The condition of an entry in a match table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match<'a> {
    /// This PCI vendor and device.
    Pci(u16, u16),
    /// A modalias by a shell pattern.
    Modalias(&'a CStr),
    /// This kernel driver.
    DriverId(u64),
    /// A kind that is not known here: matches nothing.
    Unknown,
}

impl MatchEntry {
    /// The condition of the entry.
    pub fn asks<'a>(self) -> Match<'a> {
        // SAFETY: the entry belongs to a registered table, which stays.
        let entry = unsafe { self.0.as_ref() };
        match u32::from(entry.kind) {
            VERBS_MATCH_PCI => Match::Pci(entry.vendor, entry.device),
            // SAFETY: the kind determines the valid member of the union.
            VERBS_MATCH_DRIVER_ID => Match::DriverId(unsafe { entry.u.driver_id }),
            VERBS_MATCH_MODALIAS => pattern(entry),
            _ => Match::Unknown,
        }
    }

    pub(super) fn as_ptr(self) -> *const verbs_match_ent {
        self.0.as_ptr()
    }
}

fn pattern<'a>(entry: &verbs_match_ent) -> Match<'a> {
    // SAFETY: the kind determines the valid member of the union.
    let pattern = unsafe { entry.u.modalias };
    if pattern.is_null() {
        return Match::Unknown;
    }
    // SAFETY: a constant string of the provider.
    Match::Modalias(unsafe { CStr::from_ptr(pattern) })
}

/// `struct verbs_sysfs_dev` of release 34, in words.
type WithoutPorts = [u64; 984 / 8];

/// The device in the form of release 34: without the number of ports, later members moved up.
fn without_ports(device: &SysfsDev) -> WithoutPorts {
    const ABI: usize = offset_of!(verbs_sysfs_dev, num_ports);
    const CREATED: usize = ABI + size_of::<u32>();
    let mut shown: WithoutPorts = [0; 984 / 8];
    let to = shown.as_mut_ptr().cast::<u8>();
    // SAFETY: both are plain data, and every offset lies in its structure: 964 bytes are the same,
    // 4 and 16 follow.
    unsafe {
        let c = device.as_ptr();
        to.copy_from_nonoverlapping(c.cast(), ABI);
        to.add(ABI).cast::<u32>().write((*c).abi_ver);
        to.add(CREATED)
            .cast::<libc::timespec>()
            .write((*c).time_created);
    }
    shown
}

impl Driver {
    /// Takes the table that a provider registers.
    ///
    /// # Errors
    /// EINVAL when the pointer is NULL or the table cannot make devices.
    ///
    /// # Safety
    /// A pointer that is not NULL must be a `verbs_device_ops` that stays loaded and unchanged.
    pub unsafe fn from_raw(raw: *const verbs_device_ops) -> Result<Self> {
        let ops = NonNull::new(raw.cast_mut()).ok_or(Errno::INVAL)?;
        // SAFETY: the caller vouches for the table.
        let usable = unsafe { ops.as_ref() }.alloc_device.is_some();
        if usable {
            let layout = &generation::OWN;
            Ok(Self { ops, layout })
        } else {
            Err(Errno::INVAL)
        }
    }

    /// The same provider, with this layout of the structures that it shares with the library.
    pub fn with_layout(self, layout: &'static Layout) -> Self {
        Self { layout, ..self }
    }

    /// The layout of the structures that the provider shares with the library.
    pub fn layout(self) -> &'static Layout {
        self.layout
    }

    fn ops(&self) -> &verbs_device_ops {
        // SAFETY: the caller of `from_raw` vouched that the table stays.
        unsafe { self.ops.as_ref() }
    }

    /// Shows the device to a function of the provider, in the form that its generation reads.
    ///
    /// # Safety
    /// `function` is the provider's.
    unsafe fn show<T>(
        &self,
        device: &SysfsDev,
        function: unsafe extern "C" fn(*mut verbs_sysfs_dev) -> T,
    ) -> T {
        if self.layout.num_ports {
            // SAFETY: the device is valid; the caller vouches for the function.
            return unsafe { function(device.as_ptr()) };
        }
        let mut shown = without_ports(device);
        // SAFETY: as above; such a provider knows the structure in this form.
        let answer = unsafe { function(shown.as_mut_ptr().cast()) };
        // SAFETY: as above; the members that the provider has set are in the common part.
        unsafe {
            let same = offset_of!(verbs_sysfs_dev, num_ports);
            let to = device.as_ptr().cast::<u8>();
            to.copy_from_nonoverlapping(shown.as_ptr().cast(), same);
        }
        answer
    }

    /// The pointer that was registered.
    pub fn as_ptr(self) -> *const verbs_device_ops {
        self.ops.as_ptr()
    }

    /// The provider's name.
    pub fn name(&self) -> &CStr {
        let name = self.ops().name;
        if name.is_null() {
            return c"";
        }
        // SAFETY: a constant string of the provider.
        unsafe { CStr::from_ptr(name) }
    }

    /// The versions of its kernel driver's interface that it knows.
    pub fn abi_versions(&self) -> RangeInclusive<u32> {
        self.ops().match_min_abi_version..=self.ops().match_max_abi_version
    }

    /// Its match table; empty when it has none.
    pub fn entries(&self) -> impl Iterator<Item = MatchEntry> {
        let mut next = NonNull::new(self.ops().match_table.cast_mut());
        core::iter::from_fn(move || {
            let entry = next?;
            // SAFETY: the table ends with a sentinel, and no step is made past it.
            if u32::from(unsafe { entry.as_ref() }.kind) == VERBS_MATCH_SENTINEL {
                return None;
            }
            // SAFETY: this entry was no sentinel, so another follows.
            next = Some(unsafe { entry.add(1) });
            Some(MatchEntry(entry))
        })
    }

    /// Asks the provider's own match function; none when it has none.
    pub fn match_device(&self, device: &mut SysfsDev) -> Option<bool> {
        let function = self.ops().match_device?;
        // SAFETY: the device is valid and no other thread uses it during the call.
        Some(unsafe { self.show(device, function) })
    }

    /// Lets the provider make its device. The new device has one reference and owns `found`;
    /// `dev_path` is the folder of its character device in sysfs.
    ///
    /// # Errors
    /// `found`, when the provider makes none.
    pub fn alloc_device(
        self,
        found: SysfsDev,
        dev_path: &str,
    ) -> core::result::Result<HeldDevice, SysfsDev> {
        let Some(function) = self.ops().alloc_device else {
            return Err(found);
        };
        // SAFETY: the device is valid; the provider may keep the pointer, which stays as long
        // as the device that it makes.
        let made = unsafe { self.show(&found, function) };
        match NonNull::new(made) {
            // SAFETY: a new device of this provider to which nothing else refers yet.
            Some(made) => Ok(unsafe { HeldDevice::adopt(made, self, found, dev_path) }),
            None => Err(found),
        }
    }

    /// Lets the provider open a context of one of its devices. The descriptor goes to the
    /// provider, which closes it when it fails.
    ///
    /// # Safety
    /// `device` was made by this driver; `private` is a value for its provider.
    pub unsafe fn alloc_context(
        &self,
        device: DeviceRef<'_>,
        cmd_fd: Option<OwnedFd>,
        private: *mut c_void,
    ) -> Option<NonNull<verbs_context>> {
        let function = self.ops().alloc_context?;
        let fd = cmd_fd.map_or(-1, IntoRawFd::into_raw_fd);
        // SAFETY: the caller vouches for device and private data.
        NonNull::new(unsafe { function(device.as_ptr(), fd, private) })
    }

    /// Whether the provider can import contexts.
    pub fn imports(&self) -> bool {
        self.ops().import_context.is_some()
    }

    /// Lets the provider make a context around a command descriptor of another process.
    ///
    /// # Safety
    /// `device` was made by this driver.
    pub unsafe fn import_context(
        &self,
        device: DeviceRef<'_>,
        cmd_fd: core::ffi::c_int,
    ) -> Option<NonNull<verbs_context>> {
        let function = self.ops().import_context?;
        // SAFETY: the caller vouches for the device.
        NonNull::new(unsafe { function(device.as_ptr(), cmd_fd) })
    }

    /// Gives a device back to the provider.
    ///
    /// # Safety
    /// The device was made by this driver and is not used any more.
    pub(super) unsafe fn uninit_device(&self, device: *mut verbs_device) {
        if let Some(function) = self.ops().uninit_device {
            // SAFETY: the caller vouches for the device.
            unsafe { function(device) }
        }
    }
}
