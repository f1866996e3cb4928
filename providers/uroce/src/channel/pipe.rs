//! A pipe that carries records, each read whole or not at all.
//!
//! The application's descriptor is the read end of a pipe whose writes are packets (pipe(7),
//! `O_DIRECT`). For programs such a descriptor behaves like a kernel's: it is readable as long as
//! there is a record, never writable (poll(2) has no POLLOUT, write(2) is EBADF), and one read(2)
//! takes one record, independent of its buffer's size. A socket can be written to from either end,
//! so event loops that ask for both would spin on it. A packet of a pipe also costs less than a
//! message between two SOCK_SEQPACKET sockets. An eventfd carries a count and no records.

use kit::errno::{Errno, Result};
use kit::sys::pipe;
use kit::sys::ready::{self, ReadyTo};
use rustix::fs::{CWD, Mode, OFlags, fcntl_setfl, openat};
use rustix::io::{Errno as Os, fcntl_dupfd_cloexec, read, write};
use rustix::pipe::{PipeFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

/// A record, as it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    bytes: [u8; Self::MOST],
    length: usize,
}

impl Record {
    /// Bytes of the longest record, that of an asynchronous event.
    const MOST: usize = 16;

    /// `None` if it is longer than any record.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut record = Self {
            bytes: [0; Self::MOST],
            length: bytes.len(),
        };
        record.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(record)
    }

    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// Data written to a pipe: records of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Completion events (`struct ib_uverbs_comp_event_desc`).
    Completions,
    /// Asynchronous events (`struct ib_uverbs_async_event_desc`).
    Asynchronous,
}

impl Kind {
    fn length(self) -> usize {
        match self {
            Self::Completions => 8,
            Self::Asynchronous => 16,
        }
    }
}

/// The most that a pipe is made to hold, in bytes: 256 records of a page each, which every user may
/// have (/proc/sys/fs/pipe-max-size).
const LARGEST: usize = 1 << 20;
/// A pipe without room is made larger by this factor.
const GROWTH: usize = 4;

/// The end that is written to, and a second descriptor of the one that the application reads.
pub struct Pipe {
    write: Arc<OwnedFd>,
    unread: Unread,
    kind: Kind,
}

impl Pipe {
    /// Also answers the application's descriptor.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM.
    pub fn new(kind: Kind) -> Result<(Self, OwnedFd)> {
        let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
        let (given, write) = match pipe_with(flags | PipeFlags::DIRECT) {
            // A system without packets (gVisor): a reader that asks for the length of a record, as
            // libibverbs does, still gets it whole from a stream.
            Err(Os::INVAL) => pipe_with(flags)?,
            made => made?,
        };
        // The application decides whether reads block.
        fcntl_setfl(&given, OFlags::empty())?;
        let unread = Unread::new(&given)?;
        Ok((
            Self {
                write: Arc::new(write),
                unread,
                kind,
            },
            given,
        ))
    }

    /// Writes a record if there is room; `false` if not.
    pub fn send(&self, record: &Record) -> bool {
        loop {
            match write(&self.write, record.bytes()) {
                Err(Os::INTR) => {}
                Err(Os::AGAIN) if self.grow() => {}
                // Or the kernel has no memory, which is tried again like a lack of room. There is a
                // reader as long as there is a writer: this process has both.
                Err(_) => return false,
                Ok(_) => return true,
            }
        }
    }

    /// Makes room for more; `false` if there may not be more. Not at once: users have a share of
    /// all pipes' memory (/proc/sys/fs/pipe-user-pages-soft), and most channels never hold many
    /// records.
    fn grow(&self) -> bool {
        let size = fcntl_getpipe_size(&self.write).unwrap_or(LARGEST);
        size < LARGEST && fcntl_setpipe_size(&self.write, size.saturating_mul(GROWTH)).is_ok()
    }

    /// Takes an unread record back.
    pub fn take(&self) -> Option<Record> {
        let mut bytes = [0; Record::MOST];
        let room = bytes.get_mut(..self.kind.length())?;
        let length = self.unread.take(room).ok().filter(|length| *length > 0)?;
        Record::new(bytes.get(..length)?)
    }

