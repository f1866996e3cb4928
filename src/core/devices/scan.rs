#![forbid(unsafe_code)]
//! Which devices there are: asked of the kernel over netlink, read from sysfs where the kernel is
//! too old to answer.

use crate::core::netlink::{CharDevice, Client, DeviceInfo};
use crate::core::sysfs;
use kit::abi::handle::Found;
use kit::abi::*;
use kit::errno::{Errno, Result};
use rustix::fs::{CWD, Dir, Mode, OFlags, makedev, openat, stat};
use std::os::fd::OwnedFd;

/// The folder of the character devices.
pub const CDEV_FOLDER: &str = "/dev/infiniband";
/// Bytes that the text files of a device are read into, NUL included.
const SMALL: usize = 32;
/// Versions of the verbs interface that the library speaks.
const INTERFACE: std::ops::RangeInclusive<u32> = 3..=6;

/// Where to look. Tests bring their own.
pub struct Places {
    /// Where sysfs is mounted.
    pub sysfs: String,
    /// The folder of the character devices.
    pub cdevs: String,
    /// Whether to ask over netlink first.
    pub netlink: bool,
}

impl Places {
    /// Those of this system.
    pub fn system() -> Self {
        Self {
            sysfs: sysfs::root().to_string_lossy().into_owned(),
            cdevs: CDEV_FOLDER.to_owned(),
            netlink: true,
        }
    }

    /// The folder of a character device in sysfs.
    pub fn class_path(&self, sysfs_name: &str) -> String {
        format!("{}/class/infiniband_verbs/{sysfs_name}", self.sysfs)
    }

    fn device_path(&self, name: &str) -> String {
        format!("{}/class/infiniband/{name}", self.sysfs)
    }

    /// Whether this process has the character device at all: in a container, devices of others
    /// are in sysfs but not below /dev.
    fn has_cdev(&self, sysfs_name: &str) -> bool {
        stat(format!("{}/{sysfs_name}", self.cdevs)).is_ok()
    }
}

/// The result of a scan.
pub struct Scan {
    /// The devices, in the kernel's order.
    pub devices: Vec<Found>,
    /// The kernel speaks a version of the interface that needs no check.
    pub known_interface: bool,
}

/// Looks for devices.
///
/// # Errors
/// ENOSYS when the kernel has no RDMA; EPERM when looking is not permitted; ENOMEM, EMFILE, ENFILE.
pub fn scan(places: &Places) -> Result<Scan> {
    if places.netlink
        && let Ok(scan) = by_netlink(places)
    {
        return Ok(scan);
    }
    by_sysfs(places)
}

/// Whether the kernel speaks a version of the verbs interface that the library knows.
///
/// # Errors
/// ENOSYS when it does not, or does not report a version.
pub fn check_interface(places: &Places) -> Result<()> {
    let folder = open_folder(&format!("{}/class/infiniband_verbs", places.sysfs));
    let version = folder
        .ok()
        .and_then(|folder| sysfs::text_at::<8>(folder, "abi_version"))
        .map(|text| sysfs::leading_number(&text))
        .ok_or(Errno::NOSYS)?;
    if INTERFACE.contains(&version) {
        return Ok(());
    }
    let newest = INTERFACE.end();
    crate::warn::warn(&format!(
        "Fatal: kernel ABI version {version} doesn't match library version {newest}."
    ));
    Err(Errno::NOSYS)
}

fn by_netlink(places: &Places) -> Result<Scan> {
    let mut client = Client::open()?;
    let mut scan = Scan {
        devices: Vec::new(),
        known_interface: false,
    };
    for info in client.devices()? {
        let cdev = client.uverbs(info.index);
        // The kernel reports the character device only since version 6 of the interface.
        scan.known_interface |= cdev.is_ok();
        let found = match cdev {
            Ok(cdev) => described(places, &info, cdev),
            Err(_) => read_uverbs(described_in_part(places, &info)),
        };
        scan.devices
            .extend(found.filter(|found| keep(places, found)));
    }
    Ok(scan)
}

fn described(places: &Places, info: &DeviceInfo, cdev: CharDevice) -> Option<Found> {
    Some(Found {
        cdev: makedev(cdev.major, cdev.minor),
        sysfs_name: cdev.name,
        abi: cdev.abi,
        driver_id: cdev.driver_id,
        ..described_in_part(places, info)?
    })
}

/// All but the character device.
fn described_in_part(places: &Places, info: &DeviceInfo) -> Option<Found> {
    Some(Found {
        sysfs_name: String::new(),
        cdev: 0,
        name: info.name.clone(),
        path: places.device_path(&info.name),
        guid: Some(info.guid),
        driver_id: 0,
        node_type: node_type(info.node_type.into()),
        index: Some(info.index.try_into().ok()?),
        ports: info.ports,
        abi: 0,
        created: (0, 0),
    })
}

