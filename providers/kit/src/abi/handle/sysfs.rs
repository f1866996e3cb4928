//! A device as the kernel shows it, in the form that providers read.

use super::MatchEntry;
use crate::abi::*;
use crate::errno::{Errno, Result};
use core::ffi::{CStr, c_char, c_int};
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The facts about a kernel device before a provider has seen it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Name of the character device, for example `uverbs0`.
    pub sysfs_name: String,
    /// Number of the character device.
    pub cdev: u64,
    /// Name of the RDMA device, for example `rxe0`.
    pub name: String,
    /// Its folder in sysfs.
    pub path: String,
    /// Node GUID, when it has been read.
    pub guid: Option<u64>,
    /// Kernel driver, 0 when it is not known.
    pub driver_id: u32,
    /// `IBV_NODE_*`.
    pub node_type: ibv_node_type,
    /// The kernel's index, never used twice; none without netlink.
    pub index: Option<c_int>,
    /// Number of ports, 0 when it is not known.
    pub ports: u32,
    /// Version of the driver's own part of the command interface.
    pub abi: u32,
    /// When the device was made: seconds and nanoseconds, both 0 when it was not asked for.
    pub created: (i64, i64),
}

/// A separate `verbs_sysfs_dev`, from the C library's heap: it outlives this library's handles
/// inside the device that a provider makes of it.
pub struct SysfsDev(NonNull<verbs_sysfs_dev>);

// SAFETY: the only owner of plain data.
unsafe impl Send for SysfsDev {}

impl Drop for SysfsDev {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, and given up only by `into_raw`.
        unsafe { libc::free(self.0.as_ptr().cast()) }
    }
}

impl SysfsDev {
    /// A device as it was found.
    ///
    /// # Errors
    /// ENOMEM; ENAMETOOLONG when a name has no room in the C struct.
    pub fn new(found: &Found) -> Result<Self> {
        // SAFETY: calloc of one struct, for which all zeros is a valid value.
        let raw = unsafe { libc::calloc(1, size_of::<verbs_sysfs_dev>()) };
        let mut device = Self(NonNull::new(raw.cast()).ok_or(Errno::NOMEM)?);
        device.fill(found)?;
        Ok(device)
    }

    fn fill(&mut self, found: &Found) -> Result<()> {
        let c = self.get_mut();
        put(&mut c.sysfs_name, &found.sysfs_name)?;
        put(&mut c.ibdev_name, &found.name)?;
        put(&mut c.ibdev_path, &found.path)?;
        c.sysfs_cdev = found.cdev;
        c.driver_id = found.driver_id;
        c.node_type = found.node_type;
        c.ibdev_idx = found.index.unwrap_or(-1);
        c.num_ports = found.ports;
        c.abi_ver = found.abi;
        (c.time_created.tv_sec, c.time_created.tv_nsec) = found.created;
        if let Some(guid) = found.guid {
            c.node_guid = guid;
            c.flags |= VSYSFS_READ_NODE_GUID;
        }
        Ok(())
    }

    fn get_mut(&mut self) -> &mut verbs_sysfs_dev {
        // SAFETY: the only owner.
        unsafe { self.0.as_mut() }
    }

    /// The values of its members.
    pub fn view(&self) -> SysfsView<'_> {
        SysfsView {
            raw: self.0,
            life: PhantomData,
        }
    }

    /// Notes which entry of a provider's table matched, for the provider to see.
    pub fn set_match(&mut self, entry: Option<MatchEntry>) {
        self.get_mut().match_ = entry.map_or(core::ptr::null(), MatchEntry::as_ptr);
    }

    /// The modalias of the device below; none before [`Self::set_modalias`].
    pub fn modalias(&self) -> Option<&CStr> {
        // SAFETY: the only owner, and no one changes it during the borrow.
        let c = unsafe { self.0.as_ref() };
        (c.flags & VSYSFS_READ_MODALIAS != 0).then(|| text(&c.modalias))
    }

    /// Notes the modalias; empty when the device has none, or one too long.
    pub fn set_modalias(&mut self, modalias: &str) {
        let c = self.get_mut();
        c.flags |= VSYSFS_READ_MODALIAS;
        if put(&mut c.modalias, modalias).is_err() {
            c.modalias[0] = 0;
        }
    }

    /// The pointer for a provider.
    pub fn as_ptr(&self) -> *mut verbs_sysfs_dev {
        self.0.as_ptr()
    }

    /// Gives the memory up, to be freed with free(3).
    pub fn into_raw(self) -> *mut verbs_sysfs_dev {
        let raw = self.0.as_ptr();
        core::mem::forget(self);
        raw
    }
}

