#![forbid(unsafe_code)]
//! Finding the character device.
//!
//! The kernel reports it over netlink, and loads the module for the query. If it does not answer,
//! sysfs is read; without sysfs, the usual name and version are assumed.

use kit::errno::{Errno, Result};
use kit::netlink::connection::Connection;
use kit::netlink::frame::{Kind, Question};
use kit::netlink::route::attributes;
use netlink_packet_core::DefaultNla;
use rustix::fs::{self, FileType, Mode, OFlags, fstat, major, minor};
use rustix::io::retry_on_intr;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::OnceLock;

/// Supported versions of the interface.
const VERSIONS: core::ops::RangeInclusive<u64> = 3..=4;

/// `RDMA_NL_NLDEV << 10 | RDMA_NLDEV_CMD_GET_CHARDEV`
const GET_CHARDEV: u16 = 5 << 10 | 15;
/// `RDMA_NLDEV_ATTR_CHARDEV_*`
mod attr {
    pub const TYPE: u16 = 69;
    pub const NAME: u16 = 70;
    pub const ABI: u16 = 71;
    pub const NUMBER: u16 = 72;
}

/// The character device.
#[derive(Debug, PartialEq, Eq)]
struct Node {
    name: String,
    /// The device number; 0 if unknown.
    number: u64,
    version: u64,
}

/// The device that was opened first. It is looked up again if it cannot be opened any more.
static FOUND: OnceLock<Node> = OnceLock::new();

/// Opens the device: a new event channel.
///
/// # Errors
/// EPERM if the kernel has another version of the interface; ENOENT without the device; EACCES,
/// EMFILE and other errors of open(2).
pub fn open() -> Result<i32> {
    if let Some(fd) = FOUND.get().and_then(|node| open_node(node).ok()) {
        return Ok(fd.into_raw_fd());
    }
    let node = ask().or_else(|_| look()).unwrap_or(Node {
        name: "rdma_cm".to_owned(),
        number: 0,
        version: *VERSIONS.end(),
    });
    if !VERSIONS.contains(&node.version) {
        return Err(Errno::PERM);
    }
    let fd = open_node(&node)?;
    let _ = FOUND.set(node);
    Ok(fd.into_raw_fd())
}

fn open_node(node: &Node) -> Result<OwnedFd> {
    let by_name = attempt(&format!("/dev/infiniband/{}", node.name), node.number);
    if node.number == 0 || by_name.is_ok() {
        return by_name;
    }
    let (major, minor) = (major(node.number), minor(node.number));
    match attempt(&format!("/dev/char/{major}:{minor}"), node.number) {
        Err(Errno::NOENT) => by_name,
        other => other,
    }
}

fn attempt(path: &str, number: u64) -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let fd = retry_on_intr(|| fs::open(path, flags, Mode::empty()))?;
    let info = fstat(&fd)?;
    let is_char = FileType::from_raw_mode(info.st_mode) == FileType::CharacterDevice;
    if is_char && (number == 0 || info.st_rdev == number) {
        return Ok(fd);
    }
    Err(Errno(libc::ENXIO))
}

fn ask() -> Result<Node> {
    let mut connection = Connection::open(Some(rustix::net::netlink::RDMA), 0)?;
    let client = [DefaultNla::new(attr::TYPE, b"rdma_cm\0".to_vec())];
    let question = Question {
        message: GET_CHARDEV,
        kind: Kind::Single,
        fixed: &[],
        attributes: &client,
    };
    let mut node = None;
    connection.ask(&question, |_, payload| {
        node = Some(read(payload)?);
        Ok(())
    })?;
    node.ok_or(Errno::NOENT)
}

fn read(payload: &[u8]) -> Result<Node> {
    let (mut name, mut number, mut version) = (String::new(), 0, *VERSIONS.end());
    let word = |value: &[u8]| -> Result<u64> {
        let bytes = value.first_chunk().ok_or(Errno::PROTO)?;
        Ok(u64::from_ne_bytes(*bytes))
    };
    attributes(payload, |kind, value| {
        match kind {
            attr::NAME => {
                let text = value.split(|&byte| byte == 0).next().unwrap_or_default();
                name = String::from_utf8(text.to_vec()).map_err(|_| Errno::PROTO)?;
            }
            // The upper half is reserved by the kernel.
            attr::ABI => version = word(value)? & u64::from(u32::MAX),
            attr::NUMBER => {
                // The kernel's form of a device number (`huge_encode_dev`).
                let raw = word(value)?;
                let low = |bits: u64| u32::try_from(bits).unwrap_or(0);
                number = rustix::fs::makedev(
                    low(raw >> 8 & 0xfff),
                    low(raw & 0xff | raw >> 12 & 0xf_ff00),
                );
            }
            _ => {}
        }
        Ok(())
    })?;
    if name.is_empty() || name.contains('/') {
        return Err(Errno::PROTO);
    }
    Ok(Node {
        name,
        number,
        version,
    })
}

fn look() -> Result<Node> {
    let root = std::env::var("SYSFS_PATH").unwrap_or_else(|_| "/sys".to_owned());
    let version = ["misc/rdma_cm", "infiniband_ucma"]
        .iter()
        .find_map(|folder| {
            let path = format!("{root}/class/{folder}/abi_version");
            std::fs::read_to_string(path).ok()?.trim().parse().ok()
        });
    Ok(Node {
        name: "rdma_cm".to_owned(),
        number: 0,
        version: version.ok_or(Errno::NOENT)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::Emitable;

    fn payload(attributes: &[DefaultNla]) -> Vec<u8> {
        let mut bytes = vec![0; attributes.buffer_len()];
        attributes.emit(&mut bytes);
        bytes
    }

    #[test]
    fn the_answer_is_read() {
        let name = |name: &[u8]| DefaultNla::new(attr::NAME, name.to_vec());
        let word = |kind, value: u64| DefaultNla::new(kind, value.to_ne_bytes().to_vec());
        let answer = [
            name(b"rdma_cm\0"),
            word(attr::ABI, 4),
            word(attr::NUMBER, 10 << 8 | 58),
        ];
        let node = Node {
            name: "rdma_cm".to_owned(),
            number: rustix::fs::makedev(10, 58),
            version: 4,
        };
        assert_eq!(read(&payload(&answer)), Ok(node));
        assert_eq!(read(&payload(&[])), Err(Errno::PROTO));
        assert_eq!(read(&payload(&[name(b"../x\0")])), Err(Errno::PROTO));
        let short = DefaultNla::new(attr::ABI, vec![1]);
        assert_eq!(read(&payload(&[short])), Err(Errno::PROTO));
    }

    #[test]
    fn a_file_that_is_no_device_is_refused() {
        assert_eq!(attempt("/dev/null", 1).map(drop), Err(Errno(libc::ENXIO)));
        assert_eq!(attempt("/nowhere", 0).map(drop), Err(Errno::NOENT));
    }
}
