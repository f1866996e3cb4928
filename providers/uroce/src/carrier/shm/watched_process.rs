//! A process whose end wakes the thread that looks after peers.
#![forbid(unsafe_code)]

use kit::errno::Result;
use kit::sys::fork_guard::ForkGuard;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A process, in a set of those whose ends are watched for, until this is dropped.
#[derive(Debug)]
pub(super) struct WatchedProcess {
    process: OwnedFd,
    set: Arc<OwnedFd>,
    /// The process that has opened it. A forked child has the same set, and takes nothing from it.
    opener: ForkGuard,
}

impl WatchedProcess {
    /// A process of a slot, by which the set reports its end.
    ///
    /// # Errors
    /// ENOSYS without pidfd_open(2), ESRCH if it has ended; ENOMEM; of epoll_ctl(2).
    pub fn open(pid: Pid, set: &Arc<OwnedFd>, slot: u16) -> Result<Self> {
        let opener = ForkGuard::new()?;
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        let data = EventData::new_u64(u64::from(slot));
        epoll::add(&**set, &process, data, EventFlags::IN)?;
        Ok(Self {
            process,
            set: Arc::clone(set),
            opener,
        })
    }

    /// Its end is not reported any more. Closing the descriptor is not enough: a forked child may
    /// have a copy, and the set would report the end again and again.
    pub fn unwatch(&self) {
        if self.opener.here().is_ok() {
            let _ = epoll::delete(&*self.set, &self.process);
        }
    }
}

/// Ready to read once the process has ended (pidfd_open(2)).
impl AsFd for WatchedProcess {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }
}

impl Drop for WatchedProcess {
    fn drop(&mut self) {
        self.unwatch();
    }
}
