#![forbid(unsafe_code)]
//! The network of this process's namespace: asked over netlink, provoked by UDP.

use super::message::{self, Link, Neighbour, Route};
use super::{Found, Hop, Mac, Network, NextHop, unreachable};
use crate::core::wait::{Step, Wait};
use kit::errno::{Errno, Result};
use kit::netlink::connection::Connection;
use kit::netlink::frame::{self, Kind};
use kit::sys::ready::is_readable;
use rustix::io::retry_on_intr;
use rustix::net::{self, AddressFamily, SendFlags, SocketFlags, SocketType};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How often a neighbour is called, at most.
const CALLS: u32 = 11;
/// How long to wait after each call. All calls together take three seconds.
const PATIENCE: Duration = Duration::from_millis(3000 / CALLS as u64);
/// UDP port that discards its datagrams (RFC 863).
const DISCARD: u16 = 9;

/// A connection to the kernel's routing netlink.
pub struct Rtnetlink(Connection);

impl Rtnetlink {
    /// Connects.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM.
    pub fn open() -> Result<Self> {
        Connection::open(None, 0).map(Self)
    }

    /// The neighbour, if its Ethernet address is known by now.
    fn known(&mut self, hop: &Hop) -> Result<Option<Mac>> {
        let (fixed, attributes) = message::neighbours(hop.address, hop.interface);
        let question = message::question(message::GET_NEIGHBOUR, Kind::List, &fixed, &attributes);
        let mut found = None;
        self.0.ask(&question, |kind, payload| {
            found = found.or(address_in(hop, kind, payload)?);
            Ok(())
        })?;
        Ok(found)
    }
}

/// The Ethernet address of the neighbour, if the message contains it.
fn address_in(hop: &Hop, kind: u16, payload: &[u8]) -> Result<Option<Mac>> {
    if kind != message::NEW_NEIGHBOUR {
        return Ok(None);
    }
    let reported = Neighbour::parse(payload)?;
    let ours = reported.filter(|n| (n.interface, n.address) == (hop.interface, hop.address));
    Ok(ours.map(|neighbour| neighbour.mac))
}

impl Network for Rtnetlink {
    fn owners(&mut self, address: IpAddr) -> Result<Vec<u32>> {
        let fixed = message::addresses(address);
        let question = message::question(message::GET_ADDRESS, Kind::List, &fixed, &[]);
        let mut owners = Vec::new();
        self.0.ask(&question, |_, payload| {
            let owner = message::owner(payload)?;
            owners.extend(
                owner
                    .filter(|(own, _)| *own == address)
                    .map(|(_, index)| index),
            );
            Ok(())
        })?;
        Ok(owners)
    }

    fn route(&mut self, to: IpAddr, interface: u32) -> Result<Route> {
        let (fixed, attributes) = message::route(to, interface);
        let question = message::question(message::GET_ROUTE, Kind::Single, &fixed, &attributes);
        let mut found = None;
        self.0.ask(&question, |_, payload| {
            found = Some(Route::parse(payload)?);
            Ok(())
        })?;
        found.ok_or(Errno(libc::ENETUNREACH))
    }

    fn link(&mut self, interface: u32) -> Result<Link> {
        let fixed = message::link(interface);
        let question = message::question(message::GET_LINK, Kind::Single, &fixed, &[]);
        let mut found = None;
        self.0.ask(&question, |_, payload| {
            found = Some(Link::parse(payload)?);
            Ok(())
        })?;
        found.ok_or(Errno::NODEV)
    }

    fn neighbour(&mut self, hop: &Hop) -> Result<Option<Mac>> {
        self.known(hop)
    }
}

/// A search for a neighbour's Ethernet address.
pub struct Search {
    network: Rtnetlink,
    /// Notifications of the neighbour table.
    events: Connection,
    caller: Caller,
    hop: Hop,
    vlan: u16,
    /// How often the neighbour was called.
    calls: u32,
    next_call: Instant,
}

impl Search {
    /// Begins to search unless the neighbour is known.
    ///
    /// # Errors
    /// EHOSTUNREACH when the kernel does not let it be called.
    pub fn begin(network: Rtnetlink, found: Found) -> Result<Step<Self>> {
        match found {
            Found::Known(next_hop) => Ok(Step::Done(next_hop)),
            Found::Unknown(hop, vlan) => {
                let search = Self::of(network, hop, vlan).map_err(unreachable)?;
                Ok(Step::Waits(search))
            }
        }
    }

