//! Connections of other processes to the socket that listens, and the message that each may bring.
//!
//! Most come for the proof alone, and are closed again. Others carry one message, which may not be
//! there yet when the connection is: its sender is between two system calls, perhaps stopped there.
//! So a connection without a message is kept, and no more than [`KEPT`] of them: a further one
//! displaces the oldest.
//!
//! Where accept(2) lacks a descriptor, or a sandbox denies it by now, connections wait, and would
//! make the set ready all the time: the socket that listens is taken out of it, and is back after
//! [`PAUSE`].

use super::{Registry, User};
use crate::{clock, named};
use kit::errno::{Errno, Result};
use kit::sync::Mutex;
use kit::sys;
use kit::sys::datagram::passing::{self, Passed};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno as SystemErrno;
use rustix::net;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Connections without a message that are kept.
const KEPT: usize = 64;
/// Connections that are looked at in one go.
const LOOKS: usize = 64;
/// The number of the listening socket in the set; connections have others.
const LISTENER: u64 = 0;
/// Nanoseconds until accept(2) is tried again after it has failed.
const PAUSE: u64 = 100_000_000;
/// No deadline.
const NEVER: u64 = u64::MAX;

/// The connections to the socket that listens for a process.
#[derive(Debug)]
pub struct Connections {
    /// The listening socket, and connections that are kept.
    set: OwnedFd,
    kept: Mutex<Kept>,
    /// When the listening socket is back in the set; [`NEVER`] while it is there.
    again: AtomicU64,
}

/// Connections whose message has not arrived yet, by their number in the set.
#[derive(Debug, Default)]
struct Kept {
    by_number: BTreeMap<u64, OwnedFd>,
    last: u64,
}

/// The contents of a connection.
enum Content {
    Message(Passed),
    /// Its message has not come yet.
    Later,
    /// It brings nothing.
    Nothing,
}

impl Connections {
    /// None yet.
    ///
    /// # Errors
    /// Of epoll_create(2), epoll_ctl(2); of accept(2) where that is denied.
    pub fn open(registry: &Registry) -> Result<Self> {
        // One that is there by now is closed, and its sender tries again.
        if let Err(error) = net::accept_with(registry.listener(), named::FLAGS)
            && Errno::from(error).is_denial()
        {
            super::report_denied_accept(error.into());
            return Err(error.into());
        }
        let set = epoll::create(CreateFlags::CLOEXEC)?;
        let data = EventData::new_u64(LISTENER);
        epoll::add(&set, registry.listener(), data, EventFlags::IN)?;
        Ok(Self {
            set,
            kept: Mutex::default(),
            again: AtomicU64::new(NEVER),
        })
    }

    /// Ready to read when [`Connections::take`] may find something.
    #[must_use]
    pub fn set(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }

    /// The next message of a process of our user: its sender is the one that the kernel names for
    /// the connection.
    ///
    /// # Errors
    /// EAGAIN without a message.
    pub fn take(&self, registry: &Registry, buffer: &mut [u8]) -> Result<Passed> {
        for _ in 0..LOOKS {
            if self.deadline() != NEVER {
                break;
            }
            let accepted = match net::accept_with(registry.listener(), named::FLAGS) {
                Ok(accepted) => accepted,
                Err(SystemErrno::INTR | SystemErrno::CONNABORTED) => continue,
                Err(SystemErrno::AGAIN) => break,
                Err(error) => {
                    super::report_denied_accept(error.into());
                    self.pause(registry);
                    break;
                }
            };
            match content(accepted.as_fd(), registry.user(), buffer) {
                Content::Message(passed) => return Ok(passed),
                Content::Later => self.kept.lock().keep(&self.set, accepted),
                Content::Nothing => {}
            }
        }
        self.take_kept(registry.user(), buffer)
    }

    /// When [`Connections::on_time`] is to be called, in nanoseconds of the clock; `u64::MAX` if
    /// not at all.
    #[inline]
    pub fn deadline(&self) -> u64 {
        self.again.load(SeqCst)
    }

    /// Listens again, if it is time.
    pub fn on_time(&self, registry: &Registry) {
        let is_due = self.deadline() <= clock::now().nanos();
        if is_due && self.listen(registry, EventFlags::IN) {
            self.again.store(NEVER, SeqCst);
        }
    }

    /// Lets connections wait for a while.
    fn pause(&self, registry: &Registry) {
        if self.listen(registry, EventFlags::empty()) {
            let again = clock::now().nanos().saturating_add(PAUSE);
            self.again.store(again, SeqCst);
        }
    }

    /// Has the set be ready for this of the listening socket.
    fn listen(&self, registry: &Registry, flags: EventFlags) -> bool {
        let data = EventData::new_u64(LISTENER);
        epoll::modify(&self.set, registry.listener(), data, flags).is_ok()
    }

    /// The next message on a connection that was kept.
    fn take_kept(&self, user: User, buffer: &mut [u8]) -> Result<Passed> {
        let mut kept = self.kept.lock();
        if kept.by_number.is_empty() {
            return Err(Errno::AGAIN);
        }
        for number in kept.ready(&self.set) {
            let Some(connection) = kept.by_number.get(&number) else {
                continue;
            };
            let content = content(connection.as_fd(), user, buffer);
            if !matches!(content, Content::Later) {
                kept.by_number.remove(&number);
            }
            if let Content::Message(passed) = content {
                return Ok(passed);
            }
        }
        Err(Errno::AGAIN)
    }
}

impl Kept {
    fn keep(&mut self, set: &OwnedFd, connection: OwnedFd) {
        self.last += 1;
        let data = EventData::new_u64(self.last);
        if epoll::add(set, &connection, data, EventFlags::IN).is_err() {
            // Its sender tries again.
            return;
        }
        self.by_number.insert(self.last, connection);
        if self.by_number.len() > KEPT {
            self.by_number.pop_first();
        }
    }

