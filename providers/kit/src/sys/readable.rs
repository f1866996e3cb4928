//! Whether a descriptor can be read from, without waiting for it.

use crate::errno::{Errno, Result};
use rustix::event::{
    FdSetElement, PollFd, PollFlags, Timespec, fd_set_insert, fd_set_num_elements, poll, select,
};
use std::os::fd::{AsRawFd, BorrowedFd};

const AT_ONCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// Whether a descriptor is ready to read now.
///
/// poll(2) takes no more descriptors than a process may have (RLIMIT_NOFILE): none in a program
/// that keeps itself from opening any. select(2) knows no such limit.
///
/// # Errors
/// ENOMEM; ENOSYS or EPERM where a filter of system calls denies them.
pub fn is_readable(fd: BorrowedFd<'_>) -> Result<bool> {
    let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    loop {
        let ready = match poll(&mut polled, Some(&AT_ONCE)) {
            Err(rustix::io::Errno::INVAL) => selected(fd),
            ready => ready.map(|count| count > 0),
        };
        match ready {
            Err(rustix::io::Errno::INTR) => {}
            ready => return ready.map_err(Errno::from),
        }
    }
}

#[cold]
fn selected(fd: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    let end = fd.as_raw_fd().saturating_add(1);
    let mut set = vec![FdSetElement::default(); fd_set_num_elements(1, end)];
    fd_set_insert(&mut set, fd.as_raw_fd());
    // SAFETY: the only member of the set is borrowed.
    let ready = unsafe { select(end, Some(&mut set), None, None, Some(&AT_ONCE)) };
    ready.map(|count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::pipe;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use std::os::fd::AsFd;

    /// In a child that may have no descriptors, and in this process.
    fn answers(fd: BorrowedFd<'_>) -> [bool; 2] {
        // SAFETY: the child asks the kernel, and ends.
        let child = match unsafe { libc::fork() } {
            0 => {
                let none = Rlimit {
                    current: Some(0),
                    ..getrlimit(Resource::Nofile)
                };
                let is_limited = setrlimit(Resource::Nofile, none).is_ok();
                let answer = is_limited && is_readable(fd).unwrap_or(false);
                // SAFETY: ends the child.
                unsafe { libc::_exit(i32::from(answer)) }
            }
            child => child,
        };
        let mut status = 0;
        // SAFETY: waits for the child just made.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status));
        let in_child = libc::WEXITSTATUS(status) == 1;
        [in_child, is_readable(fd).expect("asked")]
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no fork(2)")]
    fn a_limit_of_no_descriptors_changes_nothing() {
        let (read, written) = pipe().expect("a pipe");
        assert_eq!(answers(read.as_fd()), [false; 2]);
        rustix::io::write(&written, b"x").expect("written");
        assert_eq!(answers(read.as_fd()), [true; 2]);
    }
}
