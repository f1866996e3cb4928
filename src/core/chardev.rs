#![forbid(unsafe_code)]
//! Opening the character device of a device.
//!
//! The node is opened by its name if it has the expected device number, otherwise by number through
//! /dev/char. A missing node is awaited for up to 5 seconds, because udev may still be creating it.
//! EACCES is returned at once.

use crate::core::devices::CDEV_FOLDER;
use crate::core::wait::{Step, Wait};
use kit::abi::handle::DeviceRef;
use kit::errno::{Errno, Result};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{self, FileType, Mode, OFlags, fstat, major, minor};
use rustix::io::{read, retry_on_intr};
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
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
pub fn open(device: DeviceRef<'_>) -> Result<Step<Missing>> {
    let Some(sysfs) = device.sysfs() else {
        return Ok(Step::Done(None));
    };
    find(CDEV_FOLDER, BY_NUMBER, sysfs.sysfs_name(), sysfs.cdev())
}

/// `cdev` 0 is an unknown number: any character device of that name is taken.
fn find(folder: &str, by_number: &str, name: &CStr, cdev: u64) -> Result<Step<Missing>> {
    let by_name = attempt(&[folder.as_bytes(), b"/", name.to_bytes()].concat(), cdev);
    match by_name {
        Err(e) if cdev != 0 && may_come(e) => {
            let link = format!("{by_number}/{}:{}", major(cdev), minor(cdev));
            Missing::begin(by_number, link, cdev, e, PATIENCE)
        }
        other => other.map(|fd| Step::Done(Some(fd))),
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

/// A node that is not there yet. It is opened by `link` as soon as it is the device.
pub struct Missing {
    /// Reports each time that something is made in the folder of links.
    watch: OwnedFd,
    link: String,
    cdev: u64,
    /// Why it was not opened by its name.
    first: Errno,
    until: Instant,
}

impl Missing {
    fn begin(
        folder: &str,
        link: String,
        cdev: u64,
        first: Errno,
        patience: Duration,
    ) -> Result<Step<Self>> {
        let until = Instant::now() + patience;
        // The watch begins before the first attempt, so that no change is missed.
        let watch = watch(folder).map_err(|later| first_cause(first, later))?;
        let missing = Self {
            watch,
            link,
            cdev,
            first,
            until,
        };
        missing.attempt()
    }

    fn attempt(self) -> Result<Step<Self>> {
        match attempt(self.link.as_bytes(), self.cdev) {
            Ok(fd) => Ok(Step::Done(Some(fd))),
            Err(e) if may_come(e) && !self.left().is_zero() => Ok(Step::Waits(self)),
            Err(e) => Err(first_cause(self.first, e)),
        }
    }
}

impl Wait for Missing {
    type Answer = Option<OwnedFd>;

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    fn step(self) -> Result<Step<Self>> {
        drain(&self.watch)?;
        self.attempt()
    }
}

fn watch(folder: &str) -> Result<OwnedFd> {
    let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    inotify::add_watch(&watch, folder, WatchFlags::CREATE | WatchFlags::MOVED_TO)?;
    Ok(watch)
}

fn drain(watch: &OwnedFd) -> Result<()> {
    // Not on the stack: coroutines that open devices have little of it.
    let mut events = vec![0; 4096];
    match read(watch, &mut events) {
        Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests;
