#![forbid(unsafe_code)]
//! The device list (ibv_get_device_list(3)): the existing devices, the references to them, and the
//! `ibv_device` of each. Kernel devices come first, then those of uroce.
//!
//! Each call scans, compares the result with the list, passes new devices to providers, and returns
//! one reference to each device. The list itself holds one more reference.
//!
//! - *Scan* ([`scan`]). RDMA netlink gives all devices in one dump; one more request for each
//!   device gives its character device. A kernel that does not answer the second request, or has no
//!   RDMA netlink at all, is read through sysfs (`SYSFS_PATH`, or /sys). A device is listed only if
//!   its node exists below /dev/infiniband, so a container sees its own devices. Missing or damaged
//!   data hides that device only. Without the sysfs class the result is ENOSYS; if reading it is
//!   not permitted, EPERM.
//! - *Identity.* The kernel's device index identifies a device. Without netlink, the name of the
//!   character device and the creation time of its directory do. A device keeps its `ibv_device`
//!   for as long as the kernel shows it, over any number of lists. A device that is gone leaves the
//!   list, and returns to its provider when the last list or context releases it. A device that
//!   comes back under the same name is a new device.
//! - *Providers.* Built-in providers are tried first (`load::built_in`), then providers that the
//!   program brought or that were loaded ([`crate::load`]). While providers load, the list is
//!   unlocked: their constructors may call the library from any thread.
//! - *Devices in user space* ([`user`]). uroce makes one device for each configured network
//!   interface (`uroce::list`). Name and interface index identify it. If such a device exists, a
//!   kernel without RDMA is not an error. The log reports at level 2, once, which configured
//!   interface is missing and what to do.
//!
//! Locks: `Devices::list` is held during a scan and released while providers load; `UserSpace` has
//! another lock, taken and released before it. fork(2) waits for both (`kit::sys::forks`).

mod scan;
mod user;

pub use scan::{CDEV_FOLDER, Places};

use super::{config, sysfs};
use crate::load::{self, Extent, drivers};
use crate::warn::warn;
use kit::abi::handle::{DeviceRef, Driver, Found, HeldDevice};
use kit::errno::{Errno, Result};
use kit::provider;
use kit::sys::dl::{self, Object};
use kit::sys::forks;
use kit::sys::lock::{Guard, Lock};
use kit::sys::stat::char_device;
use rustix::fs::CWD;
use std::ffi::{OsString, c_int};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use uroce::list::{Device, Listing};
use user::UserSpace;

/// Bytes that the text of a node GUID is read into, NUL included.
const GUID_TEXT: usize = 24;
/// Bytes of `verbs_sysfs_dev::modalias`.
const MODALIAS: usize = 512;

/// The dependencies of the list. Tests supply others.
pub struct Surroundings<'a> {
    /// Where devices are looked for.
    pub places: Places,
    /// Those of the library's own providers that come first, and the providers that have
    /// registered so far.
    pub drivers: &'a dyn Fn() -> Vec<Driver>,
    /// Those of the library's own that come after all that can be loaded.
    pub last: &'a dyn Fn() -> Vec<Driver>,
    /// Loads providers; each registers while this runs.
    pub load: &'a dyn Fn(Extent<'_>),
    /// Which devices in user space there are to be.
    pub user: &'a dyn Fn() -> Listing,
    /// Makes one of them.
    pub make: &'a dyn Fn(&Device) -> Result<HeldDevice>,
    /// Receives a message for the user: which devices are missing, and the remedy.
    pub complain: &'a dyn Fn(&str),
}

/// The devices known so far.
pub struct Devices {
    /// Those of the kernel, newest first where several were found at different times.
    list: Lock<Vec<HeldDevice>>,
    /// The version of the kernel's interface has been found good.
    interface: AtomicBool,
    /// Threads that are loading the providers. Changes under the lock.
    loading: AtomicUsize,
    /// Some providers have been loaded. Changes under the lock.
    begun: AtomicBool,
    /// All providers have been loaded. Changes under the lock.
    loaded: AtomicBool,
    /// Those in user space.
    user: UserSpace,
}

static DEVICES: Devices = Devices::new();

