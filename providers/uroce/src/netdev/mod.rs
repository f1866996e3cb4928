//! The network interfaces of this process's network namespace: their present state, and
//! notifications of changes (rtnetlink(7)).
//!
//! [`Interface`] has index, MTU, Ethernet address, state, and the addresses that can be sent from.
//! A list that changed while it was read is read again. The contents of notifications are not read:
//! every notification means that the interfaces are listed again, which also repairs lost
//! notifications.

mod interface;
mod message;
pub mod neighbour;
pub mod route;
mod speed;

pub use interface::{Interface, Mac};

use kit::errno::{Errno, Result};
use kit::netlink::connection::Connection;
use kit::netlink::frame::Kind;
use message::{
    GET_ADDRESS, GET_LINK, GROUPS, address_of, addresses, interface_of, links, question,
};
use std::os::fd::{AsFd, BorrowedFd};

/// How often a list that changes while it is read is read again.
const ATTEMPTS: usize = 16;

/// All interfaces, as they are now.
///
/// # Errors
/// The kernel's: EMFILE, ENFILE, ENOMEM, or the error of a sandbox without routing netlink. EAGAIN
/// when they change faster than they are read.
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

/// Notifications of rtnetlink about changes. The descriptor can be read when there are some.
pub struct Notifications(Connection);

impl Notifications {
    /// Listens from here on for changes of interfaces and their addresses.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM, or the error of a sandbox without such notifications.
    pub fn listen() -> Result<Self> {
        Connection::open(None, GROUPS).map(Self)
    }

    /// The same for changes of neighbours.
    ///
    /// # Errors
    /// Those of [`Notifications::listen`].
    pub fn of_neighbours() -> Result<Self> {
        Connection::open(None, neighbour::GROUP).map(Self)
    }

    /// Takes all notifications that have come; whether there were any. Their contents are not
    /// reported: the kernel is asked for the present state, which also makes up for notifications
    /// that were lost.
    ///
    /// # Errors
    /// The kernel's.
    pub fn take(&mut self) -> Result<bool> {
        let mut any = false;
        loop {
            match self.0.next_datagram() {
                Ok(None) => return Ok(any),
                Ok(Some(_)) | Err(Errno(libc::ENOBUFS | libc::EMSGSIZE)) => any = true,
                Err(e) => return Err(e),
            }
        }
    }
}

impl AsFd for Notifications {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests;
