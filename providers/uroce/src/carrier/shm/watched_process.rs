//! A process whose end wakes the thread that looks after peers.
#![forbid(unsafe_code)]

use super::home::Home;
use kit::errno::Result;
use kit::sys::cycles;
use kit::sys::fork_guard::ForkGuard;
use kit::sys::ready::is_readable;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How long the answer of the kernel counts, in cycles. It assigns process numbers in turn, so a
/// number is used again after all others have been, which takes many times as long. A process that
/// executes another program needs about as long until that has memory. About 1 ms.
const CERTAIN: u64 = 1000 * cycles::IN_A_MICROSECOND;

/// A process, in a set of those whose ends are watched for, until this is dropped.
#[derive(Debug)]
pub(super) struct WatchedProcess {
    process: OwnedFd,
    set: Arc<OwnedFd>,
    /// The process that has opened it. A forked child has the same set, and takes nothing from it.
    opener: ForkGuard,
    /// By which its program is recognised.
    home: Option<Home>,
    /// When the process was seen with its program last, in cycles.
    seen: AtomicU64,
}

impl WatchedProcess {
    /// A process of a slot, by which the set reports its end. Without a home its program is not
    /// distinguished from a later one.
    ///
    /// # Errors
    /// ENOSYS without pidfd_open(2), ESRCH if it has ended; ENOMEM; of epoll_ctl(2).
    pub fn open(pid: Pid, set: &Arc<OwnedFd>, slot: u16, home: Option<Home>) -> Result<Self> {
        let opener = ForkGuard::new()?;
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        let data = EventData::new_u64(u64::from(slot));
        epoll::add(&**set, &process, data, EventFlags::IN)?;
        Ok(Self {
            process,
            set: Arc::clone(set),
            opener,
            home,
            seen: AtomicU64::new(long_ago()),
        })
    }

    /// Its end is not reported any more. Closing the descriptor is not enough: a forked child may
    /// have a copy, and the set would report the end again and again.
    pub fn unwatch(&self) {
        if self.opener.here().is_ok() {
            let _ = epoll::delete(&*self.set, &self.process);
        }
    }

    /// Whether its number is this process's, with the same program, now, and was since the last
    /// such answer. It asks the kernel only if that was more than about a millisecond ago.
    #[inline]
    pub fn has_its_number(&self) -> bool {
        let now = cycles::now();
        now.wrapping_sub(self.seen.load(Relaxed)) < CERTAIN || self.is_there(now)
    }

    #[cold]
    fn is_there(&self, now: u64) -> bool {
        // The program first: the process was alive then, if it is afterwards.
        let is_there = self.home.is_none_or(|home| home.is_there())
            && is_readable(self.process.as_fd()) == Ok(false);
        if is_there {
            self.seen.store(now, Relaxed);
        }
        is_there
    }
}

/// A time that is no longer certain.
fn long_ago() -> u64 {
    cycles::now().wrapping_sub(CERTAIN)
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

#[cfg(test)]
mod tests {
    use super::*;
    use kit::sys::epoll::wait;
    use kit::sys::in_child::{status_of, status_of_first};
    use rustix::event::epoll::CreateFlags;
    use std::mem::MaybeUninit;
    use std::process::{Child, Command};

    const SLOT: u16 = 3;

    fn watched() -> (Child, WatchedProcess) {
        let set = epoll::create(CreateFlags::CLOEXEC).expect("a set");
        let child = Command::new("sleep").arg("600").spawn();
        let child = child.expect("a process");
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let process = WatchedProcess::open(pid.expect("a number"), &Arc::new(set), SLOT, None);
        (child, process.expect("watched"))
    }

    /// The slots whose processes have ended.
    fn ended(process: &WatchedProcess) -> Vec<u64> {
        let mut events = [MaybeUninit::uninit(); 2];
        let events = wait(&*process.set, Some(0), &mut events).expect("asked");
        events.iter().map(|event| event.data.u64()).collect()
    }

    fn end(mut child: Child) {
        child.kill().expect("killed");
        child.wait().expect("ended");
    }

    #[test]
    fn the_end_of_a_process_is_reported_until_it_is_no_longer_watched() {
        let (child, process) = watched();
        assert_eq!(ended(&process), []);
        end(child);
        assert_eq!(ended(&process), [u64::from(SLOT)]);
        process.unwatch();
        assert_eq!(ended(&process), []);
    }

    /// The first process of a PID namespace, and its child that is the first of a nested one.
    #[test]
    fn a_forked_child_of_the_same_number_takes_nothing_from_the_set() {
        const NOT_PERMITTED: i32 = 7;
        let is_first = || std::process::id() == 1;
        let parent = || {
            let (child, process) = watched();
            let forked = || {
                process.unwatch();
                i32::from(!is_first())
            };
            let status = status_of_first(forked).unwrap_or(NOT_PERMITTED);
            end(child);
            match status {
                0 => i32::from(!is_first() || ended(&process) != [u64::from(SLOT)]),
                failed => failed,
            }
        };
        match status_of(|| status_of_first(parent).unwrap_or(NOT_PERMITTED)) {
            NOT_PERMITTED => eprintln!("skipped: a PID namespace needs root"),
            status => assert_eq!(status, 0),
        }
    }

    #[test]
    fn a_number_is_certain_as_long_as_its_process_lives() {
        let (child, process) = watched();
        assert!(process.has_its_number());
        process.seen.store(long_ago(), Relaxed);
        assert!(process.has_its_number());
        end(child);
        // The number is not used again so soon.
        while process.has_its_number() {
            std::thread::yield_now();
        }
        assert!(!process.has_its_number());
    }
}
