//! An open device as address queries see it.

use super::port::{query_device, query_port_sized};
use crate::core::address::{self, Failure, Port};
use kit::abi::handle::{Ctx, DeviceRef, SysfsView};
use kit::abi::{ibv_device_attr, ibv_port_attr};
use kit::errno::{Errno, Result};
use kit::sys::{errno::set as set_errno, write::Request};
use kit::table::Private;
use kit::uverbs::{Ioctl, Kernel};
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::ffi::{OsStr, c_int};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The device that a context was opened on.
#[derive(Clone, Copy)]
pub struct Device<'a>(pub Ctx<'a>);

impl<'a> Device<'a> {
    fn sysfs(self) -> Result<SysfsView<'a>> {
        // SAFETY: an open context holds its device.
        let device = unsafe { DeviceRef::from_raw((*self.0.as_ptr()).device) }?;
        device.sysfs().ok_or(Errno::INVAL)
    }

    /// Where something below the device's own folder is.
    fn path(self, below: &str) -> Result<PathBuf> {
        let own = Path::new(OsStr::from_bytes(self.sysfs()?.path().to_bytes()));
        Ok(own.join(below))
    }
}

impl Kernel for Device<'_> {
    fn private(&self) -> &Private {
        Kernel::private(&self.0)
    }

    fn ioctl(&self, call: &mut Ioctl<'_>) -> Result<()> {
        self.0.ioctl(call)
    }

    fn write(&self, request: &mut Request<'_>) -> Result<()> {
        self.0.write(request)
    }
}

impl address::Device for Device<'_> {
    fn read(&self, file: &str) -> Result<String> {
        address::read_text(&self.path(file)?)
    }

    fn folder(&self, path: &str) -> Result<OwnedFd> {
        address::open_folder(&self.path(path)?)
    }

    fn ports(&self) -> Result<u8> {
        let mut attr = MaybeUninit::<ibv_device_attr>::zeroed();
        // SAFETY: the context is open; all zeros is a valid value of the structure.
        unsafe {
            ok(query_device(self.0.as_ptr(), attr.as_mut_ptr()))?;
            Ok(attr.assume_init().phys_port_cnt)
        }
    }

    fn port(&self, port: u8) -> Result<Port> {
        let mut attr = MaybeUninit::<ibv_port_attr>::zeroed();
        let size = size_of::<ibv_port_attr>();
        // SAFETY: as above.
        let attr = unsafe {
            ok(query_port_sized(
                self.0.as_ptr(),
                port,
                attr.as_mut_ptr(),
                size,
            ))?;
            attr.assume_init()
        };
        Ok(Port {
            link_layer: attr.link_layer,
            gids: u32::try_from(attr.gid_tbl_len).unwrap_or(0),
        })
    }

    fn interface(&self, name: &str) -> Result<u32> {
        let socket = socket_with(
            AddressFamily::INET,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok(name_to_index(&socket, name)?)
    }
}

/// A provider's answer: 0 or an errno value.
fn ok(answer: c_int) -> Result<()> {
    match answer {
        0 => Ok(()),
        e => Err(Errno(e.saturating_abs())),
    }
}

/// 0, or the errno value that the call documents, with the reason in errno.
pub fn code(r: address::Answer<()>) -> c_int {
    r.map_or_else(
        |Failure { code, reason }| {
            set_errno(reason);
            code.raw()
        },
        |()| 0,
    )
}

/// The reason alone, for calls that answer -1 or NULL.
pub fn reason<T>(r: address::Answer<T>) -> Result<T> {
    r.map_err(|failure| failure.reason)
}
