//! Neighbours: the hosts of a link, whose link addresses the kernel asks for by ARP and NDP
//! (rtnetlink(7)).
//!
//! The kernel begins to ask when a packet waits for the answer; no privilege is needed to send one.

use super::route::{self, octets};
use kit::errno::Result;
use kit::netlink::connection::Connection;
use kit::netlink::frame::{Kind, Question};
use kit::netlink::route::{INET, INET6, split};
use netlink_packet_core::DefaultNla;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

/// `RTNLGRP_NEIGH` as a bit: the notifications of changes.
pub const GROUP: u32 = 1 << 2;
/// `RTM_GETNEIGH` for one entry (Linux 5.0).
const GET_NEIGHBOUR: u16 = 30;

/// What the kernel knows of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its link address.
    Known,
    /// The kernel has asked for its link address, and waits.
    Pending,
    /// It did not answer.
    Failed,
    /// There is no entry, or the kernel cannot be asked.
    Unknown,
}

/// A neighbour of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Neighbour {
    interface: u32,
    /// Its address, which may be a gateway's.
    address: IpAddr,
    /// The addresses of packets that it is to get.
    source: IpAddr,
    destination: IpAddr,
}

impl Neighbour {
    /// The one that packets from an address of an interface are sent to. `None` if there is none to
    /// wait for, and if the kernel cannot be asked.
    #[must_use]
    pub fn of(
        kernel: &mut Connection,
        source: IpAddr,
        destination: IpAddr,
        interface: u32,
    ) -> Option<Self> {
        let address = route::next_hop(kernel, source, destination, interface).ok()??;
        Some(Self {
            interface,
            address,
            source,
            destination,
        })
    }

    /// Its present state.
    #[must_use]
    pub fn state(&self, kernel: &mut Connection) -> State {
        self.ask(kernel).unwrap_or(State::Unknown)
    }

    fn ask(&self, kernel: &mut Connection) -> Result<State> {
        const DESTINATION: u16 = 1;
        let mut fixed = [0; 12];
        // struct ndmsg: the family, padding, the interface.
        fixed[0] = if self.address.is_ipv4() { INET } else { INET6 };
        fixed[4..8].copy_from_slice(&self.interface.to_ne_bytes());
        let question = Question {
            message: GET_NEIGHBOUR,
            kind: Kind::Single,
            fixed: &fixed,
            attributes: &[DefaultNla::new(DESTINATION, octets(self.address))],
        };
        let mut found = State::Unknown;
        kernel.ask(&question, |_, payload| {
            found = state_in(payload)?;
            Ok(())
        })?;
        Ok(found)
    }

    /// Has the kernel ask for the link address, if it does not know it: sends an empty datagram to
    /// a port of the destination.
    ///
    /// # Errors
    /// Of socket(2), bind(2), sendto(2).
    pub fn resolve(&self, port: u16) -> Result<()> {
        let scoped = |address, port| match address {
            IpAddr::V6(v6) if v6.is_unicast_link_local() => {
                SocketAddrV6::new(v6, port, 0, self.interface).into()
            }
            address => SocketAddr::new(address, port),
        };
        let family = match self.source {
            IpAddr::V4(_) => AddressFamily::INET,
            IpAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
        rustix::net::bind(&socket, &scoped(self.source, 0))?;
        let to = scoped(self.destination, port);
        rustix::net::sendto(&socket, &[], SendFlags::empty(), &to)?;
        Ok(())
    }
}

/// The state in an entry as the kernel reports it.
fn state_in(payload: &[u8]) -> Result<State> {
    /// `NUD_REACHABLE | STALE | DELAY | PROBE | NOARP | PERMANENT`
    const VALID: u16 = 0xde;
    /// `NUD_INCOMPLETE`
    const INCOMPLETE: u16 = 1;
    // struct ndmsg
    let ([_, _, _, _, _, _, _, _, low, high, _, _], _) = split::<12>(payload)?;
    let state = u16::from_ne_bytes([*low, *high]);
    Ok(match state {
        INCOMPLETE => State::Pending,
        state if state & VALID != 0 => State::Known,
        _ => State::Failed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::errno::Errno;

    #[test]
    fn states_are_those_of_the_kernel() {
        let entry = |state: u16| {
            let [low, high] = state.to_ne_bytes();
            state_in(&[2, 0, 0, 0, 3, 0, 0, 0, low, high, 0, 1])
        };
        for known in [0x02, 0x04, 0x08, 0x10, 0x40, 0x80] {
            assert_eq!(entry(known), Ok(State::Known), "{known:x}");
        }
        assert_eq!(entry(0x01), Ok(State::Pending));
        assert_eq!(entry(0x20), Ok(State::Failed));
        assert_eq!(entry(0), Ok(State::Failed));
        assert_eq!(state_in(&[0; 11]), Err(Errno::PROTO));
    }
}