    /// The end that is written to, to wait with. It takes no descriptor: there may be none left.
    pub fn writer(&self) -> Writer {
        Writer(Arc::clone(&self.write))
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // Objects of these records are gone. The room wakes a thread that waits with a `Writer`.
        while self.take().is_some() {}
    }
}

/// Reads without waiting, though the application's descriptor waits.
enum Unread {
    /// By vmsplice(2).
    Spliced(OwnedFd),
    /// Where that call is not let through: the end that is read from, opened once more.
    Reopened(OwnedFd),
}

impl Unread {
    /// # Errors
    /// EMFILE; if both ways fail, the error of the second.
    fn new(given: &OwnedFd) -> Result<Self> {
        // The pipe is empty.
        if pipe::take(given.as_fd(), &mut [0]) == Err(Errno::AGAIN) {
            return Ok(Self::Spliced(fcntl_dupfd_cloexec(given, 0)?));
        }
        Self::reopen(given)
    }

    fn reopen(given: &OwnedFd) -> Result<Self> {
        let path = format!("/proc/self/fd/{}", given.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(Self::Reopened(openat(CWD, path, flags, Mode::empty())?))
    }

    fn take(&self, room: &mut [u8]) -> Result<usize> {
        match self {
            Self::Spliced(fd) => pipe::take(fd.as_fd(), room),
            Self::Reopened(fd) => loop {
                match read(fd, &mut *room) {
                    Err(Os::INTR) => {}
                    taken => return Ok(taken?),
                }
            },
        }
    }
}

/// Waits for room.
pub struct Writer(Arc<OwnedFd>);

impl Writer {
    /// Until there is room, or the pipe is gone.
    ///
    /// # Errors
    /// ENOMEM; EINVAL, ENOSYS or EPERM where a filter of system calls denies them.
    pub fn wait(&self) -> Result<()> {
        loop {
            match ready::wait(self.0.as_fd(), ReadyTo::Write, None) {
                Err(Errno(libc::EINTR)) => {}
                waited => return waited.map(drop),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64) -> Record {
        Record::new(&number.to_ne_bytes()).expect("short")
    }

    #[test]
    fn a_read_takes_one_record_whatever_its_room() {
        let (pipe, given) = Pipe::new(Kind::Completions).expect("made");
        assert!(pipe.send(&record(1)) && pipe.send(&record(2)));
        let mut room = [0; 64];
        assert_eq!(read(&given, &mut room), Ok(8));
        assert_eq!(room[..8], 1u64.to_ne_bytes());
        assert_eq!(pipe.take(), Some(record(2)));
        assert_eq!(pipe.take(), None);
    }

    #[test]
    fn a_wait_for_room_takes_no_descriptor_and_ends() {
        let (pipe, _given) = Pipe::new(Kind::Completions).expect("made");
        let writer = pipe.writer();
        assert_eq!(writer.0.as_raw_fd(), pipe.write.as_raw_fd());
        while pipe.send(&record(1)) {}
        drop(pipe);
        // Its records are gone.
        assert_eq!(writer.wait(), Ok(()));
    }

    #[test]
    fn it_grows_to_as_many_as_users_may_have() {
        let (pipe, _given) = Pipe::new(Kind::Completions).expect("made");
        let before = fcntl_getpipe_size(&pipe.write).expect("asked");
        let fit = (0..1000).take_while(|n| pipe.send(&record(*n))).count();
        let after = fcntl_getpipe_size(&pipe.write).expect("asked");
        // A user with many pipes gets no larger ones.
        assert!(after == LARGEST || after >= before, "{before} {after}");
        assert!((2..1000).contains(&fit), "{fit}");
        let all = std::iter::from_fn(|| pipe.take());
        assert!(all.eq((0..).map(record).take(fit)));
    }

    #[test]
    fn records_are_taken_back_by_either_way() {
        let (pipe, given) = Pipe::new(Kind::Asynchronous).expect("made");
        let other = Unread::reopen(&given).expect("opened");
        assert!(matches!(pipe.unread, Unread::Spliced(_)));
        let event = Record::new(&[7; 16]).expect("short");
        assert!(pipe.send(&event));
        let mut room = [0; 16];
        assert_eq!(other.take(&mut room), Ok(16));
        assert_eq!(room, [7; 16]);
        assert_eq!(other.take(&mut room), Err(Errno::AGAIN));
        assert_eq!(pipe.take(), None);
    }
}