    fn of(network: Rtnetlink, hop: Hop, vlan: u16) -> Result<Self> {
        // Listening starts before the first call, so that no answer is missed.
        let events = Connection::open(None, message::NEIGHBOUR_GROUP)?;
        let caller = Caller::new(&hop)?;
        caller.call()?;
        Ok(Self {
            network,
            events,
            caller,
            hop,
            vlan,
            calls: 1,
            next_call: Instant::now() + PATIENCE,
        })
    }

    /// The neighbour's address, if the notifications that have arrived name it. The table may
    /// change all the time, so the reading ends with the time of a call.
    fn notified(&mut self) -> Result<Option<Mac>> {
        while is_readable(self.events.as_fd())? {
            match self.events.next_datagram() {
                Ok(datagram) => {
                    let found = reported(&self.hop, datagram.unwrap_or_default())?;
                    if found.is_some() {
                        return Ok(found);
                    }
                }
                // Some notifications were lost. The table contains their changes.
                Err(Errno(libc::ENOBUFS)) => return self.network.known(&self.hop),
                Err(e) => return Err(e),
            }
            if self.left().is_zero() {
                break;
            }
        }
        Ok(None)
    }

    /// The neighbour's address, if it was found by now; calls again when it is time.
    fn look(&mut self) -> Result<Option<Mac>> {
        let notified = self.notified()?;
        if notified.is_some() || !self.left().is_zero() {
            return Ok(notified);
        }
        let known = self.network.known(&self.hop)?;
        if known.is_none() {
            if self.calls == CALLS {
                return Err(Errno(libc::EHOSTUNREACH));
            }
            self.calls += 1;
            self.next_call = Instant::now() + PATIENCE;
            // The way may be broken for a moment only, so the next call decides.
            let _ = self.caller.call();
        }
        Ok(known)
    }
}

#[cfg(test)]
impl Search {
    /// How often the neighbour was called.
    pub fn calls(&self) -> u32 {
        self.calls
    }
}

impl Wait for Search {
    type Answer = NextHop;

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    fn left(&self) -> Duration {
        self.next_call.saturating_duration_since(Instant::now())
    }

    fn step(mut self) -> Result<Step<Self>> {
        let vlan = self.vlan;
        Ok(match self.look().map_err(unreachable)? {
            Some(mac) => Step::Done(NextHop { mac, vlan }),
            None => Step::Waits(self),
        })
    }
}

fn reported(hop: &Hop, datagram: &[u8]) -> Result<Option<Mac>> {
    for message in frame::messages(datagram) {
        let message = message?;
        if let Some(mac) = address_in(hop, message.message_type(), message.payload())? {
            return Ok(Some(mac));
        }
    }
    Ok(None)
}

/// Makes the kernel look for a neighbour: a datagram to it cannot leave before it is found.
struct Caller {
    socket: OwnedFd,
    to: SocketAddr,
}

impl Caller {
    fn new(hop: &Hop) -> Result<Self> {
        // A next hop of another family is called by sending to where the packet goes in the end.
        let same = hop.address.is_ipv4() == hop.destination.is_ipv4();
        let to = if same { hop.address } else { hop.destination };
        let family = match to {
            IpAddr::V4(_) => AddressFamily::INET,
            IpAddr::V6(_) => AddressFamily::INET6,
        };
        let socket = net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        net::bind(&socket, &at(hop.source, 0, hop.interface))?;
        Ok(Self {
            socket,
            to: at(to, DISCARD, hop.interface),
        })
    }

    /// Sends. An address of this host that the kernel is still checking for duplicates cannot
    /// send yet; that is no failure.
    fn call(&self) -> Result<()> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match retry_on_intr(|| net::sendto(&self.socket, b"H", flags, &self.to)) {
            Ok(_) | Err(rustix::io::Errno::ADDRNOTAVAIL | rustix::io::Errno::AGAIN) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}

/// A socket address; for IPv6 it contains the interface.
fn at(address: IpAddr, port: u16, interface: u32) -> SocketAddr {
    match address {
        IpAddr::V4(_) => SocketAddr::new(address, port),
        IpAddr::V6(address) => SocketAddrV6::new(address, port, 0, interface).into(),
    }
}
