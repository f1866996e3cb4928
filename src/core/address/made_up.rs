#![forbid(unsafe_code)]
//! A device for tests: a sysfs tree in a temporary folder, and a kernel that knows no ioctl or
//! refuses each with one errno.
#![allow(clippy::unwrap_used)]

use super::{Device, Port, open_folder, read_text};
use kit::errno::{Errno, Result};
use kit::sys::write::Request;
use kit::table::Private;
use kit::uverbs::{Ioctl, Kernel};
use std::{cell::Cell, fs, os::fd::OwnedFd, path::Path};

/// The device. Port 1 has Ethernet, port 2 InfiniBand.
pub struct MadeUp {
    folder: tempfile::TempDir,
    private: Private,
    /// The result of every ioctl.
    pub refusal: Cell<Errno>,
    /// GIDs of each port's table.
    pub gids: Cell<u32>,
}

impl MadeUp {
    /// A device without files, on a kernel without ioctls.
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            private: Private::new(0),
            refusal: Cell::new(Errno(libc::ENOTTY)),
            gids: Cell::new(4),
        }
    }

    /// Adds a file; the kernel puts a newline behind its text.
    pub fn file(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }
}

impl Kernel for MadeUp {
    fn private(&self) -> &Private {
        &self.private
    }

    fn ioctl(&self, _: &mut Ioctl<'_>) -> Result<()> {
        Err(self.refusal.get())
    }

    fn write(&self, _: &mut Request<'_>) -> Result<()> {
        Err(Errno::NOSYS)
    }
}

impl Device for MadeUp {
    fn read(&self, file: &str) -> Result<String> {
        read_text(&self.folder.path().join(file))
    }

    fn folder(&self, path: &str) -> Result<OwnedFd> {
        open_folder(&self.folder.path().join(path))
    }

    fn ports(&self) -> Result<u8> {
        Ok(2)
    }

    fn port(&self, port: u8) -> Result<Port> {
        let link_layer = match port {
            1 => 2,
            2 => 1,
            _ => return Err(Errno::INVAL),
        };
        Ok(Port {
            link_layer,
            gids: self.gids.get(),
        })
    }

    fn interface(&self, name: &str) -> Result<u32> {
        match name {
            "eth0" => Ok(7),
            _ => Err(Errno::NODEV),
        }
    }
}
