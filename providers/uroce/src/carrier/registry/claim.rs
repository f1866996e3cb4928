//! Claiming a slot: executes the requests of [`super::election`] with sockets.

use super::election::{Claimant, Rival, Sight, Step};
use super::listing::{self, Listening};
use super::name::{self, LAST, ProcessName};
use super::owner::{self, Owner};
use super::{Name, Token, User};
use crate::named::{self, Socket};
use kit::errno::{Errno, Result};
use kit::sys::datagram::passing;
use rustix::io::{Errno as SystemErrno, fcntl_dupfd_cloexec};
use rustix::net::{self, SocketAddrUnix, SocketType};
use std::hash::{BuildHasher, RandomState};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

/// Connections that wait to be accepted.
pub(super) const BACKLOG: i32 = 4096;
/// Slots that are probed before one is tried.
const PROBED: u64 = 256;
/// How long others are waited for, each time.
const PAUSE: Duration = Duration::from_millis(1);

/// The sockets of a process that has a slot.
#[derive(Debug)]
pub(super) struct Claimed {
    /// Its name is the proof for the others. Closed first.
    pub listener: Socket,
    pub packets: Socket,
    pub rendezvous: Option<Socket>,
    pub name: ProcessName,
}

/// Claims a slot; with a rendezvous socket if that is wanted.
///
/// # Errors
/// EADDRNOTAVAIL if all are taken; of socket(2), bind(2), listen(2).
pub(super) fn claim(user: User, rendezvous: bool) -> Result<Claimed> {
    let random = RandomState::new().hash_one(std::process::id());
    let (mut claimant, mut step) = Claimant::begin(LAST, random, promising(random));
    let mut claim: Option<(u16, Token, Socket)> = None;
    let mut claimed = None;
    loop {
        step = match step {
            Step::Bind(slot) => {
                // The one before goes first.
                drop(claim.take());
                let token = Token::random();
                claim = Some((slot, token, listen(&Name::Claim { slot, token })?));
                claimant.bound(token)
            }
            Step::Look { everything } => claimant.saw(&look(&claim, user, everything)?),
            Step::LookAgain => {
                kit::sys::sched::sleep(PAUSE);
                claimant.saw(&look(&claim, user, false)?)
            }
            Step::Acquire { alone } => {
                let (slot, ..) = claim.as_ref().ok_or(Errno::INVAL)?;
                claimed = acquire(*slot, rendezvous, alone)?;
                claimant.acquired(claimed.is_some())
            }
            Step::Done(_) => return claimed.ok_or(Errno::INVAL),
            Step::Fail => return Err(Errno(libc::EADDRNOTAVAIL)),
        };
    }
}

/// A slot whose name without a token is unused, if one is found soon: most likely the slot is free,
/// and names are listed only once.
fn promising(random: u64) -> Option<u16> {
    let mut slots = (0..PROBED).map(|step| 1 + (random >> 16).wrapping_add(step) % u64::from(LAST));
    let is_free = |slot: &u64| {
        let name = u16::try_from(*slot).map(|slot| named::name(&name::packets(slot, None)));
        let Ok(Ok(name)) = name else {
            return false;
        };
        let connected = owner::connect(SocketType::DGRAM, &name);
        connected.err() == Some(Errno(libc::ECONNREFUSED))
    };
    slots
        .find(is_free)
        .and_then(|slot| u16::try_from(slot).ok())
}

/// A socket that listens by a name.
///
/// # Errors
/// Of socket(2), bind(2), listen(2).
pub fn listen(name: &Name) -> Result<Socket> {
    listen_at(name.kind(), &name.address()?)
}

