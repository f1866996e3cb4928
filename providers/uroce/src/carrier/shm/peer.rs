//! A process that this one has met.

use super::link::Link;
use super::segment::{CLOSED, Segment};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// A process that this one has met: perhaps this one itself.
#[derive(Debug)]
pub struct Peer {
    pub(super) slot: u16,
    pub(super) generation: u64,
    pub(super) pid: Pid,
    /// Ready to read once the process has ended.
    pub(super) process: OwnedFd,
    pub(super) segment: Segment,
    pub(super) link: Link,
    /// The descriptor of a link that was made here: the peer may ask for it again.
    pub(super) handed: Option<OwnedFd>,
    pub(super) gone: AtomicBool,
}

impl Peer {
    /// Its slot.
    #[must_use]
    pub fn slot(&self) -> u16 {
        self.slot
    }

    /// Its process number. It may be another's once the process is gone, see [`Peer::has_ended`].
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// What tells it from other processes that have its slot before or after.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Its segment. Whatever is read there may be wrong.
    #[must_use]
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// The link with it.
    #[must_use]
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Whether it is known to be gone: it has ended, closed its last device, or broken a rule. For
    /// good, and without a system call; what has just ended may not be known yet.
    #[must_use]
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.gone.load(SeqCst) || self.segment.attention().load(SeqCst) & CLOSED != 0
    }

    /// Does not listen to it any more.
    pub fn give_up(&self) {
        self.gone.store(true, SeqCst);
    }

    /// Asks the kernel whether the process has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let process = self.process.as_fd();
        let mut ready = [PollFd::new(&process, PollFlags::IN)];
        loop {
            match poll(&mut ready, Some(&now)) {
                Ok(count) => return count > 0,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// A descriptor that is ready to read once the process has ended (pidfd_open(2)).
    pub(super) fn process(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }
}