/// All devices of this system, with a reference to each.
///
/// # Errors
/// ENOSYS when the kernel has no RDMA or speaks an unknown version, EPERM when looking is not
/// permitted: both only where there is no device in user space. ENOMEM, EMFILE, ENFILE.
pub fn all() -> Result<Vec<HeldDevice>> {
    across_forks();
    let _entered = forks::enter();
    drivers::keep();
    let preferred = config::trusted(load::built_in::VARIABLE);
    let found = DEVICES.refresh(&Surroundings {
        places: Places::system(),
        drivers: &|| {
            let own = load::built_in::first(preferred.as_deref());
            own.into_iter().chain(drivers::registered()).collect()
        },
        last: &|| load::built_in::last(preferred.as_deref()),
        load: &|extent| load::load(&named_by_user(), extent),
        user: &|| uroce::list::devices(config::trusted(uroce::config::VARIABLE).as_deref()),
        make: &uroce::list::make,
        complain: &user::complain,
    })?;
    if !found.is_empty() {
        stay_loaded();
    }
    Ok(found)
}

/// Keeps the library loaded, as a provider in C does, which links with it. The values made for
/// devices live as long as the process, and a program that loads the library again finds them. To
/// be called with no lock held that a constructor may want.
fn stay_loaded() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    if let Some(library) = Object::at(stay_loaded as *const () as usize) {
        // In a program that was linked with the static library, the linker refuses to open it.
        // Such code stays anyway.
        dl::pin(&library);
    }
}

/// Has fork(2) wait while another thread makes a list. Without memory for that, a child may find a
/// list locked for ever.
fn across_forks() {
    let _ = forks::wait_for(&DEVICES.list);
    DEVICES.user.across_forks();
    load::across_forks();
}

/// The providers that the environment names: those of RDMAV_DRIVERS or else those of IBV_DRIVERS.
fn named_by_user() -> Vec<OsString> {
    ["RDMAV_DRIVERS", "IBV_DRIVERS"]
        .into_iter()
        .find_map(config::trusted)
        .map(|value| load::config::from_variable(&value))
        .unwrap_or_default()
}

/// The device with this command descriptor, which any process may have opened.
///
/// # Errors
/// EINVAL when it is not a character device; ENODEV when it does not belong to a known device.
pub fn from_cmd_fd(fd: c_int) -> Result<HeldDevice> {
    let number = char_device(fd).map_err(|_| Errno::INVAL)?;
    all()
        .map_err(|_| Errno::NODEV)?
        .into_iter()
        .find(|held| {
            let sysfs = held.device().sysfs();
            sysfs.is_some_and(|sysfs| sysfs.cdev() == number)
        })
        .ok_or(Errno::NODEV)
}

/// The node GUID of a device. It is read once.
///
/// # Errors
/// EINVAL for a device whose provider does not report the GUID, and for a malformed GUID; ENOENT
/// when sysfs has none.
pub fn guid(device: DeviceRef<'_>) -> Result<u64> {
    if let Some(spec) = provider::Device::spec(device) {
        return Ok(spec.guid);
    }
    let sysfs = device.sysfs().ok_or(Errno::INVAL)?;
    if let Some(guid) = sysfs.guid() {
        return Ok(guid);
    }
    let file = format!("{}/node_guid", sysfs.path().to_string_lossy());
    let text = sysfs::text_at::<GUID_TEXT>(CWD, file).ok_or(Errno::NOENT)?;
    let guid = sysfs::guid(&text).ok_or(Errno::INVAL)?;
    sysfs.set_guid(guid);
    Ok(guid)
}

impl Devices {
    const fn new() -> Self {
        Self {
            list: Lock::new(Vec::new()),
            interface: AtomicBool::new(false),
            loading: AtomicUsize::new(0),
            begun: AtomicBool::new(false),
            loaded: AtomicBool::new(false),
            user: UserSpace::new(),
        }
    }

    fn refresh(&self, from: &Surroundings<'_>) -> Result<Vec<HeldDevice>> {
        let user = self.user.refresh(from.user, from.make, from.complain);
        match self.refresh_kernel(from) {
            Ok(kernel) => Ok(kernel.into_iter().chain(user).collect()),
            // Missing kernel support or permission does not affect devices in user space.
            Err(Errno::NOSYS | Errno::PERM) if !user.is_empty() => Ok(user),
            Err(e) => Err(e),
        }
    }

