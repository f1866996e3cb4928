//! The rendezvous socket of this process, by which other processes of the host reach it. Its name
//! is that of [`crate::carrier::registry`].
//!
//! The kernel reports the sender of each datagram. The sender's user must be ours, and its process
//! that of the slot in the datagram. Its process table (PID namespace) must be ours, too; the
//! datagram names it. Of two tables one may see into the other and not the other way round. Then
//! one process would take the link for made, and the other would not listen.
//!
//! A datagram that begins a rendezvous or has descriptors goes by a connection to the listening
//! socket: the connection proves the owner of its other end ([`Registry::connect`]), and leads to
//! exactly the process that was found. Thousands of connections can wait for a process that does
//! not accept them, while the rendezvous socket holds ten datagrams: if hundreds of processes
//! connect to one at the same time, none has to try again. Other datagrams go by name to the
//! rendezvous socket, in one system call: after the end of the process they may reach another one,
//! and contain no usable data for it.

use super::rendezvous::Message;
use crate::carrier::registry::{Connections, Registry};
use kit::errno::{Errno, Result};
use kit::sys::datagram::passing;
use rustix::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A datagram of a rendezvous socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datagram {
    /// There is something new in a ring.
    Bell,
    /// A step of the rendezvous.
    Rendezvous {
        /// The sender's generation.
        generation: u64,
        /// Which.
        message: Message,
    },
    /// The sender has closed its last device.
    Farewell,
    /// The sender has used the connection of the queue pair of that index, without a packet.
    Used(u32),
}

const VERSION: u8 = 3;
/// Bytes of a datagram: version, kind, slot of the sender, process table, generation or index,
/// generation of the receiver.
const LENGTH: usize = 24;
/// Where the slot of the sender is.
const SLOT: std::ops::Range<usize> = 2..4;
/// Where the process table is named.
const TABLE: std::ops::Range<usize> = 4..8;

const BELL: u8 = 0;
const FAREWELL: u8 = 2;
const USED: u8 = 3;
const INVITE: u8 = 4;
const REQUEST: u8 = 5;
const OFFER: u8 = 6;
const JOINED: u8 = 7;
const REJECT: u8 = 8;

impl Datagram {
    fn emit(self) -> [u8; LENGTH] {
        let (kind, first, second) = match self {
            Self::Bell => (BELL, 0, 0),
            Self::Farewell => (FAREWELL, 0, 0),
            Self::Used(index) => (USED, u64::from(index), 0),
            Self::Rendezvous {
                generation,
                message,
            } => match message {
                Message::Invite => (INVITE, generation, 0),
                Message::Request => (REQUEST, generation, 0),
                Message::Offer { to } => (OFFER, generation, to),
                Message::Joined => (JOINED, generation, 0),
                Message::Reject => (REJECT, generation, 0),
            },
        };
        let mut bytes = [0; LENGTH];
        let (head, tail) = bytes.split_at_mut(TABLE.end);
        if let Some(head) = head.first_chunk_mut() {
            *head = [VERSION, kind];
        }
        let (place, rest) = tail.split_at_mut(size_of::<u64>());
        place.copy_from_slice(&first.to_ne_bytes());
        rest.copy_from_slice(&second.to_ne_bytes());
        bytes
    }

    /// Whether it goes by a connection, and not by name.
    fn goes_by_connection(self) -> bool {
        let Self::Rendezvous { message, .. } = self else {
            return false;
        };
        matches!(
            message,
            Message::Invite | Message::Request | Message::Offer { .. }
        )
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (head, tail) = bytes.split_first_chunk::<{ TABLE.end }>()?;
        let (first, rest) = tail.split_first_chunk()?;
        let [first, second] = [*first, *rest.first_chunk()?].map(u64::from_ne_bytes);
        let [VERSION, kind, ..] = *head else {
            return None;
        };
        let message = match kind {
            BELL => return Some(Self::Bell),
            FAREWELL => return Some(Self::Farewell),
            USED => return u32::try_from(first).ok().map(Self::Used),
            INVITE => Message::Invite,
            REQUEST => Message::Request,
            OFFER => Message::Offer { to: second },
            JOINED => Message::Joined,
            REJECT => Message::Reject,
            _ => return None,
        };
        Some(Self::Rendezvous {
            generation: first,
            message,
        })
    }
}

/// A datagram that came from a process of our user.
#[derive(Debug)]
pub struct Received {
    /// The slot of the sender.
    pub slot: u16,
    /// Its process number.
    pub pid: i32,
    /// The datagram.
    pub datagram: Datagram,
    /// Descriptors that came along.
    pub descriptors: Vec<OwnedFd>,
}

