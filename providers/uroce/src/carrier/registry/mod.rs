//! How the processes of a user in a network namespace find each other.
//!
//! Each has a *slot*, the high bits of its QP numbers, and sockets by which others reach it. Names
//! of abstract Unix sockets contain the slot. They belong to the network namespace, as UDP port
//! 4791 does, so containers that share a namespace share them, too, even without a common
//! directory. The kernel frees them when a process ends, however it ends.
//!
//! Any user can bind any abstract name, so a name proves nothing. The protection is:
//!
//! - *No process is kept out.* A name that matters ends in a [`Token`], which no other process can
//!   know before its owner binds it. Names of strangers are skipped: the kernel reports the owner
//!   of a listening socket without any action of that process (SO_PEERCRED of a connection that
//!   need not be accepted, or netlink). See [`owner`], [`listing`].
//! - *A slot belongs to one process.* Names with tokens do not exclude each other; [`election`]
//!   does.
//! - *A message reaches the process that was found, or none.* Any user can take the name of a dead
//!   process. But a connected socket is connected to a socket, not to a name. So a sender connects
//!   to the packet socket first, and then checks that the process is still there: its listening
//!   socket, whose name no other process of the user will ever bind, was bound last and is closed
//!   first. That name contains the tokens of the other names, so it identifies their sockets. See
//!   [`Process`]. A message may also go by the connection to the listening socket itself
//!   ([`Registry::connect`], [`Connections`]), which is its own proof.
//! - *A receiver* checks the credentials that the kernel adds to each message, and drops messages
//!   of other users ([`User`]).
//!
//! Alternatives have disadvantages: containers of a pod share no directory; a stream for each pair
//! of processes would cost each a descriptor for every other; any user can take UDP ports as well
//! as names. A stranger can still flood the listening sockets with connections, and the sockets
//! with messages, as UDP port 4791 itself. Messages of other senders may be lost then.
//!
//! *Older releases* claim a slot by binding `uroce/<slot>`, report their counters at
//! `uroce/<slot>/stat` and forward packets to the former. This release binds that name, too, if it
//! can, and receives packets there from processes of its user; it forwards packets to an older
//! process whose `stat` belongs to its user. Shared memory, XRC domains and numbers that were taken
//! over are not shared between the two.

mod claim;
mod connections;
pub mod election;
pub mod listing;
mod lookup;
pub mod name;
pub mod owner;
mod token;

pub use claim::{listen, listen_at};
pub use connections::Connections;
pub use listing::{Listening, known, listening};
pub use lookup::Process;
pub use name::Name;
pub use owner::{Owner, User};
pub use token::Token;

use crate::named::{self, Socket};
use claim::Claimed;
use kit::errno::{Errno, Result};
use kit::log::{self, Level};
use lookup::Lookup;
use rustix::io::Errno as SystemErrno;
use rustix::net::{self, Shutdown};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Connections that are taken at once from a socket that listens.
const ACCEPTED: usize = 64;

/// The slot of this process, and its knowledge of the others.
#[derive(Debug)]
pub struct Registry {
    /// Dropped in this order: see the module.
    sockets: Claimed,
    user: User,
    lookup: Lookup,
}

impl Registry {
    /// Claims a slot; with a rendezvous socket if that is wanted.
    ///
    /// # Errors
    /// EADDRNOTAVAIL if the user's processes have all; of socket(2), bind(2), listen(2).
    pub fn claim(rendezvous: bool) -> Result<Arc<Self>> {
        let user = User::own();
        let sockets = claim::claim(user, rendezvous)?;
        let lookup = Lookup::new(user);
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        lookup.add(Process::new(Name::Process(sockets.name), pid, user)?);
        Ok(Arc::new(Self {
            sockets,
            user,
            lookup,
        }))
    }

    /// The slot, 1 to 1022.
    #[must_use]
    pub fn slot(&self) -> u16 {
        self.sockets.name.slot
    }

    /// The user whose processes are trusted.
    #[must_use]
    pub fn user(&self) -> User {
        self.user
    }

