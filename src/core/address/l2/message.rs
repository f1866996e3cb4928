#![forbid(unsafe_code)]
//! Routing netlink messages: bytes in, values out. No socket here.
//!
//! Structures and numbers are those of `linux/include/uapi/linux/`: `rtnetlink.h`,
//! `if_addr.h`, `if_link.h`, `neighbour.h`.

use super::mac::Mac;
use kit::errno::{Errno, Result};
use kit::netlink::frame::{Kind, Question};
use kit::netlink::route::{INET, INET6, address, attributes, split};
use netlink_packet_core::{DefaultNla, parse_u16};
use std::net::IpAddr;

/// Multicast group of changes in the neighbour table, as a bit (`RTNLGRP_NEIGH`).
pub const NEIGHBOUR_GROUP: u32 = 1 << 2;

/// `RTM_NEWNEIGH`: a neighbour is new, or has changed.
pub const NEW_NEIGHBOUR: u16 = 28;

fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => INET,
        IpAddr::V6(_) => INET6,
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// An Ethernet address; none for link addresses of other lengths, and for an interface that
/// has none.
fn ethernet(value: &[u8]) -> Option<Mac> {
    value.try_into().ok()
}

/// Asks for the addresses of all interfaces (`RTM_GETADDR`), of the family of `like`.
pub fn addresses(like: IpAddr) -> Vec<u8> {
    // struct ifaddrmsg
    vec![family(like), 0, 0, 0, 0, 0, 0, 0]
}

/// Message type of the question for addresses.
pub const GET_ADDRESS: u16 = 22;

/// Reads an answer: an address and the interface that has it.
///
/// # Errors
/// EPROTO when it cannot be read.
pub fn owner(payload: &[u8]) -> Result<Option<(IpAddr, u32)>> {
    const ADDRESS: u16 = 1;
    const LOCAL: u16 = 2;
    let ([family, _, _, _, index @ ..], rest) = split::<8>(payload)?;
    let (mut own, mut peer) = (None, None);
    attributes(rest, |kind, value| {
        match kind {
            // Of a point-to-point interface this is the other end's.
            ADDRESS => peer = address(*family, value)?,
            LOCAL => own = address(*family, value)?,
            _ => {}
        }
        Ok(())
    })?;
    let index = u32::from_ne_bytes(*index);
    Ok(own.or(peer).map(|address| (address, index)))
}

/// A route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// `RTN_*`.
    pub kind: u8,
    /// The next hop, when the destination is behind one.
    pub gateway: Option<IpAddr>,
}

impl Route {
    /// Whether the destination is this host.
    pub fn is_local(&self) -> bool {
        const LOCAL: u8 = 2;
        self.kind == LOCAL
    }

    /// Whether nothing can be sent this way: black hole, unreachable, prohibited, throw.
    pub fn forbids(&self) -> bool {
        matches!(self.kind, 6..=9)
    }