/// The rendezvous socket of this process.
#[derive(Debug)]
pub struct RendezvousSocket {
    registry: Arc<Registry>,
    connections: Connections,
    /// The number of the process table.
    table: [u8; 4],
}

/// The number of this process's process table.
///
/// # Errors
/// ENOENT where there is no /proc.
fn process_table() -> Result<[u8; 4]> {
    let number = rustix::fs::stat("/proc/self/ns/pid")?.st_ino;
    let number = u32::try_from(number).map_err(|_| Errno::INVAL)?;
    Ok(number.to_ne_bytes())
}

impl RendezvousSocket {
    /// The socket of the process that has claimed a slot.
    ///
    /// # Errors
    /// EINVAL if it has no rendezvous socket; ENOENT where there is no /proc; of epoll_create(2).
    pub fn open(registry: &Arc<Registry>) -> Result<Self> {
        Self::open_as(registry, process_table()?)
    }

    fn open_as(registry: &Arc<Registry>, table: [u8; 4]) -> Result<Self> {
        registry.rendezvous().ok_or(Errno::INVAL)?;
        Ok(Self {
            registry: Arc::clone(registry),
            connections: Connections::open(registry)?,
            table,
        })
    }

    /// Ready to read when [`RendezvousSocket::receive`] may find something.
    pub fn sockets(&self) -> [BorrowedFd<'_>; 2] {
        [self.connections.set(), self.socket()]
    }

    /// When [`RendezvousSocket::on_time`] is to be called, in nanoseconds of the clock; `u64::MAX`
    /// if not at all.
    #[inline]
    pub fn deadline(&self) -> u64 {
        self.connections.deadline()
    }

    /// Takes connections again for which there was no descriptor.
    pub fn on_time(&self) {
        self.connections.on_time(&self.registry);
    }

