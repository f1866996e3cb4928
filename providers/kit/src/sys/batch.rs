//! Datagrams received by one call of recvmmsg(2), with the kernel's information about each: the
//! common part of the receivers of UDP ([`super::datagram`]) and of whole frames
//! ([`super::packet`]).
//!
//! A [`Batch`] owns the buffers, and vouches for the pointers that it gives the kernel. Its users
//! know the meaning of names and control messages; their tests are its tests.

use super::control::{Control, ROOM};
use super::errno;
use crate::errno::{Errno, Result};
use core::mem::zeroed;
use core::ptr::null_mut;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Datagrams taken at once.
pub const BATCH: usize = 8;

/// The socket address of a family.
///
/// # Safety
/// All bytes are numbers, so that any bytes are a value.
pub(super) unsafe trait SocketAddress {}

// SAFETY: numbers.
unsafe impl SocketAddress for libc::sockaddr_storage {}
// SAFETY: numbers.
unsafe impl SocketAddress for libc::sockaddr_ll {}

/// Information about a datagram besides its bytes.
pub(super) struct Envelope<N> {
    /// Where from.
    pub name: N,
    /// Control messages.
    pub control: Control,
    /// Bytes.
    pub length: usize,
    /// Neither the datagram nor its control messages were cut.
    pub whole: bool,
}

impl<N> Envelope<N> {
    /// Takes over what the kernel has said of a datagram, which has `longest` bytes at most.
    fn take_over(&mut self, header: &libc::mmsghdr, longest: usize) {
        self.length = usize::try_from(header.msg_len).unwrap_or(0).min(longest);
        self.control.used = header.msg_hdr.msg_controllen.min(ROOM);
        let cut = libc::MSG_TRUNC | libc::MSG_CTRUNC;
        self.whole = header.msg_hdr.msg_flags & cut == 0;
    }
}

/// Buffers for [`BATCH`] datagrams.
pub(super) struct Batch<N> {
    bytes: Box<[u8]>,
    places: Box<[Envelope<N>]>,
    filled: usize,
    /// Bytes of a buffer.
    size: usize,
    /// Bytes at the beginning of a buffer that the kernel does not write.
    front: usize,
}

impl<N: SocketAddress> Batch<N> {
    /// Empty buffers for datagrams of that many bytes, each with room in front.
    pub fn new(front: usize, longest: usize) -> Self {
        let size = front + longest;
        let place = |_| Envelope {
            // SAFETY: a structure of numbers, for which zeros are values.
            name: unsafe { zeroed() },
            control: Control::new(),
            length: 0,
            whole: false,
        };
        Self {
            bytes: vec![0; BATCH * size].into_boxed_slice(),
            places: (0..BATCH).map(place).collect(),
            filled: 0,
            size,
            front,
        }
    }