    fn refresh_kernel(&self, from: &Surroundings<'_>) -> Result<Vec<HeldDevice>> {
        let mut list = self.list.lock();
        let scan = scan::scan(&from.places)?;
        self.check(&scan, &from.places)?;
        let (mut new, gone) = reconcile(&mut list, scan.devices);
        if self.has_all_to_choose_from() {
            new = attach(&mut list, new, from.drivers, from)?;
        }
        while !new.is_empty() && !self.loaded.load(Ordering::Relaxed) {
            self.load(&mut list, &new, from);
            new.retain(|found| !knows(&list, found));
            new = attach(&mut list, new, from.drivers, from)?;
        }
        new = attach(&mut list, new, from.last, from)?;
        let held = list.clone();
        drop(list);
        drop(gone);
        warn_of(&new);
        Ok(held)
    }

    /// Whether the providers that have registered are all that there are, or those that came
    /// with the program: not some of those to load, of which another may go first.
    fn has_all_to_choose_from(&self) -> bool {
        let none = !self.begun.load(Ordering::Relaxed) && self.loading.load(Ordering::Relaxed) == 0;
        none || self.loaded.load(Ordering::Relaxed)
    }

    /// Loads providers for the devices that have none: at first those that may be theirs, then
    /// all. This is done without the lock: their constructors call back into the library, and
    /// another thread may sit in one of them and wait for this list. A thread that wants the list
    /// meanwhile loads too, instead of waiting.
    fn load(&self, list: &mut Guard<'_, Vec<HeldDevice>>, new: &[Found], from: &Surroundings<'_>) {
        let drivers: Vec<u32> = new.iter().map(|found| found.driver_id).collect();
        let extent = self.extent(&drivers);
        self.loading.fetch_add(1, Ordering::Relaxed);
        Guard::unlocked(list, || (from.load)(extent));
        self.loading.fetch_sub(1, Ordering::Relaxed);
        self.begun.store(true, Ordering::Relaxed);
        let all = extent == Extent::All;
        self.loaded.fetch_or(all, Ordering::Relaxed);
    }

    /// Which providers to load for devices of these kernel drivers.
    fn extent<'a>(&self, drivers: &'a [u32]) -> Extent<'a> {
        match self.begun.load(Ordering::Relaxed) || drivers.contains(&0) {
            true => Extent::All,
            false => Extent::For(drivers),
        }
    }

    fn check(&self, scan: &scan::Scan, places: &Places) -> Result<()> {
        if scan.known_interface {
            self.interface.store(true, Ordering::Relaxed);
        }
        if scan.devices.is_empty() || self.interface.load(Ordering::Relaxed) {
            return Ok(());
        }
        scan::check_interface(places)?;
        self.interface.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// Keeps the devices that are still there. Returns those that were found and are not known, and
/// the references to those that are known and were not found.
fn reconcile(list: &mut Vec<HeldDevice>, found: Vec<Found>) -> (Vec<Found>, Vec<HeldDevice>) {
    let gone = list
        .extract_if(.., |held| !found.iter().any(|found| is(held, found)))
        .collect();
    let new = found.into_iter().filter(|found| !knows(list, found));
    (new.collect(), gone)
}

fn is(held: &HeldDevice, found: &Found) -> bool {
    held.device().sysfs().is_some_and(|sysfs| sysfs.is(found))
}

fn knows(list: &[HeldDevice], found: &Found) -> bool {
    list.iter().any(|held| is(held, found))
}

/// Puts every device that one of these providers takes at the front of the list, in the kernel's
/// order. Returns the others.
fn attach(
    list: &mut Vec<HeldDevice>,
    new: Vec<Found>,
    drivers: &dyn Fn() -> Vec<Driver>,
    from: &Surroundings<'_>,
) -> Result<Vec<Found>> {
    if new.is_empty() {
        return Ok(new);
    }
    let drivers = drivers();
    let (mut taken, mut rest) = (Vec::new(), Vec::new());
    for found in new {
        let dev_path = from.places.class_path(&found.sysfs_name);
        let modalias = || {
            let file = format!("{}/device/modalias", found.path);
            sysfs::text_at::<MODALIAS>(CWD, file).unwrap_or_default()
        };
        match load::matching::find(&drivers, &found, &dev_path, &modalias)? {
            Some(made) => taken.push(made),
            None => rest.push(found),
        }
    }
    list.splice(0..0, taken);
    Ok(rest)
}

fn warn_of(unmatched: &[Found]) {
    if unmatched.is_empty() || !config::is_set("IBV_SHOW_WARNINGS") {
        return;
    }
    for found in unmatched {
        let name = &found.name;
        warn(&format!(
            "Warning: no userspace device-specific driver found for {name}"
        ));
    }
}

#[cfg(test)]
mod tests;
