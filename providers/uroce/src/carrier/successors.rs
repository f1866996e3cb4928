//! QP numbers that outlive the process that assigned them: XRC targets that another process of the
//! domain, the successor, has taken over.
//!
//! A process that others share targets with listens by a name of its slot (`Name::Kept`) and gives
//! each of them a copy of the socket, so that the slot, and with it the number, is not assigned
//! again while one of them is there. A successor listens by a name with the number and its own slot
//! (`Name::Successor`), by which it is found. Both names go with their processes, and count only if
//! they are our user's ([`super::registry`]).

use super::qpn;
use super::registry::{self, Listening, Name, Owner, Token, User, owner};
use crate::named::Socket;
use kit::errno::Result;
use kit::sync::Mutex;
use rustix::io::fcntl_dupfd_cloexec;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long a successor that was found is not looked for again.
const FOUND: Duration = Duration::from_secs(1);
/// After a search in vain, the next one waits at least this long, and this many times as long as
/// the search took.
const VAIN: Duration = Duration::from_millis(20);
const SHARE: u32 = 20;
/// Successors that are listed at once.
const MOST: usize = 1024;

/// Holds a name that keeps a slot. Connections to it are not accepted: a process that claims a slot
/// connects only where the kernel does not report the name's owner otherwise, and leaves the slot
/// alone also when the queue is full.
///
/// # Errors
/// Of socket(2), bind(2), listen(2).
pub fn keep(slot: u16) -> Result<OwnedFd> {
    let token = Token::random();
    let socket = registry::listen(&Name::Kept { slot, token })?;
    // Not one that a forked child loses: its other holders keep it, too.
    Ok(fcntl_dupfd_cloexec(&socket, 3)?)
}

/// Makes known that the process of a slot has taken a number over, until the result is dropped.
///
/// # Errors
/// Of socket(2), bind(2), listen(2).
pub fn announce(number: u32, own: u16) -> Result<Socket> {
    registry::listen(&Name::Successor {
        number,
        slot: own,
        token: Token::random(),
    })
}

/// Which process has taken over which number, as far as it was asked for.
#[derive(Debug, Default)]
pub struct Successors(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    found: HashMap<u32, (u16, Instant)>,
    /// The latest search in vain, and how long it counts.
    vain: Option<(Instant, Duration)>,
}

impl Successors {
    /// The slot of the process that has taken a number over.
    #[must_use]
    pub fn find(&self, number: u32) -> Option<u16> {
        let mut known = self.0.lock();
        known.found.retain(|_, (_, since)| since.elapsed() < FOUND);
        if let Some((slot, _)) = known.found.get(&number) {
            return Some(*slot);
        }
        if known
            .vain
            .is_some_and(|(since, counts)| since.elapsed() < counts)
        {
            return None;
        }
        let began = Instant::now();
        let Some(slot) = search(number) else {
            let counts = VAIN.max(began.elapsed() * SHARE);
            known.vain = Some((Instant::now(), counts));
            return None;
        };
        if known.found.len() < MOST {
            known.found.insert(number, (slot, Instant::now()));
        }
        Some(slot)
    }

    /// The successor that was found is not there any more.
    pub fn forget(&self, number: u32) {
        self.0.lock().found.remove(&number);
    }
}

fn search(number: u32) -> Option<u16> {
    let sockets = registry::listening().ok()?;
    let user = User::own();
    let names = || sockets.iter().filter_map(|socket| may_be(socket, user));
    let kept =
        |name: &Name| matches!(name, Name::Kept { slot, .. } if *slot == qpn::slot_of(number));
    if !names().any(|name| kept(&name)) {
        return None;
    }
    let successors =
        names().filter(|name| matches!(name, Name::Successor { number: of, .. } if *of == number));
    let mut unclear = None;
    for name in successors.take(MOST) {
        match owner::of(&name, user) {
            Ok(Owner::Ours(_)) => return Some(name.slot()),
            // A process whose queue of connections is full may be a successor: packets to it reach
            // only the user's process of its slot.
            Ok(Owner::Unknown) => unclear = Some(name.slot()),
            _ => {}
        }
    }
    unclear
}

/// The name of a socket, if it may be the user's.
fn may_be(socket: &Listening, user: User) -> Option<Name> {
    if socket.user.is_some_and(|whose| !user.is(whose)) {
        return None;
    }
    Name::parse(&socket.name)
}

#[cfg(test)]
mod tests {
    use super::registry::Registry;
    use super::*;

    fn is_kept(slot: u16) -> bool {
        let sockets = registry::listening().expect("sockets");
        let names = sockets
            .iter()
            .filter_map(|socket| may_be(socket, User::own()));
        let kept = |name: Name| matches!(name, Name::Kept { slot: of, .. } if of == slot);
        names.into_iter().any(kept)
    }

    #[test]
    fn a_kept_slot_has_no_process_and_its_successor_is_found() {
        let registry = Registry::claim(false).expect("a slot");
        let number = qpn::number(registry.slot(), 5);
        let successors = Successors::default();
        assert!(!is_kept(registry.slot()));
        assert_eq!(successors.find(number), None);
        let kept = keep(registry.slot()).expect("kept");
        let copy = kept.try_clone().expect("a copy");
        let announced = announce(number, 77).expect("announced");
        assert_eq!(Successors::default().find(number), Some(77));
        drop(kept);
        assert!(is_kept(registry.slot()));
        drop(announced);
        assert_eq!(Successors::default().find(number), None);
        drop(copy);
        assert!(!is_kept(registry.slot()));
    }

    #[test]
    fn a_successor_is_known_for_a_while() {
        let registry = Registry::claim(false).expect("a slot");
        let number = qpn::number(registry.slot(), 5);
        let _kept = keep(registry.slot()).expect("kept");
        let announced = announce(number, 77).expect("announced");
        let successors = Successors::default();
        assert_eq!(successors.find(number), Some(77));
        drop(announced);
        successors.forget(number);
        assert_eq!(successors.find(number), None);
    }
}