    /// Receives the pending datagrams, without waiting. Returns their number; earlier datagrams are
    /// dropped.
    ///
    /// # Errors
    /// Of recvmmsg(2): EAGAIN if there is nothing.
    pub fn receive(&mut self, fd: BorrowedFd<'_>) -> Result<usize> {
        self.filled = 0;
        // SAFETY: structures of numbers and pointers, for which zeros are values.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
        // SAFETY: as above.
        let mut pieces: [libc::iovec; BATCH] = unsafe { zeroed() };
        let buffers = self.bytes.chunks_exact_mut(self.size);
        for (((header, piece), place), buffer) in headers
            .iter_mut()
            .zip(&mut pieces)
            .zip(&mut self.places)
            .zip(buffers)
        {
            let (_, room) = buffer.split_at_mut(self.front);
            aim(&mut header.msg_hdr, piece, place, room);
        }
        let count = libc::c_uint::try_from(BATCH).unwrap_or(1);
        // SAFETY: every header points to buffers of the lengths it names, which live through the
        // call and belong to nothing else.
        let got = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                headers.as_mut_ptr(),
                count,
                libc::MSG_DONTWAIT,
                null_mut(),
            )
        };
        let got = match usize::try_from(got) {
            Ok(got) => got,
            Err(_) => receive_alone(fd, headers.first_mut())?,
        };
        let longest = self.size - self.front;
        for (place, header) in self.places.iter_mut().zip(&headers).take(got) {
            place.take_over(header, longest);
        }
        self.filled = got.min(BATCH);
        Ok(self.filled)
    }

    /// Receives one pending datagram, without waiting. Where there is none, or one alone, this
    /// takes less time than [`Batch::receive`].
    ///
    /// # Errors
    /// Of recvmsg(2): EAGAIN if there is nothing.
    pub fn receive_one(&mut self, fd: BorrowedFd<'_>) -> Result<usize> {
        self.filled = 0;
        let buffer = self.bytes.get_mut(self.front..self.size);
        let (Some(place), Some(room)) = (self.places.first_mut(), buffer) else {
            return Ok(0);
        };
        // SAFETY: structures of numbers and pointers, for which zeros are values.
        let mut header: libc::mmsghdr = unsafe { zeroed() };
        // SAFETY: as above.
        let mut piece: libc::iovec = unsafe { zeroed() };
        let longest = room.len();
        aim(&mut header.msg_hdr, &mut piece, place, room);
        // SAFETY: the header points to buffers of the lengths it names, which live through the call
        // and belong to nothing else.
        let got = unsafe { take(fd, &mut header) };
        if !got {
            receive_alone(fd, Some(&mut header))?;
        }
        place.take_over(&header, longest);
        self.filled = 1;
        Ok(1)
    }

    /// One of those received last, and its buffer, room in front included; `None` if it did not
    /// fit.
    pub fn get(&self, index: usize) -> Option<(&Envelope<N>, &[u8])> {
        let place = self.places.get(index).filter(|_| index < self.filled)?;
        let start = index.checked_mul(self.size)?;
        let buffer = self.bytes.get(start..start + self.size)?;
        place.whole.then_some((place, buffer))
    }

    /// Those received last, each with its buffer, room in front included.
    pub fn each(&mut self) -> impl Iterator<Item = (&mut Envelope<N>, &mut [u8])> {
        let buffers = self.bytes.chunks_exact_mut(self.size);
        self.places.iter_mut().zip(buffers).take(self.filled)
    }
}

/// Where recvmmsg(2) failed: one datagram, unless it is that there is none. A sandbox may know the
/// older call alone, and deny the other with any number; an error that a socket was waiting to
/// report is reported once, and a datagram may be behind it.
fn receive_alone(fd: BorrowedFd<'_>, header: Option<&mut libc::mmsghdr>) -> Result<usize> {
    let error = errno::get();
    let Some(header) = header.filter(|_| error != Errno::AGAIN) else {
        return Err(error);
    };
    // SAFETY: the header points to buffers of the lengths it names, which live through the call and
    // belong to nothing else.
    if unsafe { take(fd, header) } {
        return Ok(1);
    }
    Err(errno::get())
}

/// Receives one datagram by recvmsg(2). Returns whether there was one; if not, errno says why.
///
/// # Safety
/// The header points to buffers of the lengths it names, which live through the call and belong to
/// nothing else.
unsafe fn take(fd: BorrowedFd<'_>, header: &mut libc::mmsghdr) -> bool {
    // SAFETY: vouched for by the caller.
    let got = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut header.msg_hdr, libc::MSG_DONTWAIT) };
    // No datagram is longer.
    header.msg_len = u32::try_from(got).unwrap_or(0);
    got >= 0
}

/// Has a header point to the buffers of one datagram.
fn aim<N: SocketAddress>(
    header: &mut libc::msghdr,
    piece: &mut libc::iovec,
    place: &mut Envelope<N>,
    room: &mut [u8],
) {
    piece.iov_base = room.as_mut_ptr().cast();
    piece.iov_len = room.len();
    header.msg_name = (&raw mut place.name).cast();
    header.msg_namelen = libc::socklen_t::try_from(size_of::<N>()).unwrap_or(0);
    header.msg_iov = piece;
    header.msg_iovlen = 1;
    header.msg_control = place.control.bytes.as_mut_ptr().cast();
    header.msg_controllen = ROOM;
}
