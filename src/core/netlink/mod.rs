#![forbid(unsafe_code)]
//! The kernel's RDMA netlink: its devices, their character devices, and whether fork is safe for
//! registered memory.

mod message;

pub use message::{CharDevice, DeviceInfo};

use kit::errno::{Errno, Result};
use kit::netlink::connection::Connection;
use kit::netlink::frame::Kind;
use message::{Attributes, Command};
use netlink_packet_core::DefaultNla;

/// A connection to the kernel's RDMA subsystem.
pub struct Client(Connection);

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// EPROTONOSUPPORT when the kernel has no RDMA subsystem; EMFILE, ENFILE, ENOMEM.
    pub fn open() -> Result<Self> {
        Connection::open(Some(rustix::net::netlink::RDMA), 0).map(Self)
    }

    /// The devices that this process may see, in the kernel's order. One that the kernel
    /// describes only in part is left out.
    ///
    /// # Errors
    /// The kernel's; EPROTO when its answer cannot be read.
    pub fn devices(&mut self) -> Result<Vec<DeviceInfo>> {
        let mut found = Vec::new();
        self.ask(Command::DeviceGet, Kind::List, &[], |attributes| {
            found.extend(attributes.device());
        })?;
        Ok(found)
    }

    /// The verbs character device of the device with that index.
    ///
    /// # Errors
    /// The kernel's: ENODEV when the device was removed, EINVAL when the kernel is older than the
    /// request (5.3). ENOENT when the response is incomplete.
    pub fn uverbs(&mut self, index: u32) -> Result<CharDevice> {
        let attributes = [
            message::index_attribute(index),
            message::client_attribute("uverbs"),
        ];
        let mut found = None;
        self.ask(
            Command::CharDeviceGet,
            Kind::Single,
            &attributes,
            |attributes| {
                found = attributes.char_device();
            },
        )?;
        found.ok_or(Errno::NOENT)
    }

    fn ask(
        &mut self,
        command: Command,
        kind: Kind,
        attributes: &[DefaultNla],
        mut each: impl FnMut(Attributes),
    ) -> Result<()> {
        let question = message::question(command, kind, attributes);
        self.0.ask(&question, |_, payload| {
            each(Attributes::parse(payload)?);
            Ok(())
        })
    }
}

/// Whether the kernel copies pages that a device holds when a process forks, so that memory needs
/// no marks. A kernel that does not report this does not copy them.
///
/// # Errors
/// Those of [`Client::open`], and the kernel's when it does not know the question.
pub fn copy_on_fork() -> Result<bool> {
    let mut copies = false;
    Client::open()?.ask(Command::SystemGet, Kind::Single, &[], |attributes| {
        copies = attributes.copies_on_fork();
    })?;
    Ok(copies)
}
