//! Whether a route leads to an address (rtnetlink(7)).

use kit::errno::{Errno, Result};
use kit::netlink::connection::Connection;
use kit::netlink::frame::{Kind, Question};
use kit::netlink::route::{INET, INET6};
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
    let (fixed, attributes) = question(source, destination, interface);
    let question = Question {
        message: GET_ROUTE,
        kind: Kind::Single,
        fixed: &fixed,
        attributes: &attributes,
    };
    match kernel.ask(&question, |_, _| Ok(())) {
        Err(error @ Errno(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES)) => Err(error),
        _ => Ok(()),
    }
}

/// `struct rtmsg`, and the attributes.
fn question(source: IpAddr, destination: IpAddr, interface: u32) -> ([u8; 12], [DefaultNla; 3]) {
    const DESTINATION: u16 = 1;
    const SOURCE: u16 = 2;
    const OUTPUT: u16 = 4;
    let (family, bits) = if destination.is_ipv4() {
        (INET, 32)
    } else {
        (INET6, 128)
    };
    let mut fixed = [0; 12];
    let (address, flags) = fixed.split_at_mut(8);
    address.copy_from_slice(&[family, bits, bits, 0, 0, 0, 0, 0]);
    flags.copy_from_slice(&FIB_MATCH.to_ne_bytes());
    let attributes = [
        DefaultNla::new(DESTINATION, octets(destination)),
        DefaultNla::new(SOURCE, octets(source)),
        DefaultNla::new(OUTPUT, interface.to_ne_bytes().to_vec()),
    ];
    (fixed, attributes)
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
