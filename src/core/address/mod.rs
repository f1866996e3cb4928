#![forbid(unsafe_code)]
//! Addresses: GID and P_Key tables, address handles from completions, and the Ethernet address
//! behind a GID.
//!
//! All functions see an open device through one trait ([`Device`]), so the tests run on made-up
//! sysfs trees.
//!
//! - *Source* ([`table`]): the provider answers for a device in user space
//!   (`kit::provider::Edges`), the kernel for all others. The same holds for P_Keys and completion
//!   channels.
//! - *GID tables* ([`gid`]) come from the kernel's query (Linux 5.10 and later), otherwise from
//!   sysfs, which has less information: InfiniBand and RoCE v1 share a name there, so the port's
//!   link layer decides, and kernels without `gid_attrs` know one version only. A failure carries
//!   two numbers ([`Failure`]), because the calls return one and leave another in errno.
//! - *Address handles from completions* ([`grh`], [`handle`]): a pure function reads the 40 bytes
//!   in front of a datagram. Where IPv4 and IPv6 are both possible, the checksum of the IPv4 header
//!   decides. A GID index above 255 is EOVERFLOW, because an address handle cannot hold it.
//! - *Ethernet addresses of GIDs* ([`l2`]).

pub mod entry;
pub mod gid;
pub mod grh;
pub mod handle;
pub mod l2;
pub mod pkey;
pub mod sysfs;
pub mod table;

#[cfg(test)]
mod made_up;

use kit::errno::{Errno, Result};
use kit::uverbs::Kernel;
use rustix::fs::{CWD, Mode, OFlags, open, openat};
use rustix::io::{read, retry_on_intr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// The sixteen bytes of a GID, in network order.
pub type Gid = [u8; 16];

/// The GID of an empty table entry.
pub const EMPTY: Gid = [0; 16];

/// How a GID travels, as far as sysfs and address handles distinguish the kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// InfiniBand, or RoCE v1: the GRH is a separate header.
    V1,
    /// RoCE v2: IP and UDP headers replace the GRH.
    V2,
}

/// An open device, as address queries see it. Tests bring a made-up one.
pub trait Device: Kernel {
    /// The text of a file below the device's folder in sysfs, without a newline at its end;
    /// empty for an empty file.
    ///
    /// # Errors
    /// The kernel's; EPROTO when the contents are no text, or far longer than any attribute
    /// of an address.
    fn read(&self, file: &str) -> Result<String>;

    /// A folder below the device's, open: for files whose names differ in their ends alone.
    ///
    /// # Errors
    /// The kernel's.
    fn folder(&self, path: &str) -> Result<OwnedFd>;

    /// Number of ports; the first is port 1.
    ///
    /// # Errors
    /// Those of ibv_query_device(3).
    fn ports(&self) -> Result<u8>;

    /// The attributes of a port.
    ///
    /// # Errors
    /// Those of ibv_query_port(3).
    fn port(&self, port: u8) -> Result<Port>;

    /// Index of the network interface of that name.
    ///
    /// # Errors
    /// ENODEV when there is no such interface in this network namespace.
    fn interface(&self, name: &str) -> Result<u32>;
}

/// A port, as address queries see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// `IBV_LINK_LAYER_*`.
    pub link_layer: u8,
    /// Entries of its GID table.
    pub gids: u32,
}

/// A query that failed. The API reports failures of sysfs differently: some calls always return
/// EINVAL, and leave the reason in errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The result of a call that returns error numbers.
    pub code: Errno,
    /// The value of errno.
    pub reason: Errno,
}

/// Result of a query that may fail in two ways.
pub type Answer<T> = std::result::Result<T, Failure>;

impl From<Errno> for Failure {
    fn from(e: Errno) -> Self {
        Self { code: e, reason: e }
    }
}

impl Failure {
    /// A part of an entry that sysfs did not show.
    fn in_sysfs(reason: Errno) -> Self {
        Self {
            code: Errno::INVAL,
            reason,
        }
    }
}

/// A folder, as [`Device::folder`].
///
/// # Errors
/// As [`Device::folder`].
pub fn open_folder(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(retry_on_intr(|| open(path, flags, Mode::empty()))?)
}

/// The longest text that a file of an address may have, in bytes.
const TEXT: usize = 63;

/// The text of a file, as [`Device::read`].
///
/// # Errors
/// As [`Device::read`].
pub fn read_text(path: &Path) -> Result<String> {
    read_text_at(CWD, path)
}

/// The text of a file in an open folder.
///
/// # Errors
/// As [`Device::read`].
fn read_text_at(folder: impl AsFd, path: &Path) -> Result<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = retry_on_intr(|| openat(folder.as_fd(), path, flags, Mode::empty()))?;
    let mut buffer = [0; TEXT + 1];
    let length = retry_on_intr(|| read(&file, &mut buffer))?;
    let text = buffer.get(..length).filter(|text| text.len() <= TEXT);
    let text = std::str::from_utf8(text.ok_or(Errno::PROTO)?).map_err(|_| Errno::PROTO)?;
    Ok(text.strip_suffix('\n').unwrap_or(text).to_owned())
}
