#![forbid(unsafe_code)]
//! A socket to one of the kernel's netlink protocols.

use super::frame::{self, Progress, Question};
use crate::errno::{Errno, Result};
use rustix::buffer::spare_capacity;
use rustix::io::retry_on_intr;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{self, AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The kernel sends lists in pieces of at most 32 KiB.
const DATAGRAM: usize = 32 * 1024;

/// A connection to the kernel. Only the kernel can send to it.
pub struct Connection {
    socket: OwnedFd,
    sequence: u32,
    /// The objects of the last list changed while it was sent.
    interrupted: bool,
    /// The datagram received last. Its room is not cleared first: that would cost more than all
    /// the rest of a question.
    buffer: Vec<u8>,
}

impl Connection {
    /// Connects; without a protocol it is number 0, routing. `groups` is a set of multicast groups,
    /// bit 0 for group 1, whose messages are received, too.
    ///
    /// # Errors
    /// EPROTONOSUPPORT when the kernel does not have the protocol; EMFILE, ENFILE, ENOMEM.
    pub fn open(protocol: Option<Protocol>, groups: u32) -> Result<Self> {
        let socket = net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            protocol,
        )?;
        if groups != 0 {
            net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
        }
        net::connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self {
            socket,
            sequence: 0,
            interrupted: false,
            buffer: Vec::with_capacity(DATAGRAM),
        })
    }

    /// Asks, and calls `each` with type and payload of every message of the answer.
    ///
    /// # Errors
    /// The kernel's; EPROTO when its answer cannot be read; those of `each`, which leave the
    /// rest of the answer unread.
    pub fn ask(
        &mut self,
        question: &Question<'_>,
        mut each: impl FnMut(u16, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = question.bytes(self.sequence)?;
        retry_on_intr(|| net::send(&self.socket, &request, SendFlags::empty()))?;
        let sequence = self.sequence;
        self.interrupted = false;
        loop {
            // The kernel answers while it is asked, so this does not wait long.
            let datagram = self.receive(RecvFlags::empty())?;
            let interrupted = frame::is_interrupted(datagram);
            if frame::read(datagram, sequence, &mut each)? == Progress::Complete {
                self.interrupted |= interrupted;
                return Ok(());
            }
            self.interrupted |= interrupted;
        }
    }

    /// Whether the objects of the last list changed while it was sent, so that some may be missing
    /// or duplicated.
    pub fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// The next received datagram; none if there is none yet.
    ///
    /// # Errors
    /// ENOBUFS when messages were lost because this process was slow to read them.
    pub fn next_datagram(&mut self) -> Result<Option<&[u8]>> {
        match self.receive(RecvFlags::DONTWAIT) {
            Ok(datagram) => Ok(Some(datagram)),
            Err(e) if e.raw() == libc::EAGAIN => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn receive(&mut self, flags: RecvFlags) -> Result<&[u8]> {
        let flags = flags | RecvFlags::TRUNC;
        let length = retry_on_intr(|| {
            self.buffer.clear();
            let received = net::recv(&self.socket, spare_capacity(&mut self.buffer), flags);
            received.map(|(_, length)| length)
        })?;
        self.buffer.get(..length).ok_or(Errno(libc::EMSGSIZE))
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
