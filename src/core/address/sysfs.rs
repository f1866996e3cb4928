#![forbid(unsafe_code)]
//! GID tables as sysfs shows them: `ports/<port>/gids/<index>` and, from Linux 4.5 on,
//! `ports/<port>/gid_attrs/{types,ndevs}/<index>`.

use super::{Device, Gid, Version, read_text_at};
use kit::errno::{Errno, Result};
use std::net::Ipv6Addr;
use std::os::fd::OwnedFd;
use std::path::Path;

/// The GID at a place in a port's table; all zeros when the place is unused.
///
/// # Errors
/// ENOENT when there is no such port or place; EINVAL when the text is no GID.
pub fn gid<D: Device + ?Sized>(device: &D, port: u8, index: u32) -> Result<Gid> {
    let text = device.read(&format!("ports/{port}/gids/{index}"))?;
    parse_gid(&text).ok_or(Errno::INVAL)
}

/// A port's GID table, to be read from one end to the other: it may have a thousand places, and the
/// way to each from the root of the file system is long.
pub struct Table(OwnedFd);

impl Table {
    /// The table of a port.
    ///
    /// # Errors
    /// ENOENT when there is no such port.
    pub fn open<D: Device + ?Sized>(device: &D, port: u8) -> Result<Self> {
        Ok(Self(device.folder(&format!("ports/{port}/gids"))?))
    }

    /// As [`gid`].
    ///
    /// # Errors
    /// Those of [`gid`].
    pub fn gid(&self, index: u32) -> Result<Gid> {
        let text = read_text_at(&self.0, Path::new(&index.to_string()))?;
        parse_gid(&text).ok_or(Errno::INVAL)
    }
}

/// Eight groups of hexadecimal digits with colons between.
fn parse_gid(text: &str) -> Option<Gid> {
    text.trim().parse().ok().map(|gid: Ipv6Addr| gid.octets())
}

/// How the GID at a place travels. Ports of InfiniBand, unused places and kernels that know
/// no types have the first version.
///
/// # Errors
/// ENOTSUP for a type that is not known; EFAULT when the kernel shows types but not this one;
/// else the kernel's.
pub fn version<D: Device + ?Sized>(device: &D, port: u8, index: u32) -> Result<Version> {
    match device.read(&format!("ports/{port}/gid_attrs/types/{index}")) {
        Ok(text) if text.is_empty() => without_version(device, port),
        Ok(text) => match text.as_str() {
            "IB/RoCE v1" => Ok(Version::V1),
            "RoCE v2" => Ok(Version::V2),
            _ => Err(Errno(libc::ENOTSUP)),
        },
        // How the kernel answers for ports without Ethernet and for unused places.
        Err(Errno::INVAL) => Ok(Version::V1),
        Err(_) => without_version(device, port),
    }
}

/// For a GID whose type sysfs does not show: a kernel that shows no types has only the first
/// version.
fn without_version<D: Device + ?Sized>(device: &D, port: u8) -> Result<Version> {
    match device.read(&format!("ports/{port}/gid_attrs")) {
        Err(Errno::NOENT) => Ok(Version::V1),
        // It is a folder, so it is there.
        Ok(_) | Err(Errno(libc::EISDIR)) => Err(Errno(libc::EFAULT)),
        Err(e) => Err(e),
    }
}

/// Index of the network interface behind the GID at a place; 0 when sysfs names none.
///
/// # Errors
/// ENODEV when the interface that is named is not in this network namespace.
pub fn interface<D: Device + ?Sized>(device: &D, port: u8, index: u32) -> Result<u32> {
    match device.read(&format!("ports/{port}/gid_attrs/ndevs/{index}")) {
        Ok(name) if !name.is_empty() => device.interface(&name),
        _ => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn gids() {
        let rxe = "fe80:0000:0000:0000:5054:00ff:fe12:3456";
        let mut expected = [0; 16];
        expected[..2].copy_from_slice(&[0xfe, 0x80]);
        expected[8..].copy_from_slice(&0x5054_00ff_fe12_3456_u64.to_be_bytes());
        assert_eq!(parse_gid(rxe), Some(expected));
        assert_eq!(
            parse_gid("0000:0000:0000:0000:0000:0000:0000:0000"),
            Some([0; 16])
        );
        for bad in [
            "",
            "fe80",
            "fe80:0000:0000:0000:5054:00ff:fe12",
            "x:0:0:0:0:0:0:0",
        ] {
            assert_eq!(parse_gid(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_gid_is_read_as_the_kernel_writes_it(gid in any::<Gid>()) {
            let groups: Vec<_> = gid
                .chunks(2)
                .map(|two| format!("{:02x}{:02x}", two[0], two[1]))
                .collect();
            prop_assert_eq!(parse_gid(&groups.join(":")), Some(gid));
        }
    }
}
