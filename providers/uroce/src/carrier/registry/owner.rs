//! The owner of a socket. Only processes of one user trust each other; a name proves nothing.

use super::Name;
use crate::named;
use kit::errno::{Errno, Result};
use kit::sys::datagram::passing;
use kit::sys::identity;
use rustix::net::{self, SocketAddrUnix, SocketType, UCred};
use rustix::process::{Gid, Uid, getpid};
use std::fs::read_to_string;
use std::os::fd::{AsFd, OwnedFd};

/// The number that the kernel shows for users without one in a user namespace, unless
/// `/proc/sys/kernel/overflowuid` contains another.
const OVERFLOW: u32 = 65534;

/// The user whose processes this one trusts: the effective one when the first device was opened.
#[derive(Clone, Copy, Debug)]
pub struct User {
    /// None if the kernel shows its number for others, too: then no process is trusted.
    number: Option<u32>,
    /// Named in messages where the kernel would name another.
    named: Option<UCred>,
}

impl User {
    /// That of this process.
    #[must_use]
    pub fn own() -> Self {
        let uid = Uid::from_raw(identity::effective_user());
        let named = (uid.as_raw() != identity::user()).then(|| UCred {
            pid: getpid(),
            uid,
            gid: Gid::from_raw(identity::effective_group()),
        });
        let number = is_unique(uid).then_some(uid.as_raw());
        Self { number, named }
    }

    /// A user that trusts no process.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self {
            number: None,
            named: None,
        }
    }

    /// Whether this is the user's number, as it is seen from here.
    #[must_use]
    pub fn is(&self, number: u32) -> bool {
        self.number == Some(number)
    }

    /// The user id that a message has to state as its sender, if the kernel would report another.
    #[must_use]
    pub fn named(&self) -> Option<UCred> {
        self.named
    }
}

/// Whether the kernel shows this number for one user only. In a user namespace all users without a
/// number there look the same.
fn is_unique(uid: Uid) -> bool {
    let overflow = read_to_string("/proc/sys/kernel/overflowuid");
    let overflow = overflow.ok().and_then(|text| text.trim().parse().ok());
    let map = || read_to_string("/proc/self/uid_map").unwrap_or_default();
    uid.as_raw() != overflow.unwrap_or(OVERFLOW) || maps_all(&map())
}

/// Whether a user namespace has a number for every user, as the first one has.
fn maps_all(map: &str) -> bool {
    map.split_ascii_whitespace().eq(["0", "0", "4294967295"])
}

/// Owner of a listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Our user's: the process's number, 0 if it is not to be seen from here.
    Ours(i32),
    /// Another user's.
    Stranger,
    /// There is no such socket.
    None,
    /// It has so many connections that wait that there is no room for another one.
    Unknown,
}

/// A connection to the socket of a name, of any owner.
///
/// # Errors
/// Of socket(2), connect(2): ECONNREFUSED without a listener, EAGAIN if its queue is full.
pub fn connect(kind: SocketType, to: &SocketAddrUnix) -> Result<OwnedFd> {
    let socket = named::socket(kind)?;
    net::connect(&socket, to)?;
    Ok(socket)
}

/// A connection to the socket of a name, if that is our user's.
///
/// # Errors
/// As of [`connect`]; EPERM if it is another user's.
pub fn connect_to_ours(
    kind: SocketType,
    to: &SocketAddrUnix,
    user: User,
) -> Result<(OwnedFd, i32)> {
    let socket = connect(kind, to)?;
    let peer = passing::peer(socket.as_fd())?;
    if !user.is(peer.uid) {
        return Err(Errno(libc::EPERM));
    }
    Ok((socket, peer.pid))
}

/// Finds the owner of a name. The kernel reports it at once; the connection need not be accepted.
///
/// # Errors
/// Of socket(2).
pub fn of(name: &Name, user: User) -> Result<Owner> {
    Ok(reach(name, user)?.0)
}

/// As [`of`], with the connection by which that was found out, if the socket is our user's.
///
/// # Errors
/// Of socket(2).
pub fn reach(name: &Name, user: User) -> Result<(Owner, Option<OwnedFd>)> {
    let owner = match connect_to_ours(name.kind(), &name.address()?, user) {
        Ok((socket, pid)) => return Ok((Owner::Ours(pid), Some(socket))),
        Err(Errno(libc::EAGAIN)) => Owner::Unknown,
        Err(Errno(libc::ECONNREFUSED)) => Owner::None,
        // A socket of another type.
        Err(Errno(libc::EPERM | libc::EPROTOTYPE)) => Owner::Stranger,
        Err(error) => return Err(error),
    };
    Ok((owner, None))
}

#[cfg(test)]
mod tests {
    use super::super::Token;
    use super::*;
    use rustix::net::{bind, listen};

    #[test]
    fn the_owner_of_a_listening_socket_is_known_and_a_full_queue_is_reported() {
        let user = User::own();
        let name = Name::Claim {
            slot: 1022,
            token: Token::random(),
        };
        assert_eq!(of(&name, user), Ok(Owner::None));
        let socket = named::socket(name.kind()).expect("a socket");
        bind(&socket, &name.address().expect("an address")).expect("bound");
        assert_eq!(of(&name, user), Ok(Owner::None));
        listen(&socket, 0).expect("listening");
        let pid = getpid().as_raw_nonzero().get();
        assert_eq!(of(&name, user), Ok(Owner::Ours(pid)));
        assert_eq!(of(&name, user), Ok(Owner::Unknown));
        let stranger = User::none();
        drop(socket);
        let socket = named::socket(name.kind()).expect("a socket");
        bind(&socket, &name.address().expect("an address")).expect("bound");
        listen(&socket, 0).expect("listening");
        assert_eq!(of(&name, stranger), Ok(Owner::Stranger));
    }

    #[test]
    fn a_number_shared_by_many_users_is_not_trusted() {
        assert!(maps_all("         0          0 4294967295\n"));
        assert!(!maps_all("         0       1000          1\n"));
        assert!(!maps_all(""));
        let own = User::own();
        assert!(
            !is_unique(Uid::from_raw(OVERFLOW))
                || maps_all(&read_to_string("/proc/self/uid_map").expect("a map"))
        );
        assert!(is_unique(Uid::from_raw(0)));
        assert!(
            own.number
                .is_none_or(|number| own.is(number) && !own.is(number ^ 1))
        );
    }
}
