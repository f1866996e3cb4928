//! The socket by which processes meet: the abstract Unix datagram socket `\0uroce/<slot>/shm`.
//!
//! The kernel says who sends: the name of the sender's socket is its slot, which nobody else can
//! have meanwhile, and its user must be ours. So must its process table (PID namespace), which it
//! names: of two tables one may be able to see into the other and not the other way round, and then
//! one process would take itself for met and the other would not listen.

use crate::carrier::udp::socket::Socket;
use crate::named;
use kit::errno::{Errno, Result};
use kit::sys::datagram::passing;
use rustix::net::{self, SocketType};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What is said at a door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// There is something new in a ring.
    Bell,
    /// Who we are: the segment comes along and, from the lower slot, the link. `asks` for the same.
    Greeting {
        /// The sender's generation.
        generation: u64,
        /// An answer is wanted.
        asks: bool,
    },
    /// The sender has closed its last device.
    Farewell,
    /// The sender has used the connection of the queue pair of that index, without a packet.
    Used(u32),
}

const VERSION: u8 = 1;
/// Bytes of a word: version, kind, whether it asks, nothing, process table, generation or index.
const LENGTH: usize = 16;
/// Where the process table is named.
const TABLE: std::ops::Range<usize> = 4..8;

const BELL: u8 = 0;
const GREETING: u8 = 1;
const FAREWELL: u8 = 2;
const USED: u8 = 3;

impl Word {
    fn emit(self) -> [u8; LENGTH] {
        let (kind, asks, generation) = match self {
            Self::Bell => (BELL, false, 0),
            Self::Greeting { generation, asks } => (GREETING, asks, generation),
            Self::Farewell => (FAREWELL, false, 0),
            Self::Used(index) => (USED, false, u64::from(index)),
        };
        let mut bytes = [0; LENGTH];
        let (head, tail) = bytes.split_at_mut(LENGTH - 8);
        if let Some(head) = head.first_chunk_mut() {
            *head = [VERSION, kind, u8::from(asks)];
        }
        tail.copy_from_slice(&generation.to_ne_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (head, tail) = bytes.split_first_chunk::<{ LENGTH - 8 }>()?;
        let generation = u64::from_ne_bytes(*tail.first_chunk()?);
        match *head {
            [VERSION, BELL, ..] => Some(Self::Bell),
            [VERSION, GREETING, asks, ..] => Some(Self::Greeting {
                generation,
                asks: asks != 0,
            }),
            [VERSION, FAREWELL, ..] => Some(Self::Farewell),
            [VERSION, USED, ..] => u32::try_from(generation).ok().map(Self::Used),
            _ => None,
        }
    }
}

/// Something that was said, by a process of our user.
#[derive(Debug)]
pub struct Said {
    /// The slot of the sender.
    pub slot: u16,
    /// Its process number.
    pub pid: i32,
    /// What.
    pub word: Word,
    /// Descriptors that came along.
    pub descriptors: Vec<OwnedFd>,
}

/// The door of this process.
#[derive(Debug)]
pub struct Door {
    socket: Socket,
    user: u32,
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

fn name(slot: u16) -> String {
    format!("uroce/{slot}/shm")
}

/// The slot that a name names.
fn slot_of(name: &[u8]) -> Option<u16> {
    let name = std::str::from_utf8(name).ok()?;
    let slot = name.strip_prefix("uroce/")?.strip_suffix("/shm")?;
    slot.parse().ok()
}

impl Door {
    /// Opens the door of a slot that the process has claimed.
    ///
    /// # Errors
    /// Of socket(2), bind(2), setsockopt(2): EADDRINUSE if somebody has taken the name. ENOENT where
    /// there is no /proc.
    pub fn open(slot: u16) -> Result<Self> {
        Self::open_as(slot, process_table()?)
    }

    fn open_as(slot: u16, table: [u8; 4]) -> Result<Self> {
        let socket = named::socket(SocketType::DGRAM)?;
        passing::ask_for_senders(socket.as_fd())?;
        net::bind(&socket, &named::name(&name(slot))?)?;
        Ok(Self {
            socket: Socket::new(socket),
            user: rustix::process::getuid().as_raw(),
            table,
        })
    }

    /// Its socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Says a word at the door of another slot, without waiting.
    ///
    /// # Errors
    /// ECONNREFUSED if there is no such process; EAGAIN if it does not keep up.
    pub fn say(&self, to: u16, word: Word, descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        let mut bytes = word.emit();
        if let Some(table) = bytes.get_mut(TABLE) {
            table.copy_from_slice(&self.table);
        }
        passing::pass(self.socket(), name(to).as_bytes(), &bytes, descriptors)
    }

    /// The next that was said; `None` for what is not understood, or comes from another user, another
    /// process table, or from nobody who can be seen.
    ///
    /// # Errors
    /// EAGAIN if there is nothing.
    pub fn hear(&self) -> Result<Option<Said>> {
        let mut buffer = [0; LENGTH];
        let passed = passing::take(self.socket(), &mut buffer)?;
        Ok(self.understand(passed, &buffer))
    }

    fn understand(&self, passed: passing::Passed, buffer: &[u8]) -> Option<Said> {
        let sender = passed.sender.filter(|sender| sender.uid == self.user)?;
        let bytes = buffer.get(..passed.length?)?;
        if bytes.get(TABLE)? != self.table {
            return None;
        }
        let word = Word::parse(bytes)?;
        Some(Said {
            slot: slot_of(&passed.name)?,
            pid: (sender.pid > 0).then_some(sender.pid)?,
            word,
            descriptors: passed.descriptors,
        })
    }

    /// Waits until there is something to hear, at most so long.
    pub fn wait(&self, nanos: i64) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let time = Timespec {
            tv_sec: 0,
            tv_nsec: nanos,
        };
        let socket = self.socket();
        // An interruption is as good as the end of the time.
        let _ = poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&time));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_read_as_they_were_written() {
        let greeting = Word::Greeting {
            generation: 77,
            asks: true,
        };
        for word in [Word::Bell, greeting, Word::Farewell] {
            assert_eq!(Word::parse(&word.emit()), Some(word));
        }
        assert_eq!(slot_of(name(1022).as_bytes()), Some(1022));
        assert_eq!(slot_of(b"uroce/1022"), None);
        assert_eq!(slot_of(b"uroce/99999/shm"), None);
    }

    #[test]
    fn other_process_tables_are_not_listened_to() {
        // Slots that nobody can have.
        let of = |slot, table: u32| Door::open_as(slot, table.to_ne_bytes()).expect("a door");
        let here = of(2001, 7);
        let (near, far) = (of(2002, 7), of(2003, 8));
        for (door, listens) in [(near, true), (far, false)] {
            door.say(2001, Word::Bell, &[]).expect("said");
            let said = here.hear().expect("there").map(|said| said.word);
            assert_eq!(said, listens.then_some(Word::Bell));
        }
        assert!(process_table().is_ok_and(|table| table != [0; 4]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some(word) = Word::parse(&bytes) {
                prop_assert_eq!(&word.emit()[..2], &bytes[..2]);
            }
            prop_assert_eq!(slot_of(&bytes), None);
        }
    }
}