    /// Reads an answer to [`route`].
    ///
    /// # Errors
    /// EPROTO when it cannot be read.
    pub fn parse(payload: &[u8]) -> Result<Self> {
        const GATEWAY: u16 = 5;
        const VIA: u16 = 18;
        let ([family, _, _, _, _, _, _, kind, ..], rest) = split::<12>(payload)?;
        let mut route = Self {
            kind: *kind,
            gateway: None,
        };
        attributes(rest, |attribute, value| {
            match attribute {
                GATEWAY => route.gateway = address(*family, value)?,
                // The next hop has an address of another family.
                VIA => route.gateway = via(value)?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(route)
    }
}

/// `struct rtvia`.
fn via(value: &[u8]) -> Result<Option<IpAddr>> {
    let (family, value) = split::<2>(value)?;
    match u8::try_from(u16::from_ne_bytes(*family)) {
        Ok(family) => address(family, value),
        Err(_) => Ok(None),
    }
}

/// Message type of the question for a route.
pub const GET_ROUTE: u16 = 26;

/// Asks for the route to `to` through an interface: the structure, and the attributes.
pub fn route(to: IpAddr, interface: u32) -> (Vec<u8>, [DefaultNla; 2]) {
    const DESTINATION: u16 = 1;
    const OUTPUT: u16 = 4;
    let to_octets = octets(to);
    let bits = if to.is_ipv4() { 32 } else { 128 };
    // struct rtmsg
    let fixed = vec![family(to), bits, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let attributes = [
        DefaultNla::new(DESTINATION, to_octets),
        DefaultNla::new(OUTPUT, interface.to_ne_bytes().to_vec()),
    ];
    (fixed, attributes)
}

/// An interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Its Ethernet address.
    pub mac: Option<Mac>,
    /// Its VLAN, when it is one; 12 bits.
    pub vlan: Option<u16>,
}

impl Link {
    /// Reads an answer to [`link`].
    ///
    /// # Errors
    /// EPROTO when it cannot be read.
    pub fn parse(payload: &[u8]) -> Result<Self> {
        const ADDRESS: u16 = 1;
        const INFO: u16 = 18;
        let (_, rest) = split::<16>(payload)?;
        let mut link = Self::default();
        attributes(rest, |kind, value| {
            match kind {
                ADDRESS => link.mac = ethernet(value),
                INFO => link.vlan = vlan(value)?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(link)
    }
}

/// The VLAN in the description of an interface's kind.
fn vlan(info: &[u8]) -> Result<Option<u16>> {
    const KIND: u16 = 1;
    const DATA: u16 = 2;
    let (mut is_vlan, mut id) = (false, None);
    attributes(info, |kind, value| {
        match kind {
            KIND => is_vlan = value == b"vlan\0",
            DATA if is_vlan => id = vlan_id(value)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(id.filter(|id| *id <= 0xfff))
}

fn vlan_id(data: &[u8]) -> Result<Option<u16>> {
    const ID: u16 = 1;
    let mut id = None;
    attributes(data, |kind, value| {
        if kind == ID {
            id = Some(parse_u16(value).map_err(|_| Errno::PROTO)?);
        }
        Ok(())
    })?;
    Ok(id)
}

/// Message type of the question for an interface.
pub const GET_LINK: u16 = 18;

/// Asks for an interface.
pub fn link(interface: u32) -> Vec<u8> {
    // struct ifinfomsg
    let mut fixed = vec![0; 16];
    for (place, byte) in fixed.iter_mut().skip(4).zip(interface.to_ne_bytes()) {
        *place = byte;
    }
    fixed
}

/// A neighbour whose Ethernet address is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The interface that it is behind.
    pub interface: u32,
    /// Its address.
    pub address: IpAddr,
    /// Its Ethernet address.
    pub mac: Mac,
}

/// Message type of the question for neighbours.
pub const GET_NEIGHBOUR: u16 = 30;

/// Asks for the neighbours, of the family of `like`, behind an interface. Kernels before 4.4
/// answer with all interfaces' neighbours.
pub fn neighbours(like: IpAddr, interface: u32) -> (Vec<u8>, [DefaultNla; 1]) {
    const INTERFACE: u16 = 8;
    // struct ndmsg
    let fixed = vec![family(like), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let index = interface.to_ne_bytes().to_vec();
    (fixed, [DefaultNla::new(INTERFACE, index)])
}

impl Neighbour {
    /// Parses a response to [`neighbours`], or a notification. None while the neighbour's Ethernet
    /// address is unknown, and for other messages than neighbours of IPv4 and IPv6.
    ///
    /// # Errors
    /// EPROTO when it cannot be read.
    pub fn parse(payload: &[u8]) -> Result<Option<Self>> {
        const DESTINATION: u16 = 1;
        const LINK_ADDRESS: u16 = 2;
        let ([family, _, _, _, i0, i1, i2, i3, ..], rest) = split::<12>(payload)?;
        let (mut destination, mut mac) = (None, None);
        attributes(rest, |kind, value| {
            match kind {
                DESTINATION => destination = address(*family, value)?,
                LINK_ADDRESS => mac = ethernet(value),
                _ => {}
            }
            Ok(())
        })?;
        Ok(destination.zip(mac).map(|(address, mac)| Self {
            interface: u32::from_ne_bytes([*i0, *i1, *i2, *i3]),
            address,
            mac,
        }))
    }
}

/// A question, from its parts.
pub fn question<'a>(
    message: u16,
    kind: Kind,
    fixed: &'a [u8],
    attributes: &'a [DefaultNla],
) -> Question<'a> {
    Question {
        message,
        kind,
        fixed,
        attributes,
    }
}

#[cfg(test)]
mod tests;