/// The character device as sysfs shows it, below the device's own folder.
fn read_uverbs(part: Option<Found>) -> Option<Found> {
    let part = part?;
    let class = open_folder(&format!("{}/device/infiniband_verbs", part.path)).ok()?;
    let name = names(&class).into_iter().next()?;
    let folder = open_below(&class, &name).ok()?;
    read_cdev(&folder, name, part)
}

fn by_sysfs(places: &Places) -> Result<Scan> {
    let class = open_folder(&format!("{}/class/infiniband_verbs", places.sysfs));
    let class = class.map_err(class_error)?;
    let devices = names(&class)
        .into_iter()
        .filter_map(|name| read_device(places, &class, name))
        .filter(|found| keep(places, found))
        .collect();
    Ok(Scan {
        devices,
        known_interface: false,
    })
}

/// The errno for a class folder that cannot be opened: that it is missing means that the kernel
/// has no RDMA.
fn class_error(e: Errno) -> Errno {
    match e.raw() {
        libc::EACCES | libc::EPERM => Errno::PERM,
        libc::ENOMEM | libc::EMFILE | libc::ENFILE => e,
        _ => Errno::NOSYS,
    }
}

/// One entry of the class folder; none when it is no device, or one that is going away.
fn read_device(places: &Places, class: &OwnedFd, sysfs_name: String) -> Option<Found> {
    let folder = open_below(class, &sysfs_name).ok()?;
    let name = sysfs::text_at::<{ IBV_SYSFS_NAME_MAX as usize }>(&folder, "ibdev")?;
    if name.contains('/') {
        return None;
    }
    let path = places.device_path(&name);
    let own = open_folder(&path).ok()?;
    let kind = sysfs::text_at::<SMALL>(&own, "node_type");
    let part = Found {
        sysfs_name: String::new(),
        cdev: 0,
        name,
        path,
        guid: None,
        driver_id: 0,
        node_type: kind.map_or(IBV_NODE_UNKNOWN, |text| {
            node_type(sysfs::leading_number(&text))
        }),
        index: None,
        ports: 0,
        abi: 0,
        created: (0, 0),
    };
    read_cdev(&folder, sysfs_name, part)
}

/// Adds the attributes in the folder of the character device.
fn read_cdev(folder: &OwnedFd, sysfs_name: String, part: Found) -> Option<Found> {
    let made = stat(&*part.path).ok()?;
    let number = sysfs::text_at::<SMALL>(folder, "dev")?;
    let (major, minor) = number.trim().split_once(':')?;
    let abi = sysfs::text_at::<SMALL>(folder, "abi_version");
    Some(Found {
        sysfs_name,
        cdev: makedev(major.parse().ok()?, minor.parse().ok()?),
        abi: abi.map_or(0, |text| sysfs::leading_number(&text)),
        created: (made.st_mtime, i64::try_from(made.st_mtime_nsec).ok()?),
        ..part
    })
}

/// Whether a device can be used: its names fit where applications read them, and its character
/// device is there.
fn keep(places: &Places, found: &Found) -> bool {
    let fits = |text: &str, room: u32| u32::try_from(text.len()).is_ok_and(|len| len < room);
    fits(&found.name, IBV_SYSFS_NAME_MAX)
        && fits(&found.sysfs_name, IBV_SYSFS_NAME_MAX)
        && fits(&found.path, IBV_SYSFS_PATH_MAX)
        && fits(&places.class_path(&found.sysfs_name), IBV_SYSFS_PATH_MAX)
        && places.has_cdev(&found.sysfs_name)
}

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

fn open_folder(path: &str) -> Result<OwnedFd> {
    Ok(openat(CWD, path, FOLDER, Mode::empty())?)
}

fn open_below(folder: &OwnedFd, name: &str) -> Result<OwnedFd> {
    Ok(openat(folder, name, FOLDER, Mode::empty())?)
}

/// Names in a folder, in the order of the file system, without those that begin with a period.
fn names(folder: &OwnedFd) -> Vec<String> {
    let Ok(entries) = Dir::read_from(folder) else {
        return Vec::new();
    };
    entries
        .map_while(|entry| entry.ok())
        .filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned))
        .filter(|name| !name.starts_with('.'))
        .collect()
}

/// The node type of the API for one of the kernel (`enum rdma_node_type`).
fn node_type(kernel: u32) -> ibv_node_type {
    match kernel {
        1 => IBV_NODE_CA,
        2 => IBV_NODE_SWITCH,
        3 => IBV_NODE_ROUTER,
        4 => IBV_NODE_RNIC,
        5 => IBV_NODE_USNIC,
        6 => IBV_NODE_USNIC_UDP,
        7 => IBV_NODE_UNSPECIFIED,
        _ => IBV_NODE_UNKNOWN,
    }
}

#[cfg(test)]
mod tests;
