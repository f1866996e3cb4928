//! Whether a route leads to an address, and by which neighbour (rtnetlink(7)).

use kit::errno::{Errno, Result};
use kit::netlink::connection::Connection;
use kit::netlink::frame::{Kind, Question};
use kit::netlink::route::{INET, INET6, address, attributes, exactly, split};
use netlink_packet_core::DefaultNla;
use std::net::IpAddr;

/// `RTM_GETROUTE`.
const GET_ROUTE: u16 = 26;
/// `RTM_F_FIB_MATCH` (Linux 4.13): the entry of the table is asked for. Without it the kernel takes
/// whatever has no entry for a neighbour, if the interface is named. Older kernels do not look at
/// it.
const FIB_MATCH: u32 = 0x2000;

/// Looks for the way from an address of an interface to another, out by that interface. Neighbours
/// are not waited for.
///
/// # Errors
/// ENETUNREACH or EHOSTUNREACH if no route leads there, EACCES if one prohibits it. Where the
/// kernel cannot be asked there is no error: packets are lost then.
pub fn look_up(source: IpAddr, destination: IpAddr, interface: u32) -> Result<()> {
    let Ok(mut kernel) = Connection::open(None, 0) else {
        return Ok(());
    };
    let (fixed, attributes) = question((source, destination), interface, FIB_MATCH);
    match kernel.ask(&asked(&fixed, &attributes), |_, _| Ok(())) {
        Err(error @ Errno(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES)) => Err(error),
        _ => Ok(()),
    }
}

/// The neighbour that packets are sent to on that way: a gateway, or the destination. `None` for
/// addresses of this host, of groups and broadcast, and if another interface leads there.
///
/// # Errors
/// The kernel's.
pub fn next_hop(
    kernel: &mut Connection,
    source: IpAddr,
    destination: IpAddr,
    interface: u32,
) -> Result<Option<IpAddr>> {
    let (fixed, attributes) = question((source, destination), interface, 0);
    let mut found = None;
    kernel.ask(&asked(&fixed, &attributes), |_, payload| {
        found = next_hop_in(payload, destination, interface)?;
        Ok(())
    })?;
    Ok(found)
}

/// The neighbour in a route as the kernel reports it.
fn next_hop_in(payload: &[u8], destination: IpAddr, interface: u32) -> Result<Option<IpAddr>> {
    const OUTPUT: u16 = 4;
    const GATEWAY: u16 = 5;
    /// A gateway of the other family: the family, then the address.
    const VIA: u16 = 18;
    const UNICAST: u8 = 1;
    // struct rtmsg
    let ([family, _, _, _, _, _, _, kind, ..], rest) = split::<12>(payload)?;
    let (mut next, mut output) = (destination, None);
    attributes(rest, |attribute, value| {
        match (attribute, value) {
            (OUTPUT, value) => output = Some(u32::from_ne_bytes(exactly(value)?)),
            (GATEWAY, value) => next = address(*family, value)?.unwrap_or(next),
            (VIA, [low, high, value @ ..]) => {
                let family = u16::from_ne_bytes([*low, *high]);
                let family = u8::try_from(family).unwrap_or(0);
                next = address(family, value)?.unwrap_or(next);
            }
            _ => {}
        }
        Ok(())
    })?;
    let is_neighbour = *kind == UNICAST && output == Some(interface);
    Ok(is_neighbour.then_some(next))
}

fn asked<'a>(fixed: &'a [u8], attributes: &'a [DefaultNla]) -> Question<'a> {
    Question {
        message: GET_ROUTE,
        kind: Kind::Single,
        fixed,
        attributes,
    }
}

/// `struct rtmsg`, and the attributes.
fn question(
    (source, destination): (IpAddr, IpAddr),
    interface: u32,
    flags: u32,
) -> ([u8; 12], [DefaultNla; 3]) {
    const DESTINATION: u16 = 1;
    const SOURCE: u16 = 2;
    const OUTPUT: u16 = 4;
    let (family, bits) = if destination.is_ipv4() {
        (INET, 32)
    } else {
        (INET6, 128)
    };
    let mut fixed = [0; 12];
    let (front, place) = fixed.split_at_mut(8);
    front.copy_from_slice(&[family, bits, bits, 0, 0, 0, 0, 0]);
    place.copy_from_slice(&flags.to_ne_bytes());
    let attributes = [
        DefaultNla::new(DESTINATION, octets(destination)),
        DefaultNla::new(SOURCE, octets(source)),
        DefaultNla::new(OUTPUT, interface.to_ne_bytes().to_vec()),
    ];
    (fixed, attributes)
}

/// The bytes of an address as attributes have them.
pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A route of IPv4 by interface 3, of a type, with further attributes.
    fn route(kind: u8, more: &[u8]) -> Vec<u8> {
        let mut bytes = vec![2, 32, 0, 0, 254, 0, 0, kind, 0, 0, 0, 0];
        bytes.extend([8, 0, 4, 0, 3, 0, 0, 0]);
        bytes.extend(more);
        bytes
    }

    #[test]
    fn a_neighbour_is_the_destination_or_a_gateway() {
        let to: IpAddr = "10.8.0.5".parse().expect("an address");
        let next = |bytes: &[u8], interface| next_hop_in(bytes, to, interface);
        let gateway = [8, 0, 5, 0, 10, 9, 0, 2];
        let via = [10, 0, 18, 0, 2, 0, 10, 9, 0, 2, 0, 0];
        assert_eq!(next(&route(1, &[]), 3), Ok(Some(to)));
        for more in [&gateway[..], &via] {
            let answer = next(&route(1, more), 3);
            assert_eq!(answer, Ok("10.9.0.2".parse().ok()), "{more:?}");
        }
        assert_eq!(next(&route(1, &[]), 4), Ok(None), "another interface");
        for kind in [2, 3, 5] {
            assert_eq!(next(&route(kind, &[]), 3), Ok(None), "type {kind}");
        }
        assert_eq!(next(&[2; 11], 3), Err(Errno::PROTO));
        assert_eq!(next(&route(1, &[8, 0, 5, 0, 10]), 3), Err(Errno::PROTO));
    }
}
