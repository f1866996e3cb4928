//! How the processes of a domain find each other: each listens at an abstract Unix socket
//! `\0uroce/<slot>/xrc/<user>/<device>:<inode>/<interface>/<token>`, a name that ends with the
//! process. A name counts only if the kernel confirms the process's user as its owner
//! ([`crate::carrier::registry`]). A domain exists as long as a process listens.

use crate::carrier::qpn;
use crate::carrier::registry::election::{Rival, Verdict, judge};
use crate::carrier::registry::{self, Listening, Token, User, owner};
use crate::carrier::udp::Socket;
use crate::named;
use kit::errno::{Errno, Result};
use kit::sys::datagram::passing;
use rustix::io::Errno as SystemErrno;
use rustix::net::{self, SocketAddrUnix, SocketType};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// The identity of a domain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The file's device and inode.
    pub inode: (u64, u64),
    /// The network interface, which names the RDMA device.
    pub interface: String,
}

/// The wait for the turn while another process opens the same domain.
const PAUSE: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(5);
/// How often to retry a connection to a process whose queue of connections is full.
const TRIES: usize = 50;

const KIND: SocketType = SocketType::SEQPACKET;
/// Replaces the slot in the names of processes that want the turn.
const OPENS: &str = "open";

/// Keeps other processes from opening or leaving a domain until it is dropped.
pub struct Turn(#[allow(dead_code, reason = "the socket keeps the name")] Socket);

impl Key {
    /// The part of a name after `uroce/<slot>`, up to the token.
    fn middle(&self) -> String {
        let (device, inode) = self.inode;
        let (user, interface) = (kit::sys::identity::effective_user(), &self.interface);
        format!("/xrc/{user}/{device:x}:{inode:x}/{interface}/")
    }

    fn name(&self, of: &str, token: Token) -> Result<SocketAddrUnix> {
        named::name(&format!("uroce/{of}{}{token}", self.middle()))
    }

    /// The slot and token of a name of this domain.
    fn parse<'a>(&self, name: &'a str) -> Option<(&'a str, Token)> {
        let (of, token) = name.strip_prefix("uroce/")?.split_once(&self.middle())?;
        Some((of, Token::parse(token)?))
    }

    /// The names of this domain that may belong to this process's user: slot, token, name.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOBUFS, ENOMEM: then it is not known which there are.
    fn named(&self, user: User) -> Result<Vec<(String, Token, Listening)>> {
        self.of_listing(registry::listening(), user)
    }

    /// The same, by a list of sockets.
    fn of_listing(
        &self,
        listed: Result<Vec<Listening>>,
        user: User,
    ) -> Result<Vec<(String, Token, Listening)>> {
        let ours = |socket: &Listening| socket.user.is_none_or(|whose| user.is(whose));
        let sockets = registry::known(listed)?.into_iter().filter(ours);
        let parsed = sockets.filter_map(|socket| {
            let (of, token) = self.parse(&socket.name)?;
            Some((of.to_owned(), token, socket))
        });
        Ok(parsed.collect())
    }

    /// Keeps other processes from opening or leaving the domain until the result is dropped.
    ///
    /// # Errors
    /// EAGAIN if another process has the turn for 5 seconds; EMFILE, ENFILE, ENOBUFS, ENOMEM if it
    /// is not known which want it; of socket(2), bind(2), listen(2).
    pub fn lock(&self) -> Result<Turn> {
        let user = User::own();
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let token = Token::random();
            let turn = Turn(registry::listen_at(KIND, &self.name(OPENS, token)?)?);
            loop {
                match judge(token, &self.rivals(token, user)?) {
                    Verdict::Keep => return Ok(turn),
                    Verdict::Wait if began.elapsed() < PATIENCE => kit::sys::sched::sleep(PAUSE),
                    Verdict::Wait | Verdict::Withdraw => break,
                }
            }
            drop(turn);
            kit::sys::sched::sleep(PAUSE);
        }
        Err(Errno::AGAIN)
    }

    /// Other processes of this user that want the turn.
    fn rivals(&self, own: Token, user: User) -> Result<Vec<Rival>> {
        let named = self.named(user)?.into_iter();
        let others = named.filter(|(of, token, _)| of == OPENS && *token != own);
        let ours = others.filter(|(_, _, socket)| is_there(socket, user));
        Ok(ours.map(|(_, token, _)| Rival::Claiming(token)).collect())
    }

    /// Listens for others.
    ///
    /// # Errors
    /// Of socket(2), bind(2), listen(2).
    pub fn listen(&self, slot: u16) -> Result<Socket> {
        registry::listen_at(KIND, &self.name(&slot.to_string(), Token::random())?)
    }

    /// Whether the process of a slot has the domain open, as far as that is known: a domain that is
    /// taken for closed is lost.
    pub fn is_open_at(&self, slot: u16) -> bool {
        let (user, slot) = (User::own(), slot.to_string());
        let Ok(named) = self.named(user) else {
            return true;
        };
        named
            .into_iter()
            .any(|(of, _, socket)| of == slot && is_there(&socket, user))
    }

    /// Connections to all processes that listen, by their slots.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOBUFS, ENOMEM if it is not known which listen; of socket(2); EAGAIN if one
    /// of them has too many connections that wait.
    pub fn others(&self, own: u16) -> Result<Vec<(u16, OwnedFd)>> {
        let user = User::own();
        let mut found = Vec::new();
        for (of, _, socket) in self.named(user)? {
            let slot = of
                .parse()
                .ok()
                .filter(|slot| (1..=qpn::LAST).contains(slot));
            let Some(slot) = slot.filter(|slot| *slot != own) else {
                continue;
            };
            if let Some(connected) = connect(&socket, user)? {
                found.push((slot, connected));
            }
        }
        Ok(found)
    }
}

