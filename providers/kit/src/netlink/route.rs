#![forbid(unsafe_code)]
//! The common form of routing netlink messages (`linux/include/uapi/linux/rtnetlink.h`): a
//! structure, followed by attributes, with addresses of one of two families.

use crate::errno::{Errno, Result};
use netlink_packet_core::{NlaBuffer, NlasIterator};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `AF_INET` as the messages have it.
pub const INET: u8 = 2;
/// `AF_INET6` as the messages have it.
pub const INET6: u8 = 10;

/// The structure of `SIZE` bytes, and the attributes behind it.
///
/// # Errors
/// EPROTO when there are fewer bytes.
pub fn split<const SIZE: usize>(payload: &[u8]) -> Result<(&[u8; SIZE], &[u8])> {
    payload.split_first_chunk().ok_or(Errno::PROTO)
}

/// Calls `take` with number and value of each attribute.
///
/// # Errors
/// EPROTO when the bytes are no attributes; those of `take`.
pub fn attributes(bytes: &[u8], mut take: impl FnMut(u16, &[u8]) -> Result<()>) -> Result<()> {
    for nla in NlasIterator::new(bytes) {
        let nla: NlaBuffer<&[u8]> = nla.map_err(|_| Errno::PROTO)?;
        take(nla.kind(), nla.value())?;
    }
    Ok(())
}

/// An address of a family; none for families other than IPv4 and IPv6.
///
/// # Errors
/// EPROTO when it has the wrong length.
pub fn address(family: u8, value: &[u8]) -> Result<Option<IpAddr>> {
    Ok(Some(match family {
        INET => Ipv4Addr::from(exactly::<4>(value)?).into(),
        INET6 => Ipv6Addr::from(exactly::<16>(value)?).into(),
        _ => return Ok(None),
    }))
}

/// The value of an attribute of `SIZE` bytes.
///
/// # Errors
/// EPROTO when it has another length.
pub fn exactly<const SIZE: usize>(value: &[u8]) -> Result<[u8; SIZE]> {
    value.try_into().map_err(|_| Errno::PROTO)
}