/// A socket of a kind that listens by a name.
///
/// # Errors
/// Of socket(2), bind(2), listen(2).
pub fn listen_at(kind: SocketType, address: &SocketAddrUnix) -> Result<Socket> {
    let socket = Socket::new(named::socket(kind)?);
    net::bind(&socket, address)?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn look(claim: &Option<(u16, Token, Socket)>, user: User, everything: bool) -> Result<Sight> {
    let Some((slot, token, _)) = claim else {
        return Ok(Sight::default());
    };
    let own = Name::Claim {
        slot: *slot,
        token: *token,
    };
    match listing::listening() {
        Ok(names) => sight(&names, own, user, everything),
        Err(_) => Ok(Sight {
            is_blind: true,
            ..Sight::default()
        }),
    }
}

/// The meaning of names for the process that has bound `own`.
fn sight(names: &[Listening], own: Name, user: User, everything: bool) -> Result<Sight> {
    let mut sight = Sight::default();
    for Listening { name, user: whose } in names {
        let Some(name) = Name::parse(name).filter(|name| *name != own) else {
            continue;
        };
        let Some(rival) = rival(&name) else {
            continue;
        };
        let is_here = name.slot() == own.slot();
        let owner = match whose {
            Some(whose) if user.is(*whose) => Owner::Ours(0),
            Some(_) => Owner::Stranger,
            None if is_here || everything => owner::of(&name, user)?,
            None => Owner::Unknown,
        };
        let rival = match owner {
            Owner::Ours(_) => rival,
            Owner::Unknown => Rival::Unknown,
            Owner::Stranger | Owner::None => continue,
        };
        if is_here {
            sight.rivals.push(rival);
        }
        let slots = match rival {
            Rival::Unknown => &mut sight.unclear,
            _ => &mut sight.taken,
        };
        slots.insert(name.slot());
    }
    Ok(sight)
}

/// The claim of a name to its slot, if any.
fn rival(name: &Name) -> Option<Rival> {
    match name {
        Name::Claim { token, .. } => Some(Rival::Claiming(*token)),
        Name::Process(_) | Name::Kept { .. } | Name::Statistics { token: None, .. } => {
            Some(Rival::Owner)
        }
        Name::Successor { .. } | Name::Statistics { .. } => None,
    }
}

/// Binds the names of a process that has the slot: the one that contains the others last, because
/// no other process can know those before. `None` if `alone`, and the name without a token is in
/// use.
fn acquire(slot: u16, rendezvous: bool, alone: bool) -> Result<Option<Claimed>> {
    let datagrams = || -> Result<OwnedFd> {
        let socket = named::socket(SocketType::DGRAM)?;
        passing::ask_for_senders(socket.as_fd())?;
        Ok(socket)
    };
    let socket = datagrams()?;
    let packets = match net::bind(&socket, &named::name(&name::packets(slot, None))?) {
        Ok(()) => None,
        Err(SystemErrno::ADDRINUSE) if alone => return Ok(None),
        Err(SystemErrno::ADDRINUSE) => {
            let token = Token::random();
            net::bind(&socket, &named::name(&name::packets(slot, Some(token)))?)?;
            Some(token)
        }
        Err(error) => return Err(error.into()),
    };
    if alone && keeps_older(slot) {
        return Ok(None);
    }
    let meeting = match rendezvous {
        true => Some((datagrams()?, Token::random())),
        false => None,
    };
    if let Some((socket, token)) = &meeting {
        net::bind(socket, &named::name(&name::rendezvous(slot, *token))?)?;
    }
    let name = ProcessName {
        slot,
        token: Token::random(),
        packets,
        rendezvous: meeting.as_ref().map(|(_, token)| *token),
    };
    let of_meeting = meeting.as_ref().map_or(0, |(socket, _)| socket.as_raw_fd());
    let listener = above(
        named::socket(SocketType::SEQPACKET)?,
        of_meeting.max(socket.as_raw_fd()),
    )?;
    net::bind(&listener, &Name::Process(name).address()?)?;
    net::listen(&listener, BACKLOG)?;
    Ok(Some(Claimed {
        listener: Socket::new(listener),
        packets: Socket::new(socket),
        rendezvous: meeting.map(|(socket, _)| Socket::new(socket)),
        name,
    }))
}

/// The descriptor, or a copy with a number above this one. Linux (since 4.3) closes the descriptors
/// of a killed process from the highest number: the name that proves the others has to be closed
/// before those that it names.
fn above(socket: OwnedFd, number: i32) -> Result<OwnedFd> {
    if socket.as_raw_fd() > number {
        return Ok(socket);
    }
    Ok(fcntl_dupfd_cloexec(&socket, number + 1)?)
}

/// Whether processes of an older release may take numbers of a slot over.
fn keeps_older(slot: u16) -> bool {
    let name = named::name(&format!("uroce/{slot}/kept"));
    name.is_ok_and(|name| owner::connect(SocketType::DGRAM, &name).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listening(name: &Name, user: Option<u32>) -> Listening {
        Listening {
            name: name.to_string(),
            user,
        }
    }

    #[test]
    fn strangers_names_mean_nothing_and_the_users_do() {
        let user = User::own();
        let me = rustix::process::geteuid().as_raw();
        let token = Token::random();
        let own = Name::Claim { slot: 7, token };
        let process = |slot| {
            Name::Process(ProcessName {
                slot,
                token: Token::random(),
                packets: None,
                rendezvous: None,
            })
        };
        let other = Name::Claim {
            slot: 7,
            token: Token::random(),
        };
        let Name::Claim { token: its, .. } = other else {
            unreachable!();
        };
        let names = [
            listening(&own, Some(me)),
            listening(&process(7), Some(me ^ 1)),
            listening(&process(8), Some(me)),
            listening(&process(9), Some(me ^ 1)),
            listening(&other, Some(me)),
            // These are unused, and it is asked for the first alone.
            listening(&process(7), None),
            listening(&process(10), None),
        ];
        let sight = |everything| super::sight(&names, own, user, everything).expect("seen");
        assert_eq!(sight(false).rivals, [Rival::Claiming(its)]);
        assert_eq!(sight(false).taken, [7, 8].into());
        assert_eq!(sight(false).unclear, [10].into());
        assert!(sight(true).unclear.is_empty());
    }

    #[test]
    fn the_listener_has_the_highest_descriptor() {
        let claimed = claim(User::own(), true).expect("a slot");
        let number = |socket: &Socket| socket.as_fd().as_raw_fd();
        let rendezvous = claimed.rendezvous.as_ref().map_or(0, number);
        assert!(number(&claimed.listener) > number(&claimed.packets).max(rendezvous));
        assert!(rendezvous > 0);
        let low = named::socket(SocketType::SEQPACKET).expect("a socket");
        let moved = above(low, 500).expect("a copy");
        assert!(moved.as_raw_fd() > 500);
    }
}