/// A `verbs_sysfs_dev` that is read, valid for `'a`.
#[derive(Clone, Copy)]
pub struct SysfsView<'a> {
    raw: NonNull<verbs_sysfs_dev>,
    life: PhantomData<&'a verbs_sysfs_dev>,
}

impl<'a> SysfsView<'a> {
    /// Takes the pointer that C passed.
    ///
    /// # Errors
    /// EINVAL when it is NULL.
    ///
    /// # Safety
    /// A pointer that is not NULL must be a `verbs_sysfs_dev` that stays for `'a`.
    pub unsafe fn from_raw(raw: *mut verbs_sysfs_dev) -> Result<Self> {
        let raw = NonNull::new(raw).ok_or(Errno::INVAL)?;
        Ok(Self {
            raw,
            life: PhantomData,
        })
    }

    /// Name of the character device.
    pub fn sysfs_name(self) -> &'a CStr {
        // SAFETY: valid for 'a and constant; no reference to the whole struct is made, since
        // flags and node_guid change.
        text(unsafe { &(*self.raw.as_ptr()).sysfs_name })
    }

    /// Number of the character device.
    pub fn cdev(self) -> u64 {
        // SAFETY: as above.
        unsafe { (*self.raw.as_ptr()).sysfs_cdev }
    }

    /// Name of the RDMA device.
    pub fn name(self) -> &'a CStr {
        // SAFETY: as above.
        text(unsafe { &(*self.raw.as_ptr()).ibdev_name })
    }

    /// Its folder in sysfs.
    pub fn path(self) -> &'a CStr {
        // SAFETY: as above.
        text(unsafe { &(*self.raw.as_ptr()).ibdev_path })
    }

    /// Kernel driver, 0 when it is not known.
    pub fn driver_id(self) -> u32 {
        // SAFETY: as above.
        unsafe { (*self.raw.as_ptr()).driver_id }
    }

    /// `IBV_NODE_*`.
    pub fn node_type(self) -> ibv_node_type {
        // SAFETY: as above.
        unsafe { (*self.raw.as_ptr()).node_type }
    }

    /// The kernel's index, -1 when it is not known.
    pub fn index(self) -> c_int {
        // SAFETY: as above.
        unsafe { (*self.raw.as_ptr()).ibdev_idx }
    }

    /// Number of ports, 0 when it is not known.
    pub fn ports(self) -> u32 {
        // SAFETY: as above.
        unsafe { (*self.raw.as_ptr()).num_ports }
    }

    /// Version of the driver's own part of the command interface.
    pub fn abi(self) -> u32 {
        // SAFETY: as above.
        unsafe { (*self.raw.as_ptr()).abi_ver }
    }

    /// When the device was made: seconds and nanoseconds.
    fn created(self) -> (i64, i64) {
        // SAFETY: as above.
        let time = unsafe { (*self.raw.as_ptr()).time_created };
        (time.tv_sec, time.tv_nsec)
    }

    /// Whether `found` is this very device, not a later one of the same name.
    pub fn is(self, found: &Found) -> bool {
        let index = found.index.unwrap_or(-1);
        self.sysfs_name().to_bytes() == found.sysfs_name.as_bytes()
            && self.index() == index
            && (index != -1 || self.created() == found.created)
    }

    /// The node GUID, once it has been read.
    pub fn guid(self) -> Option<u64> {
        if self.flags().load(Ordering::Acquire) & VSYSFS_READ_NODE_GUID == 0 {
            return None;
        }
        Some(self.node_guid().load(Ordering::Relaxed))
    }

    /// Notes the node GUID.
    pub fn set_guid(self, guid: u64) {
        self.node_guid().store(guid, Ordering::Relaxed);
        self.flags()
            .fetch_or(VSYSFS_READ_NODE_GUID, Ordering::Release);
    }

    fn flags(&self) -> &AtomicU32 {
        // SAFETY: aligned and valid for 'a; after matching, only atomics touch the member.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.raw.as_ptr()).flags) }
    }

    fn node_guid(&self) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.raw.as_ptr()).node_guid) }
    }
}

/// Copies a string into a C array, with its NUL.
pub(super) fn put(array: &mut [c_char], value: &str) -> Result<()> {
    let too_long = Errno(libc::ENAMETOOLONG);
    let bytes = bytemuck::cast_slice_mut::<c_char, u8>(array);
    let (room, rest) = bytes.split_at_mut_checked(value.len()).ok_or(too_long)?;
    *rest.first_mut().ok_or(too_long)? = 0;
    room.copy_from_slice(value.as_bytes());
    Ok(())
}

/// The string in a C array; empty when no NUL ends it.
pub(super) fn text(array: &[c_char]) -> &CStr {
    CStr::from_bytes_until_nul(bytemuck::cast_slice(array)).unwrap_or(c"")
}
