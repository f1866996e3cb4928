//! Reading a pipe without waiting, whatever its other readers asked for: `O_NONBLOCK` belongs to
//! all descriptors of one end.

use crate::errno::{Errno, Result};
use core::ffi::c_void;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Takes bytes out of a pipe, as many as are there and `room` has place for (vmsplice(2)). Of a
/// packet (`O_DIRECT`) that is longer the rest stays.
///
/// # Errors
/// EAGAIN if it is empty, EBADF for something else than the end of a pipe that is read from; ENOSYS
/// or EPERM where the call is not let through.
pub fn take(pipe: BorrowedFd<'_>, room: &mut [u8]) -> Result<usize> {
    let piece = libc::iovec {
        iov_base: room.as_mut_ptr().cast::<c_void>(),
        iov_len: room.len(),
    };
    loop {
        // SAFETY: one piece, which is exclusively borrowed memory of that length; from the end of a
        // pipe that is read from, the kernel copies.
        let taken = unsafe {
            libc::vmsplice(
                pipe.as_raw_fd(),
                &raw const piece,
                1,
                libc::SPLICE_F_NONBLOCK,
            )
        };
        match usize::try_from(taken) {
            Ok(taken) => return Ok(taken),
            Err(_) => match crate::sys::errno::get() {
                Errno(libc::EINTR) => {}
                error => return Err(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::write;
    use rustix::pipe::pipe;
    use std::os::fd::AsFd;

    #[test]
    fn an_empty_pipe_is_not_waited_for() {
        let (read, written) = pipe().expect("made");
        let mut room = [0; 4];
        assert_eq!(take(read.as_fd(), &mut room), Err(Errno::AGAIN));
        assert_eq!(write(&written, b"abcdef"), Ok(6));
        assert_eq!(take(read.as_fd(), &mut room), Ok(4));
        assert_eq!(&room, b"abcd");
        assert_eq!(take(read.as_fd(), &mut room), Ok(2));
        assert_eq!(&room[..2], b"ef");
        drop(written);
        assert_eq!(take(read.as_fd(), &mut room), Ok(0));
    }
}