    /// The socket that others prove this process by. Connections there are to be taken
    /// ([`Connections`], or [`accept_and_close`] without messages): otherwise there is no room for
    /// more after some thousands.
    #[must_use]
    pub fn listener(&self) -> &Socket {
        &self.sockets.listener
    }

    /// The socket that others hand packets to.
    #[must_use]
    pub fn packets(&self) -> BorrowedFd<'_> {
        self.sockets.packets.as_fd()
    }

    /// The rendezvous socket, if it was wanted.
    #[must_use]
    pub fn rendezvous(&self) -> Option<BorrowedFd<'_>> {
        self.sockets.rendezvous.as_ref().map(AsFd::as_fd)
    }

    /// Messages to the rendezvous socket are not received any more, and senders get an error. Its
    /// name stays, because others use it.
    pub fn refuse_rendezvous(&self) {
        if let Some(socket) = &self.sockets.rendezvous {
            // A datagram socket can always be shut down.
            let _ = net::shutdown(socket, Shutdown::Both);
        }
    }

    /// The process of a slot, if it is our user's.
    ///
    /// # Errors
    /// ECONNREFUSED if the process does not exist; EAGAIN if that is unknown yet, because names are
    /// listed at most every 20 ms, and for at most a twentieth of the time; of socket(2).
    pub fn find(&self, slot: u16) -> Result<Arc<Process>> {
        self.lookup.find(slot, false)
    }

    /// The same, for a caller that knows of the process: it may have come since names were listed
    /// last, so they are listed sooner.
    ///
    /// # Errors
    /// As of [`Registry::find`].
    pub fn find_newcomer(&self, slot: u16) -> Result<Arc<Process>> {
        self.lookup.find(slot, true)
    }

    /// The process of a slot, and a connection to the socket that proves it: messages there
    /// reach this process or none.
    ///
    /// # Errors
    /// As of [`Registry::find_newcomer`].
    pub fn connect(&self, slot: u16) -> Result<(Arc<Process>, OwnedFd)> {
        self.lookup.connect(slot)
    }

    /// Whether a process of this number may be that of a slot, as far as is known.
    #[must_use]
    pub fn may_be_at(&self, slot: u16, pid: i32) -> bool {
        let known = self.lookup.known(slot);
        known.is_none_or(|process| process.pid() == pid)
    }

    /// The same, where another one that is known may have ended, and its slot be this one's.
    #[must_use]
    pub fn may_have_come_to(&self, slot: u16, pid: i32) -> bool {
        match self.lookup.known(slot) {
            Some(process) if process.pid() != pid => {
                let has_ended = process.has_ended();
                if has_ended {
                    self.forget(&process);
                }
                has_ended
            }
            _ => true,
        }
    }

    /// Whether processes that were not known cannot be found here.
    #[must_use]
    pub fn is_blind(&self) -> bool {
        self.lookup.is_blind()
    }

    /// A process that was found has ended.
    pub fn forget(&self, process: &Process) {
        if process.slot() != self.slot() {
            self.lookup.forget(process);
        }
    }
}

/// Accepts pending connections that only prove their sender, and closes them.
pub fn accept_and_close(listener: &Socket) {
    for _ in 0..ACCEPTED {
        match net::accept_with(listener, named::FLAGS) {
            Ok(_) | Err(SystemErrno::INTR | SystemErrno::CONNABORTED) => {}
            Err(error) => return report_denied_accept(error.into()),
        }
    }
}

/// Logs, once in a process, that accept(2) is denied. Pending connections still prove a process,
/// but their messages are not received.
pub fn report_denied_accept(error: Errno) {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    if error.is_denial() && !REPORTED.swap(true, Ordering::Relaxed) {
        log::line(
            Level::Warning,
            &format!(
                "uroce: this process may not call accept(2) (errno {}): it shares no memory and no \
                 XRC domains with other processes, and they cannot read its statistics; its \
                 sandbox has to let it",
                error.raw()
            ),
        );
    }
}