    fn socket(&self) -> BorrowedFd<'_> {
        // It is there: see `open_as`.
        self.registry
            .rendezvous()
            .unwrap_or(self.registry.packets())
    }

    /// Sends a datagram to the process of another slot, without waiting.
    ///
    /// # Errors
    /// ECONNREFUSED if there is no such process; EAGAIN if it does not keep up, or it is not known
    /// yet whether it is there.
    pub fn send(&self, to: u16, datagram: Datagram, descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        self.send_to((to, None), datagram, descriptors)
    }

    /// The same, only to a process of this number, if one is given: for messages by a connection.
    ///
    /// # Errors
    /// As of [`RendezvousSocket::send`]; ECONNREFUSED if it is another process.
    pub fn send_to(
        &self,
        (to, only): (u16, Option<i32>),
        datagram: Datagram,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<()> {
        let mut bytes = datagram.emit();
        if let Some(slot) = bytes.get_mut(SLOT) {
            slot.copy_from_slice(&self.registry.slot().to_ne_bytes());
        }
        if let Some(table) = bytes.get_mut(TABLE) {
            table.copy_from_slice(&self.table);
        }
        if datagram.goes_by_connection() {
            self.send_by_connection((to, only), &bytes, descriptors)
        } else {
            self.send_by_name(to, &bytes)
        }
    }

    fn send_by_name(&self, to: u16, bytes: &[u8]) -> Result<()> {
        let process = self.registry.find_newcomer(to)?;
        let to = process.rendezvous().ok_or(Errno(libc::ECONNREFUSED))?;
        let named = self.registry.user().named();
        let parts = [IoSlice::new(bytes)];
        let sent = passing::pass(self.socket(), Some(to), &parts, &[], named);
        sent.map_err(|error| match error {
            // There is another socket by that name, or none that listens.
            Errno(libc::ECONNREFUSED | libc::EPERM | libc::EPROTOTYPE | libc::EPIPE) => {
                self.registry.forget(&process);
                Errno(libc::ECONNREFUSED)
            }
            error => error,
        })
    }

    fn send_by_connection(
        &self,
        (to, only): (u16, Option<i32>),
        bytes: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<()> {
        let (process, connection) = self.registry.connect(to)?;
        let is_it = only.is_none_or(|pid| process.pid() == pid);
        if process.rendezvous().is_none() || !is_it {
            return Err(Errno(libc::ECONNREFUSED));
        }
        let parts = [IoSlice::new(bytes)];
        let sent = passing::pass(connection.as_fd(), None, &parts, descriptors, None);
        sent.map_err(|error| match error {
            // It has ended since.
            Errno(libc::EPIPE | libc::ECONNRESET) => Errno(libc::ECONNREFUSED),
            error => error,
        })
    }

    /// The next datagram; `None` for one that is not understood, or comes from another user,
    /// another process table, or a process that cannot be seen.
    ///
    /// # Errors
    /// EAGAIN if there is nothing.
    pub fn receive(&self) -> Result<Option<Received>> {
        let mut buffer = [0; LENGTH];
        let passed = match self.connections.take(&self.registry, &mut buffer) {
            Ok(passed) => passed,
            Err(_) => passing::take(self.socket(), &mut buffer)?,
        };
        Ok(self.accept(passed, &buffer))
    }

    fn accept(&self, passed: passing::Passed, buffer: &[u8]) -> Option<Received> {
        let user = self.registry.user();
        let sender = passed.sender.filter(|sender| user.is(sender.uid))?;
        let bytes = buffer.get(..passed.length?)?;
        if bytes.get(TABLE)? != self.table {
            return None;
        }
        let datagram = Datagram::parse(bytes)?;
        let pid = (sender.pid > 0).then_some(sender.pid)?;
        let slot = u16::from_ne_bytes(*bytes.get(SLOT)?.first_chunk()?);
        let may_be_its = match datagram {
            Datagram::Rendezvous { .. } => self.registry.may_have_come_to(slot, pid),
            _ => self.registry.may_be_at(slot, pid),
        };
        if !may_be_its {
            return None;
        }
        Some(Received {
            slot,
            pid,
            datagram,
            descriptors: passed.descriptors,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn datagrams_are_read_as_they_were_written() {
        let messages = [
            Message::Invite,
            Message::Request,
            Message::Offer { to: 5 },
            Message::Joined,
            Message::Reject,
        ];
        let steps = messages.map(|message| Datagram::Rendezvous {
            generation: 77,
            message,
        });
        for datagram in [Datagram::Bell, Datagram::Farewell, Datagram::Used(3)]
            .iter()
            .chain(&steps)
        {
            assert_eq!(Datagram::parse(&datagram.emit()), Some(*datagram));
        }
    }

    #[test]
    fn other_process_tables_are_refused() {
        let of = |table: u32| {
            let registry = Registry::claim(true).expect("a slot");
            RendezvousSocket::open_as(&registry, table.to_ne_bytes()).expect("a socket")
        };
        let here = of(7);
        let slot = here.registry.slot();
        let (near, far) = (of(7), of(8));
        for (socket, listens) in [(near, true), (far, false)] {
            socket.send(slot, Datagram::Bell, &[]).expect("sent");
            let received = here
                .receive()
                .expect("there")
                .map(|received| received.datagram);
            assert_eq!(received, listens.then_some(Datagram::Bell));
        }
        assert!(process_table().is_ok_and(|table| table != [0; 4]));
    }

    #[test]
    fn senders_with_the_slot_of_another_are_refused() {
        let of = || {
            let registry = Registry::claim(true).expect("a slot");
            RendezvousSocket::open_as(&registry, [7, 0, 0, 0]).expect("a socket")
        };
        let (here, other) = (of(), of());
        let me = rustix::process::getpid().as_raw_nonzero().get();
        let passed = |pid, uid| passing::Passed {
            length: Some(LENGTH),
            name: Vec::new(),
            sender: Some(passing::Sender { pid, uid }),
            descriptors: Vec::new(),
        };
        let invites = Datagram::Rendezvous {
            generation: 1,
            message: Message::Invite,
        };
        let user = rustix::process::geteuid().as_raw();
        for datagram in [invites, Datagram::Farewell] {
            let mut bytes = datagram.emit();
            bytes[TABLE].copy_from_slice(&here.table);
            bytes[SLOT].copy_from_slice(&other.registry.slot().to_ne_bytes());
            // It is known, as it is once something was sent there.
            assert!(here.registry.find(other.registry.slot()).is_ok());
            let accepts = |pid, uid| here.accept(passed(pid, uid), &bytes).is_some();
            assert!(accepts(me, user));
            assert!(!accepts(me + 1, user), "another process");
            assert!(!accepts(0, user), "one that cannot be seen");
            assert!(!accepts(me, user ^ 1), "another user");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some(datagram) = Datagram::parse(&bytes) {
                prop_assert_eq!(&datagram.emit()[..2], &bytes[..2]);
            }
        }
    }
}
