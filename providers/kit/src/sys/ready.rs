//! Whether a descriptor can be read from or written to, and waiting for that.
//!
//! poll(2) takes no more descriptors than a process may have (RLIMIT_NOFILE): none in a program
//! that keeps itself from opening any. select(2) knows no such limit. Therefore all code that waits
//! for a descriptor does so here.

use crate::errno::{Errno, Result};
use rustix::event::{
    FdSetElement, PollFd, PollFlags, Timespec, fd_set_insert, fd_set_num_elements, poll, select,
};
use std::os::fd::{AsRawFd, BorrowedFd};

const AT_ONCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// The use of a descriptor that a thread waits for. An error or the end of the other side counts as
/// ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadyTo {
    /// read(2) does not block.
    Read,
    /// write(2) does not block.
    Write,
}

/// Whether a descriptor is ready to read now.
///
/// # Errors
/// ENOMEM; EINVAL, ENOSYS or EPERM where a filter of system calls denies them.
pub fn is_readable(fd: BorrowedFd<'_>) -> Result<bool> {
    loop {
        match wait(fd, ReadyTo::Read, Some(&AT_ONCE)) {
            Err(Errno(libc::EINTR)) => {}
            ready => return ready,
        }
    }
}

/// Waits until a descriptor is ready, without a time for ever; whether it is.
///
/// # Errors
/// EINTR; ENOMEM; ENOSYS or EPERM where a filter of system calls denies poll(2); EINVAL where
/// select(2) is denied and would be needed.
#[expect(
    clippy::disallowed_methods,
    reason = "with the other call for limited processes"
)]
pub fn wait(fd: BorrowedFd<'_>, to: ReadyTo, timeout: Option<&Timespec>) -> Result<bool> {
    let flags = match to {
        ReadyTo::Read => PollFlags::IN,
        ReadyTo::Write => PollFlags::OUT,
    };
    let ready = match poll(&mut [PollFd::from_borrowed_fd(fd, flags)], timeout) {
        Err(rustix::io::Errno::INVAL) => selected(fd, to, timeout),
        ready => ready.map(|count| count > 0),
    };
    Ok(ready?)
}

#[cold]
fn selected(
    fd: BorrowedFd<'_>,
    to: ReadyTo,
    timeout: Option<&Timespec>,
) -> rustix::io::Result<bool> {
    let end = fd.as_raw_fd().saturating_add(1);
    let mut set = vec![FdSetElement::default(); fd_set_num_elements(1, end)];
    fd_set_insert(&mut set, fd.as_raw_fd());
    let (read, write) = match to {
        ReadyTo::Read => (Some(&mut *set), None),
        ReadyTo::Write => (None, Some(&mut *set)),
    };
    // SAFETY: the only member of the set is borrowed.
    match unsafe { select(end, read, write, None, timeout) } {
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => Err(rustix::io::Errno::INVAL),
        ready => ready.map(|count| count > 0),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::sys::in_child::status_of;
    use rustix::pipe::{PipeFlags, pipe, pipe_with};
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use std::os::fd::AsFd;

    const SOON: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };

    /// The answer to a question in a child that may have no descriptors, and in this process.
    pub fn answers(ask: impl Fn() -> Result<bool>) -> [Result<bool>; 2] {
        const FAILED: i32 = 2;
        let status = status_of(|| {
            let none = Rlimit {
                current: Some(0),
                ..getrlimit(Resource::Nofile)
            };
            match setrlimit(Resource::Nofile, none) {
                Ok(()) => ask().map_or(FAILED, i32::from),
                Err(_) => FAILED,
            }
        });
        let in_child = match status {
            FAILED => Err(Errno::INVAL),
            answer => Ok(answer == 1),
        };
        [in_child, ask()]
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no fork(2)")]
    fn a_limit_of_no_descriptors_changes_nothing_for_readers() {
        let (read, written) = pipe().expect("a pipe");
        let is_ready = || is_readable(read.as_fd());
        let is_soon = || wait(read.as_fd(), ReadyTo::Read, Some(&SOON));
        assert_eq!(answers(is_ready), [Ok(false); 2]);
        assert_eq!(answers(is_soon), [Ok(false); 2]);
        rustix::io::write(&written, b"x").expect("written");
        assert_eq!(answers(is_ready), [Ok(true); 2]);
        assert_eq!(answers(is_soon), [Ok(true); 2]);
        assert_eq!(
            answers(|| wait(read.as_fd(), ReadyTo::Read, None)),
            [Ok(true); 2]
        );
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no fork(2)")]
    fn a_limit_of_no_descriptors_changes_nothing_for_writers() {
        let (read, written) = pipe_with(PipeFlags::NONBLOCK).expect("a pipe");
        let is_ready = || wait(written.as_fd(), ReadyTo::Write, Some(&SOON));
        assert_eq!(answers(is_ready), [Ok(true); 2]);
        while rustix::io::write(&written, &[0; 4096]).is_ok() {}
        assert_eq!(answers(is_ready), [Ok(false); 2]);
        drop(read);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no fork(2)")]
    fn the_end_of_the_other_side_is_ready_under_a_limit_of_no_descriptors() {
        let (read, written) = pipe_with(PipeFlags::NONBLOCK).expect("a pipe");
        while rustix::io::write(&written, &[0; 4096]).is_ok() {}
        drop(read);
        let is_over = || wait(written.as_fd(), ReadyTo::Write, None);
        assert_eq!(answers(is_over), [Ok(true); 2]);
    }
}
