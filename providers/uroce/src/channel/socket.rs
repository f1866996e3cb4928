//! A pair of sockets that carries records, each read whole or not at all.

use kit::errno::{Errno, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno as Os, fcntl_dupfd_cloexec};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown,
    socketpair,
};
use std::os::fd::{AsFd, OwnedFd};

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

/// Both ends: the one written to, and a second descriptor of the one that the application reads.
pub struct Pair {
    write: OwnedFd,
    read: OwnedFd,
}

impl Pair {
    /// Also answers the application's descriptor.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM.
    pub fn new() -> Result<(Self, OwnedFd)> {
        let kind = SocketType::SEQPACKET;
        let (write, given) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        let read = fcntl_dupfd_cloexec(&given, 0)?;
        Ok((Self { write, read }, given))
    }

    /// Sends a record if there is room; `false` if not.
    pub fn send(&self, record: &Record) -> bool {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        loop {
            match send(&self.write, record.bytes(), flags) {
                Err(Os::INTR) => {}
                // Not for lack of room: nobody can read it any more, or the kernel has no memory,
                // which is tried again like a lack of room.
                Err(Os::PIPE | Os::CONNRESET) => return true,
                Err(_) => return false,
                Ok(_) => return true,
            }
        }
    }

    /// Takes a record back that nobody has read.
    pub fn take(&self) -> Option<Record> {
        let mut bytes = [0; Record::MOST];
        loop {
            match recv(&self.read, bytes.as_mut_slice(), RecvFlags::DONTWAIT) {
                Err(Os::INTR) => {}
                Err(_) | Ok((_, 0)) => return None,
                Ok((_, length)) => return Record::new(bytes.get(..length)?),
            }
        }
    }

    /// A second descriptor of the end that is written to, to wait with.
    ///
    /// # Errors
    /// EMFILE.
    pub fn writer(&self) -> Result<Writer> {
        Ok(Writer(fcntl_dupfd_cloexec(&self.write, 0)?))
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // Wakes whoever waits with a `Writer`. What was sent stays to be read.
        let _ = shutdown(&self.write, Shutdown::Both);
    }
}

/// Waits for room.
pub struct Writer(OwnedFd);

impl Writer {
    /// Until there is room, or the pair is gone.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn wait(&self) -> Result<()> {
        let mut watched = [PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::OUT)];
        loop {
            match poll(&mut watched, None) {
                Err(Os::INTR) => {}
                Err(error) => return Err(Errno::from(error)),
                Ok(_) => return Ok(()),
            }
        }
    }
}