    /// The numbers of connections that are ready.
    fn ready(&self, set: &OwnedFd) -> Vec<u64> {
        let mut events: [MaybeUninit<Event>; KEPT] = [const { MaybeUninit::uninit() }; KEPT];
        let Ok(events) = sys::epoll::wait(set, Some(0), &mut events) else {
            return Vec::new();
        };
        events.iter().map(|event| event.data.u64()).collect()
    }
}

/// The present contents of a connection.
fn content(connection: BorrowedFd<'_>, user: User, buffer: &mut [u8]) -> Content {
    let taken = passing::take(connection, buffer);
    if matches!(
        taken,
        Ok(Passed {
            length: Some(0),
            ..
        })
    ) {
        return Content::Nothing;
    }
    let Ok(sender) = passing::peer(connection) else {
        return Content::Nothing;
    };
    match taken {
        _ if !user.is(sender.uid) => Content::Nothing,
        Ok(passed) => Content::Message(Passed {
            sender: Some(sender),
            ..passed
        }),
        Err(Errno::AGAIN) => Content::Later,
        Err(_) => Content::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::IoSlice;
    use std::os::fd::OwnedFd;
    use std::sync::Arc;

    fn connections() -> (Arc<Registry>, Connections) {
        let registry = Registry::claim(true).expect("a slot");
        let connections = Connections::open(&registry).expect("a set");
        (registry, connections)
    }

    /// Connections from another process, as far as the registry of this one knows.
    fn connect(to: &Registry) -> OwnedFd {
        let from = Registry::claim(true).expect("a slot");
        from.connect(to.slot()).expect("connected").1
    }

    fn send(connection: &OwnedFd, bytes: &[u8]) {
        let parts = [IoSlice::new(bytes)];
        passing::pass(connection.as_fd(), None, &parts, &[], None).expect("sent");
    }

    fn is_ready(connections: &Connections) -> bool {
        let mut events = [MaybeUninit::<Event>::uninit(); 1];
        let ready = sys::epoll::wait(connections.set(), Some(0), &mut events);
        !ready.expect("a set").is_empty()
    }

    #[test]
    fn messages_come_in_one_go_or_later_or_not_at_all() {
        let (registry, connections) = connections();
        let mut buffer = [0; 8];
        let mut take = || {
            let passed = connections.take(&registry, &mut buffer);
            passed.map(|passed| (passed.length, passed.sender.map(|sender| sender.pid)))
        };
        let me = rustix::process::getpid().as_raw_nonzero().get();
        assert_eq!(take(), Err(Errno::AGAIN));
        // Sent and closed before it is accepted.
        send(&connect(&registry), b"first");
        // For the proof alone.
        drop(connect(&registry));
        let [late, silent] = [(); 2].map(|()| connect(&registry));
        assert_eq!(take(), Ok((Some(5), Some(me))));
        assert_eq!(take(), Err(Errno::AGAIN));
        assert!(!is_ready(&connections), "nothing to do");
        send(&late, b"later");
        drop(late);
        assert!(is_ready(&connections));
        assert_eq!(take(), Ok((Some(5), Some(me))));
        drop(silent);
        assert!(is_ready(&connections));
        assert_eq!(take(), Err(Errno::AGAIN));
        assert!(!is_ready(&connections), "it was given up");
    }

    #[test]
    fn no_more_than_some_wait_for_a_message() {
        let (registry, connections) = connections();
        let from = Registry::claim(true).expect("a slot");
        let all: Vec<OwnedFd> = (0..=KEPT)
            .map(|_| from.connect(registry.slot()).expect("connected").1)
            .collect();
        let mut buffer = [0; 8];
        let mut take = || connections.take(&registry, &mut buffer);
        while is_ready(&connections) {
            assert_eq!(take().err(), Some(Errno::AGAIN));
        }
        assert_eq!(connections.kept.lock().by_number.len(), KEPT);
        // The oldest has gone.
        let parts = [IoSlice::new(b"late")];
        let sent = |at: usize| {
            let connection = all[at].as_fd();
            passing::pass(connection, None, &parts, &[], None).is_ok()
        };
        assert!(!sent(0) && sent(1) && sent(KEPT));
        assert!(take().is_ok() && take().is_ok());
        assert_eq!(take().err(), Some(Errno::AGAIN));
    }

    #[test]
    fn connections_wait_while_there_is_no_descriptor() {
        let (registry, connections) = connections();
        send(&connect(&registry), b"first");
        assert!(is_ready(&connections) && connections.deadline() == NEVER);
        connections.pause(&registry);
        let take = || connections.take(&registry, &mut [0; 8]).is_ok();
        for _ in 0..2 {
            assert!(!is_ready(&connections) && !take());
            // It is not time yet.
            connections.on_time(&registry);
            assert_ne!(connections.deadline(), NEVER);
        }
        connections.again.store(0, SeqCst);
        connections.on_time(&registry);
        assert!(is_ready(&connections) && connections.deadline() == NEVER);
        assert!(take() && !take() && !is_ready(&connections));
    }

    #[test]
    fn another_users_messages_are_dropped() {
        let (registry, connections) = connections();
        let connection = connect(&registry);
        send(&connection, b"hello");
        let stranger = User::none();
        let listener = registry.listener();
        let accepted = net::accept_with(listener, named::FLAGS).expect("a connection");
        let heard = content(accepted.as_fd(), stranger, &mut [0; 8]);
        assert!(matches!(heard, Content::Nothing));
        assert!(connections.take(&registry, &mut [0; 8]).is_err());
    }
}
