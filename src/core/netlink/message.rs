#![forbid(unsafe_code)]
//! RDMA netlink messages: bytes in, values out. No socket here.
//!
//! Numbers are those of `linux/include/uapi/rdma/rdma_netlink.h`; integers are in the host's
//! byte order, strings end with a NUL.

use kit::errno::{Errno, Result};
use kit::netlink::frame::{Kind, Question};
use netlink_packet_core::{DefaultNla, NlasIterator, parse_u8, parse_u32, parse_u64};

/// Client number of the device commands, the upper part of a message type.
const NLDEV: u16 = 5;

/// A command of the device client (`RDMA_NLDEV_CMD_*`).
#[allow(clippy::enum_variant_names)] // the kernel's names
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Lists the devices.
    DeviceGet = 1,
    /// Asks for properties of the subsystem.
    SystemGet = 6,
    /// Asks for the character device of a device.
    CharDeviceGet = 15,
}

impl Command {
    const fn message_type(self) -> u16 {
        NLDEV << 10 | self as u16
    }
}

mod attr {
    //! `RDMA_NLDEV_ATTR_*`.
    pub const DEV_INDEX: u16 = 1;
    pub const DEV_NAME: u16 = 2;
    pub const PORT_INDEX: u16 = 3;
    pub const NODE_GUID: u16 = 6;
    pub const DEV_NODE_TYPE: u16 = 14;
    pub const CHARDEV_TYPE: u16 = 69;
    pub const CHARDEV_NAME: u16 = 70;
    pub const CHARDEV_ABI: u16 = 71;
    pub const CHARDEV: u16 = 72;
    pub const UVERBS_DRIVER_ID: u16 = 73;
    pub const COPY_ON_FORK: u16 = 93;
}

/// One device as the kernel describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Never reused while the system runs.
    pub index: u32,
    /// Name, for example `rxe0`.
    pub name: String,
    /// Number of ports.
    pub ports: u32,
    /// Node GUID.
    pub guid: u64,
    /// The kernel's node type (`enum rdma_node_type`).
    pub node_type: u8,
}

/// The character device of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CharDevice {
    /// Name below `/dev/infiniband` and the class folder, for example `uverbs0`.
    pub name: String,
    /// Version of the driver's own part of the command interface.
    pub abi: u32,
    /// Device number.
    pub major: u32,
    /// Device number.
    pub minor: u32,
    /// Kernel driver (`enum rdma_driver_id`), 0 when it is not known.
    pub driver_id: u32,
}

/// The attributes of one message that the library reads. Unknown ones are passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    index: Option<u32>,
    name: Option<String>,
    ports: Option<u32>,
    guid: Option<u64>,
    node_type: Option<u8>,
    chardev_name: Option<String>,
    chardev_abi: Option<u64>,
    chardev: Option<u64>,
    driver_id: Option<u32>,
    copy_on_fork: Option<u8>,
}

impl Attributes {
    /// Reads the payload of a message.
    ///
    /// # Errors
    /// EPROTO when the bytes are no attributes, or not of the expected sizes.
    pub fn parse(payload: &[u8]) -> Result<Self> {
        let mut found = Self::default();
        for nla in NlasIterator::new(payload) {
            let nla = nla.map_err(|_| Errno::PROTO)?;
            found.take(nla.kind(), nla.value())?;
        }
        Ok(found)
    }

    fn take(&mut self, kind: u16, value: &[u8]) -> Result<()> {
        match kind {
            attr::DEV_INDEX => self.index = Some(u32_of(value)?),
            attr::DEV_NAME => self.name = Some(string_of(value)?),
            attr::PORT_INDEX => self.ports = Some(u32_of(value)?),
            attr::NODE_GUID => self.guid = Some(u64_of(value)?),
            attr::DEV_NODE_TYPE => self.node_type = Some(u8_of(value)?),
            attr::CHARDEV_NAME => self.chardev_name = Some(string_of(value)?),
            attr::CHARDEV_ABI => self.chardev_abi = Some(u64_of(value)?),
            attr::CHARDEV => self.chardev = Some(u64_of(value)?),
            attr::UVERBS_DRIVER_ID => self.driver_id = Some(u32_of(value)?),
            attr::COPY_ON_FORK => self.copy_on_fork = Some(u8_of(value)?),
            _ => {}
        }
        Ok(())
    }

    /// The device that the message describes; none when a part of the description is missing.
    pub fn device(self) -> Option<DeviceInfo> {
        Some(DeviceInfo {
            index: self.index?,
            name: self.name?,
            ports: self.ports?,
            guid: self.guid?,
            node_type: self.node_type?,
        })
    }

    /// The character device that the message describes; none when a part is missing.
    pub fn char_device(self) -> Option<CharDevice> {
        let number = self.chardev?;
        Some(CharDevice {
            name: self.chardev_name.filter(|name| !name.is_empty())?,
            // The kernel keeps the upper half for later use.
            abi: low(self.chardev_abi?),
            major: low(number >> 8 & 0xfff),
            minor: low(number & 0xff | number >> 12 & 0xf_ff00),
            driver_id: self.driver_id.unwrap_or(0),
        })
    }

    /// Whether pinned pages are copied at fork. Kernels that do not copy do not send it.
    pub fn copies_on_fork(&self) -> bool {
        self.copy_on_fork.unwrap_or(0) != 0
    }
}

fn low(value: u64) -> u32 {
    (value & u64::from(u32::MAX)).try_into().unwrap_or(u32::MAX)
}

fn u8_of(value: &[u8]) -> Result<u8> {
    parse_u8(value).map_err(|_| Errno::PROTO)
}

fn u32_of(value: &[u8]) -> Result<u32> {
    parse_u32(value).map_err(|_| Errno::PROTO)
}

fn u64_of(value: &[u8]) -> Result<u64> {
    parse_u64(value).map_err(|_| Errno::PROTO)
}

fn string_of(value: &[u8]) -> Result<String> {
    let text = value.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8(text.to_vec()).map_err(|_| Errno::PROTO)
}

/// The index of a device, as an attribute of a request.
pub fn index_attribute(index: u32) -> DefaultNla {
    DefaultNla::new(attr::DEV_INDEX, index.to_ne_bytes().to_vec())
}

/// The kernel client whose character device is queried, as an attribute of a request.
pub fn client_attribute(client: &str) -> DefaultNla {
    let mut value = client.as_bytes().to_vec();
    value.push(0);
    DefaultNla::new(attr::CHARDEV_TYPE, value)
}

/// A question of the device client.
pub fn question(command: Command, kind: Kind, attributes: &[DefaultNla]) -> Question<'_> {
    Question {
        message: command.message_type(),
        kind,
        fixed: &[],
        attributes,
    }
}

#[cfg(test)]
mod tests;
