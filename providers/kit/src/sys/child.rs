//! Descriptors that a forked child shall not have.
//!
//! Close-on-exec has no effect in a child that never calls exec. If a copy would do harm there (a
//! socket that still takes a share of a port's packets, a name that remains taken after the
//! parent's end), the descriptor is registered here, and fork(2) closes it in the child. A bare
//! clone(2) does not.

use super::first::First;
use crate::errno::{Errno, Result};
use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// Descriptors at most.
const MOST: usize = 256;
const NONE: RawFd = -1;

static DESCRIPTORS: [AtomicI32; MOST] = [const { AtomicI32::new(NONE) }; MOST];

/// A registration, until it is dropped. To be dropped before the descriptor is closed.
#[derive(Debug)]
pub struct ParentOnly(&'static AtomicI32);

impl ParentOnly {
    /// Registers a descriptor. In the child its number is free, or another descriptor's, so the
    /// child must not close it.
    ///
    /// # Errors
    /// ENOMEM if 256 are registered, or of pthread_atfork(3).
    pub fn new(fd: BorrowedFd<'_>) -> Result<Self> {
        static HANDLER: First<c_int> = First::new();
        // SAFETY: a handler that lives as long as the library, which is not unloaded while a
        // provider's device is open (glibc takes the handlers of an unloaded library away). Two
        // threads may register it twice; the second call of it finds nothing to do.
        let failed =
            *HANDLER.get_or_make(|| unsafe { libc::pthread_atfork(None, None, Some(in_child)) });
        if failed != 0 {
            return Err(Errno(failed));
        }
        let claim = |place: &&AtomicI32| {
            let claimed = place.compare_exchange(NONE, fd.as_raw_fd(), SeqCst, SeqCst);
            claimed.is_ok()
        };
        let place = DESCRIPTORS.iter().find(claim).ok_or(Errno::NOMEM)?;
        Ok(Self(place))
    }
}

impl Drop for ParentOnly {
    fn drop(&mut self) {
        self.0.store(NONE, SeqCst);
    }
}

/// Uses only functions that are allowed after fork(2) in a process of several threads: atomics and
/// close(2).
unsafe extern "C" fn in_child() {
    for place in &DESCRIPTORS {
        let fd = place.swap(NONE, SeqCst);
        if fd != NONE {
            // SAFETY: the parent's owner is not in this process; nothing uses its number here.
            unsafe { libc::close(fd) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn open_in_child(fd: RawFd) -> bool {
        // SAFETY: the child calls fcntl(2) and _exit(2) only.
        match unsafe { libc::fork() } {
            0 => {
                // SAFETY: as above.
                let open = unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0;
                // SAFETY: as above.
                unsafe { libc::_exit(c_int::from(open)) }
            }
            child => {
                let mut status = 0;
                // SAFETY: waits for the child just made.
                unsafe { libc::waitpid(child, &raw mut status, 0) };
                assert!(libc::WIFEXITED(status));
                libc::WEXITSTATUS(status) == 1
            }
        }
    }

    #[test]
    fn a_child_has_none_of_them() {
        let (near, _far) = std::os::unix::net::UnixStream::pair().expect("sockets");
        let fd = near.as_fd().as_raw_fd();
        assert!(open_in_child(fd));
        let registered = ParentOnly::new(near.as_fd()).expect("registered");
        assert!(!open_in_child(fd));
        assert!(!open_in_child(fd));
        drop(registered);
        assert!(open_in_child(fd));
    }
}
