#![forbid(unsafe_code)]
//! Opening the character device of a device.
//!
//! The node is opened by its name if it has the expected device number, otherwise by number through
//! /dev/char. A missing node is awaited for up to 5 seconds, because udev may still be creating it.
//! EACCES is returned at once.

use crate::core::devices::CDEV_FOLDER;
use kit::abi::handle::DeviceRef;
use kit::errno::{Errno, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{self, FileType, Mode, OFlags, fstat, major, minor};
use rustix::io::{read, retry_on_intr};
use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long udev may take to make a link for a device that has just appeared.
const PATIENCE: Duration = Duration::from_secs(5);
/// Where udev makes links by device number.
const BY_NUMBER: &str = "/dev/char";

/// Opens the character device: by its name, and where that is missing or another device, by its
/// number. One that is not there yet is waited for up to 5 seconds, in which udev may make it.
/// None for a device that a provider made by itself.
///
/// # Errors
/// EACCES when the user may not open it; ENOENT when it does not appear; ENXIO when the node is
/// that of another device; EMFILE, ENFILE and other errors of open(2).
pub fn open(device: DeviceRef<'_>) -> Result<Option<OwnedFd>> {
    let Some(sysfs) = device.sysfs() else {
        return Ok(None);
    };
    find(CDEV_FOLDER, BY_NUMBER, sysfs.sysfs_name(), sysfs.cdev()).map(Some)
}

/// `cdev` 0 is an unknown number: any character device of that name is taken.
fn find(folder: &str, by_number: &str, name: &CStr, cdev: u64) -> Result<OwnedFd> {
    let by_name = attempt(&[folder.as_bytes(), b"/", name.to_bytes()].concat(), cdev);
    match by_name {
        Err(e) if cdev != 0 && may_come(e) => {
            let link = format!("{by_number}/{}:{}", major(cdev), minor(cdev));
            wait_for(by_number, &link, cdev, PATIENCE).map_err(|later| first_cause(e, later))
        }
        other => other,
    }
}

/// Whether waiting can help: the node is missing, or still that of a device before this one.
fn may_come(e: Errno) -> bool {
    matches!(e.raw(), libc::ENOENT | libc::ENXIO | libc::ENODEV)
}

/// Without the folder of links there is nothing to learn from its absence.
fn first_cause(first: Errno, later: Errno) -> Errno {
    if later == Errno::NOENT { first } else { later }
}

/// # Errors
/// ENXIO when it is not the character device of that number.
fn attempt(path: &[u8], cdev: u64) -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let fd = retry_on_intr(|| fs::open(path, flags, Mode::empty()))?;
    let info = fstat(&fd)?;
    let is_char = FileType::from_raw_mode(info.st_mode) == FileType::CharacterDevice;
    if is_char && (cdev == 0 || info.st_rdev == cdev) {
        return Ok(fd);
    }
    Err(Errno(libc::ENXIO))
}

/// Opens `link` as soon as it is the device, each time that something is made in `folder`.
fn wait_for(folder: &str, link: &str, cdev: u64, patience: Duration) -> Result<OwnedFd> {
    let until = Instant::now() + patience;
    // The watch begins before the first attempt, so that no change is missed.
    let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    inotify::add_watch(&watch, folder, WatchFlags::CREATE | WatchFlags::MOVED_TO)?;
    loop {
        let refused = match attempt(link.as_bytes(), cdev) {
            Err(e) if may_come(e) => e,
            other => return other,
        };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || !changes(&watch, left)? {
            return Err(refused);
        }
    }
}

/// Waits until the watch reports something, and drains it. False when the time is over; a signal
/// counts as a report.
fn changes(watch: &OwnedFd, patience: Duration) -> Result<bool> {
    let timeout = Timespec::try_from(patience).map_err(|_| Errno::INVAL)?;
    let mut fds = [PollFd::new(watch, PollFlags::IN)];
    match poll(&mut fds, Some(&timeout)) {
        Ok(0) => return Ok(false),
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(e) => return Err(e.into()),
    }
    // Not on the stack: coroutines that open devices have little of it.
    let mut events = vec![0; 4096];
    match read(watch, &mut events) {
        Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(true),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests;
