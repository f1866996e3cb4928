#![forbid(unsafe_code)]
//! What the kernel says about RDMA over netlink: its devices, their character devices, and
//! whether fork is safe for registered memory.

mod message;

pub use message::{CharDevice, DeviceInfo};

use kit::errno::{Errno, Result};
use message::{Attributes, Command, Progress};
use netlink_packet_core::DefaultNla;
use rustix::io::retry_on_intr;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::os::fd::OwnedFd;

/// The kernel sends lists in pieces of at most 32 KiB.
const DATAGRAM: usize = 32 * 1024;

/// A connection to the kernel's RDMA subsystem.
pub struct Client {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// EPROTONOSUPPORT when the kernel has no RDMA subsystem; EMFILE, ENFILE, ENOMEM.
    pub fn open() -> Result<Self> {
        let socket = net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(net::netlink::RDMA),
        )?;
        net::connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self {
            socket,
            sequence: 0,
            buffer: vec![0; DATAGRAM],
        })
    }

    /// The devices that this process may see, in the kernel's order. One that the kernel
    /// describes only in part is left out.
    ///
    /// # Errors
    /// The kernel's; EPROTO when its answer cannot be read.
    pub fn devices(&mut self) -> Result<Vec<DeviceInfo>> {
        let mut found = Vec::new();
        self.ask(Command::DeviceGet, true, &[], |attributes| {
            found.extend(attributes.device());
        })?;
        Ok(found)
    }

    /// The verbs character device of the device with that index.
    ///
    /// # Errors
    /// The kernel's: ENODEV when the device is gone, EINVAL when the kernel is older than
    /// the question (5.3). ENOENT when the answer says too little.
    pub fn uverbs(&mut self, index: u32) -> Result<CharDevice> {
        let attributes = [
            message::index_attribute(index),
            message::client_attribute("uverbs"),
        ];
        let mut found = None;
        self.ask(Command::CharDeviceGet, false, &attributes, |attributes| {
            found = attributes.char_device();
        })?;
        found.ok_or(Errno::NOENT)
    }

    fn ask(
        &mut self,
        command: Command,
        list: bool,
        attributes: &[DefaultNla],
        mut each: impl FnMut(Attributes),
    ) -> Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = message::request(command, list, self.sequence, attributes)?;
        retry_on_intr(|| net::send(&self.socket, &request, SendFlags::empty()))?;
        let sequence = self.sequence;
        loop {
            let datagram = self.receive()?;
            if message::read(datagram, sequence, &mut each)? == Progress::Complete {
                return Ok(());
            }
        }
    }

    /// One datagram. The kernel answers while it is asked, so this does not wait long.
    fn receive(&mut self) -> Result<&[u8]> {
        let (_, length) =
            retry_on_intr(|| net::recv(&self.socket, &mut self.buffer[..], RecvFlags::TRUNC))?;
        self.buffer.get(..length).ok_or(Errno(libc::EMSGSIZE))
    }
}

/// Whether the kernel copies pages that a device holds when a process forks, so that memory
/// needs no marking. A kernel that does not say so does not.
///
/// # Errors
/// Those of [`Client::open`], and the kernel's when it does not know the question.
pub fn copy_on_fork() -> Result<bool> {
    let mut copies = false;
    Client::open()?.ask(Command::SystemGet, false, &[], |attributes| {
        copies = attributes.copies_on_fork();
    })?;
    Ok(copies)
}
