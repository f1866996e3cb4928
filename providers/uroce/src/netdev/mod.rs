//! The network interfaces of this process's network namespace: what they are now, and the news
//! that something has changed (rtnetlink(7)).

mod message;
mod speed;

use kit::errno::{Errno, Result};
use kit::netlink::connection::Connection;
use kit::netlink::frame::Kind;
use message::{GET_ADDRESS, GET_LINK, NEWS, address_of, addresses, interface_of, links, question};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// An Ethernet address.
pub type Mac = [u8; 6];

/// How often a list that changes while it is read is read again.
const ATTEMPTS: usize = 16;

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its index, never used again in the same namespace while the system runs.
    pub index: u32,
    /// Bytes of the largest packet, IP header included.
    pub mtu: u32,
    /// Its Ethernet address; none where there is none, or one of all zeros.
    pub mac: Option<Mac>,
    /// It has been set up.
    pub up: bool,
    /// It is up and has a carrier.
    pub running: bool,
    /// Megabits a second, where it tells.
    pub speed: Option<u32>,
    /// The addresses that can be sent from, each once: those of IPv4, then of IPv6, those that reach further first.
    pub addresses: Vec<IpAddr>,
}

/// All interfaces, as they are now.
///
/// # Errors
/// The kernel's: EMFILE, ENFILE, ENOMEM, or what a sandbox answers that has no routing netlink.
/// EAGAIN when they change faster than they are read.
pub fn interfaces() -> Result<Vec<Interface>> {
    let mut kernel = Connection::open(None, 0)?;
    for _ in 0..ATTEMPTS {
        if let Some(found) = attempt(&mut kernel)? {
            return Ok(found);
        }
    }
    Err(Errno::AGAIN)
}

/// None when something changed meanwhile.
fn attempt(kernel: &mut Connection) -> Result<Option<Vec<Interface>>> {
    let mut found = Vec::new();
    kernel.ask(&question(GET_LINK, Kind::List, &links()), |_, payload| {
        found.extend(interface_of(payload)?);
        Ok(())
    })?;
    if kernel.interrupted() {
        return Ok(None);
    }
    let mut owned = Vec::new();
    kernel.ask(
        &question(GET_ADDRESS, Kind::List, &addresses()),
        |_, payload| {
            owned.extend(address_of(payload)?);
            Ok(())
        },
    )?;
    if kernel.interrupted() {
        return Ok(None);
    }
    for interface in &mut found {
        interface.speed = speed::of(interface);
    }
    give(&mut found, owned);
    Ok(Some(found))
}

/// Gives each interface its addresses.
fn give(interfaces: &mut [Interface], mut owned: Vec<message::Owned>) {
    owned.sort_by_key(|owned| (owned.address.is_ipv6(), owned.scope));
    for owned in owned {
        let owner = interfaces.iter_mut().find(|i| i.index == owned.interface);
        let Some(owner) = owner else { continue };
        if !owner.addresses.contains(&owned.address) {
            owner.addresses.push(owned.address);
        }
    }
}

/// News of changes. Its descriptor can be read when there are some.
pub struct News(Connection);

impl News {
    /// Listens from here on.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM, or what a sandbox answers that has no such news.
    pub fn listen() -> Result<Self> {
        Connection::open(None, NEWS).map(Self)
    }

    /// Takes all news that have come; whether there were any. What they say is not told: the
    /// interfaces are to be asked for again, which also makes up for news that were lost.
    ///
    /// # Errors
    /// The kernel's.
    pub fn take(&mut self) -> Result<bool> {
        let mut any = false;
        loop {
            match self.0.news() {
                Ok(None) => return Ok(any),
                Ok(Some(_)) | Err(Errno(libc::ENOBUFS | libc::EMSGSIZE)) => any = true,
                Err(e) => return Err(e),
            }
        }
    }
}

impl AsFd for News {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests;