/// Whether a socket exists and belongs to this process's user.
fn is_there(socket: &Listening, user: User) -> bool {
    if socket.user.is_some() {
        // The list has no sockets of other users.
        return true;
    }
    let Ok(name) = named::name(&socket.name) else {
        return false;
    };
    match owner::connect_to_ours(KIND, &name, user) {
        Ok(_) => true,
        // The queue of an existing socket may be full, or it is not known.
        Err(error) => error == Errno::AGAIN || error.is_shortage(),
    }
}

/// A connection to a socket, if it belongs to this process's user.
fn connect(socket: &Listening, user: User) -> Result<Option<OwnedFd>> {
    let name = named::name(&socket.name)?;
    for _ in 0..TRIES {
        match owner::connect_to_ours(KIND, &name, user) {
            Ok((connected, _)) => return Ok(Some(connected)),
            Err(Errno::AGAIN) => kit::sys::sched::sleep(PAUSE),
            Err(Errno(libc::ECONNREFUSED | libc::EPERM | libc::EPROTOTYPE)) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    if socket.user.is_some() {
        return Err(Errno::AGAIN);
    }
    // Any user can have such a socket.
    Ok(None)
}

/// The next connection of this user's processes.
///
/// # Errors
/// EAGAIN without a connection.
pub fn accept(listening: &Socket, user: User) -> Result<OwnedFd> {
    loop {
        match net::accept_with(listening, named::FLAGS) {
            Ok(connected) => {
                if passing::peer(connected.as_fd()).is_ok_and(|peer| user.is(peer.uid)) {
                    return Ok(connected);
                }
            }
            Err(SystemErrno::INTR | SystemErrno::CONNABORTED) => {}
            Err(error) => {
                registry::report_denied_accept(error.into());
                return Err(error.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        let id = Token::random().to_string();
        Key {
            inode: (u64::MAX, u64::from(std::process::id())),
            interface: id.chars().take(15).collect(),
        }
    }

    #[test]
    fn names_fit_and_are_read_as_written() {
        let key = Key {
            inode: (u64::MAX, u64::MAX),
            interface: "x".repeat(15),
        };
        let token = Token::random();
        let name = format!("uroce/1022{}{token}", key.middle());
        assert!(named::name(&name).is_ok());
        assert_eq!(key.parse(&name), Some(("1022", token)));
        assert_eq!(super::tests::key().parse(&name), None);
        assert_eq!(key.parse(&format!("{name}/x")), None);
    }

    #[test]
    fn a_process_that_has_the_domain_open_is_found_by_others() {
        let key = key();
        assert!(key.others(7).expect("asked").is_empty());
        let listening = key.listen(9).expect("listening");
        assert!(key.is_open_at(9) && !key.is_open_at(8));
        assert!(key.others(9).expect("asked").is_empty());
        let others = key.others(7).expect("asked");
        assert_eq!(others.len(), 1);
        assert_eq!(others[0].0, 9);
        assert!(accept(&listening, User::own()).is_ok());
        drop(listening);
        assert!(!key.is_open_at(9));
    }

    #[test]
    fn a_list_that_failed_for_the_moment_is_no_empty_one() {
        let (key, user) = (key(), User::own());
        let of = |error| {
            key.of_listing(Err(Errno(error)), user)
                .map(|names| names.len())
        };
        for error in [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM] {
            assert_eq!(of(error), Err(Errno(error)));
        }
        assert_eq!(of(libc::EACCES), Ok(0), "a sandbox that permits no list");
    }

    #[test]
    fn the_turn_is_one_threads_at_a_time() {
        use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
        let key = key();
        let (inside, most, count) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5 {
                        // On a machine that is busy, the time may be over.
                        let Ok(turn) = key.lock() else {
                            continue;
                        };
                        most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, SeqCst);
                        count.fetch_add(1, SeqCst);
                        drop(turn);
                    }
                });
            }
        });
        assert_eq!(most.load(SeqCst), 1);
        assert!(count.load(SeqCst) > 0);
    }
}
