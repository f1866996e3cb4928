//! How the processes of a domain find each other: each listens at the abstract Unix socket
//! `\0uroce/<slot>/xrc/<user>/<device>:<inode>/<interface>`, a name that the kernel frees when the
//! process ends. Whether there is a domain is whether anybody listens.

use crate::carrier::udp::{Socket, slot};
use crate::named;
use kit::errno::{Errno, Result};
use rustix::io::Errno as SystemErrno;
use rustix::net::{self, SocketAddrUnix, SocketType, sockopt};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// What a domain is known by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The file's device and inode.
    pub inode: (u64, u64),
    /// The network interface, which names the RDMA device.
    pub interface: String,
}

/// Connections that wait.
const BACKLOG: i32 = 1024;
/// How long the names are waited for while another process opens the same domain.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSES: u32 = 5000;

fn socket() -> Result<OwnedFd> {
    named::socket(SocketType::SEQPACKET)
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

impl Key {
    fn name(&self, of: &str) -> Result<SocketAddrUnix> {
        let (device, inode) = self.inode;
        let (user, interface) = (user(), &self.interface);
        named::name(&format!(
            "uroce/{of}/xrc/{user}/{device:x}:{inode:x}/{interface}"
        ))
    }

    /// Keeps other processes from opening or leaving the domain until the result is dropped.
    ///
    /// # Errors
    /// EAGAIN if another is at it for 5 seconds.
    pub fn lock(&self) -> Result<Socket> {
        let socket = Socket::new(socket()?);
        let name = self.name("open")?;
        for _ in 0..PAUSES {
            match net::bind(&socket, &name) {
                Err(SystemErrno::ADDRINUSE) => std::thread::sleep(PAUSE),
                bound => return Ok(bound.map(|()| socket)?),
            }
        }
        Err(Errno::AGAIN)
    }

    /// Listens for others.
    ///
    /// # Errors
    /// Of socket(2), bind(2), listen(2).
    pub fn listen(&self, slot: u16) -> Result<Socket> {
        let socket = Socket::new(socket()?);
        net::bind(&socket, &self.name(&slot.to_string())?)?;
        net::listen(&socket, BACKLOG)?;
        Ok(socket)
    }

    /// Whether the process of a slot has the domain open.
    pub fn is_open_at(&self, slot: u16) -> bool {
        let (Ok(socket), Ok(name)) = (socket(), self.name(&slot.to_string())) else {
            return false;
        };
        // Of one that is there, the queue may be full.
        match net::connect(&socket, &name) {
            Ok(()) => true,
            Err(error) => error == SystemErrno::AGAIN,
        }
    }

    /// Connections to all who listen, by their slots.
    ///
    /// # Errors
    /// Of socket(2); EAGAIN if one of them has too many connections that wait.
    pub fn others(&self, own: u16) -> Result<Vec<(u16, OwnedFd)>> {
        let mut found = Vec::new();
        let mut next = socket()?;
        for slot in (1..=slot::LAST).filter(|slot| *slot != own) {
            match net::connect(&next, &self.name(&slot.to_string())?) {
                Err(SystemErrno::CONNREFUSED) => {}
                Err(error) => return Err(error.into()),
                Ok(()) => {
                    let connected = std::mem::replace(&mut next, socket()?);
                    if is_ours(&connected) {
                        found.push((slot, connected));
                    }
                }
            }
        }
        Ok(found)
    }
}

/// The next connection of this user's processes.
///
/// # Errors
/// EAGAIN if there is none.
pub fn accept(listening: &Socket) -> Result<OwnedFd> {
    loop {
        match net::accept_with(listening, named::FLAGS) {
            Ok(connected) if is_ours(&connected) => return Ok(connected),
            Ok(_) | Err(SystemErrno::INTR | SystemErrno::CONNABORTED) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn is_ours(connected: &OwnedFd) -> bool {
    sockopt::socket_peercred(connected).is_ok_and(|peer| peer.uid.as_raw() == user())
}
