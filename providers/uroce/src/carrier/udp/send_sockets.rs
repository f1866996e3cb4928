//! The sockets that packets go out by.
//!
//! All receivers of a host share port 4791, and the kernel chooses between them by the addresses
//! and ports of a packet. Therefore the source port contains the destination slot: 0xc000 + slot.
//! Then all packets for one process of a host, from one process of another, go to the same socket
//! of the receiving host; and a process whose packets another one forwards can receive them
//! directly, by a socket connected to the sender's address and that port (see
//! [`super::connected`]).

use super::{PORT, Sockets, Tools, socket};
use crate::carrier::qpn;
use rustix::net::AddressFamily;
use std::collections::HashSet;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use kit::sync::Mutex;

/// The source port of packets for slot 0, and for peers whose numbers have no slots.
const FIRST: u16 = 0xc000;
/// Sockets opened at most; beyond, packets go out by port 4791 itself.
const MOST: usize = 64;
/// Destinations listed at most that take no runs; beyond, no runs are sent at all.
const REFUSALS: usize = 256;

/// The source port of packets for a slot.
#[must_use]
pub fn port(slot: u16) -> u16 {
    FIRST + slot
}

type Places = Box<[OnceLock<Option<OwnedFd>>]>;

/// Sockets by the slot that their port names, opened when first used.
#[derive(Debug)]
pub struct SendSockets {
    shared: Sockets,
    tools: Tools,
    v4: Places,
    v6: Places,
    open: AtomicUsize,
    refused: Mutex<HashSet<IpAddr>>,
    any_refused: AtomicBool,
}

impl SendSockets {
    /// With the sockets of port 4791 for destinations without a separate one.
    #[must_use]
    pub fn new(shared: Sockets, tools: Tools) -> Self {
        let places = || (0..=qpn::LAST + 1).map(|_| OnceLock::new()).collect();
        Self {
            shared,
            tools,
            v4: places(),
            v6: places(),
            open: AtomicUsize::new(0),
            refused: Mutex::new(HashSet::new()),
            any_refused: AtomicBool::new(false),
        }
    }

    /// The sockets of port 4791.
    #[must_use]
    pub fn shared(&self) -> &Sockets {
        &self.shared
    }

    /// The settings of the environment.
    #[must_use]
    pub fn tools(&self) -> &Tools {
        &self.tools
    }

    fn own(&self, destination: IpAddr, slot: u16) -> Option<BorrowedFd<'_>> {
        let (places, family) = match destination {
            IpAddr::V4(_) => (&self.v4, AddressFamily::INET),
            IpAddr::V6(_) => (&self.v6, AddressFamily::INET6),
        };
        let place = places.get(usize::from(slot))?;
        let own = place.get_or_init(|| {
            if self.open.fetch_add(1, Relaxed) >= MOST {
                return None;
            }
            // Another user may have it, or another program.
            socket::sending(family, port(slot)).ok()
        });
        own.as_ref().map(OwnedFd::as_fd)
    }

    /// The source port of packets to an address and a slot.
    pub fn port(&self, destination: IpAddr, slot: u16) -> u16 {
        match self.own(destination, slot) {
            Some(_) => port(slot),
            None => PORT,
        }
    }

    /// The socket of a source port; `None` without IPv6.
    pub fn socket(&self, destination: IpAddr, port: u16) -> Option<BorrowedFd<'_>> {
        let own = port.checked_sub(FIRST);
        own.and_then(|slot| self.own(destination, slot))
            .or_else(|| self.shared.of(destination).ok())
    }

    /// Whether runs can be sent to an address by one call.
    pub fn takes_runs(&self, destination: IpAddr) -> bool {
        if !self.any_refused.load(Relaxed) {
            return true;
        }
        let refused = self.refused.lock();
        refused.len() < REFUSALS && !refused.contains(&destination)
    }

    /// Notes that the kernel or an interface refused a run.
    pub fn refuse_runs(&self, destination: IpAddr) {
        let mut refused = self.refused.lock();
        if refused.len() < REFUSALS {
            refused.insert(destination);
        }
        self.any_refused.store(true, Relaxed);
    }
}
