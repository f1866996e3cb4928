//! The shared memory of two processes: a ring in each direction.

use super::rendezvous::LinkState;
use kit::errno::Result;
use kit::sys::shared::Shared;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Bytes of a ring's data.
pub const RING: usize = 128 << 10;
/// Bytes in front of a ring's data.
pub const HEAD: usize = 4096;
/// Bytes of a link.
pub const LINK: usize = 2 * (HEAD + RING);

/// Values of the word that states whether both have the link: the first word of its memory,
/// initially 0.
const OFFERED: u64 = 0;
const JOINED: u64 = 1;
const WITHDRAWN: u64 = 2;

/// The memory between two processes.
#[derive(Debug)]
pub struct Link {
    memory: Shared,
}

impl Link {
    /// A new one, which the process of the lower slot makes.
    ///
    /// # Errors
    /// Those of [`Shared::create`].
    pub fn create() -> Result<(Self, OwnedFd)> {
        let (memory, fd) = Shared::create(c"uroce-link", LINK)?;
        Ok((Self { memory }, fd))
    }

    /// The one that the peer made.
    ///
    /// # Errors
    /// Those of [`Shared::map`].
    pub fn map(fd: BorrowedFd<'_>) -> Result<Self> {
        Ok(Self {
            memory: Shared::map(fd, LINK)?,
        })
    }

    /// The state of the link. A value that neither process writes counts as withdrawn.
    pub fn state(&self) -> LinkState {
        match self.word().load(SeqCst) {
            OFFERED => LinkState::Offered,
            JOINED => LinkState::Joined,
            _ => LinkState::Withdrawn,
        }
    }

    /// The process of the higher slot has it from now on, if it is still offered.
    pub fn join(&self) -> LinkState {
        self.leave_offered(JOINED)
    }

    /// The process of the lower slot offers it no more, if it was not joined.
    pub fn withdraw(&self) -> LinkState {
        self.leave_offered(WITHDRAWN)
    }

    /// Moves the word on, unless another thread has before; returns the word after that.
    fn leave_offered(&self, to: u64) -> LinkState {
        // The previous value is checked below.
        let _ = self.word().compare_exchange(OFFERED, to, SeqCst, SeqCst);
        self.state()
    }

    fn word(&self) -> &AtomicU64 {
        static WITHDRAWN_WORD: AtomicU64 = AtomicU64::new(WITHDRAWN);
        // The word is there: lengths were checked.
        self.memory.words().first().unwrap_or(&WITHDRAWN_WORD)
    }

    /// Its memory.
    pub fn memory(&self) -> &Shared {
        &self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_link_is_joined_or_withdrawn() {
        for joins_first in [true, false] {
            let (offered, fd) = Link::create().expect("memory");
            let mapped = Link::map(fd.as_fd()).expect("mapped");
            assert_eq!(
                (offered.state(), mapped.state()),
                (LinkState::Offered, LinkState::Offered)
            );
            let both = match joins_first {
                true => [mapped.join(), offered.withdraw()],
                false => [offered.withdraw(), mapped.join()],
            };
            let decided = if joins_first {
                LinkState::Joined
            } else {
                LinkState::Withdrawn
            };
            assert_eq!(both, [decided; 2]);
            assert_eq!((offered.state(), mapped.state()), (decided, decided));
        }
    }

    #[test]
    fn either_side_may_be_first() {
        for _ in 0..200 {
            let (offered, fd) = Link::create().expect("memory");
            let mapped = Link::map(fd.as_fd()).expect("mapped");
            let (withdrawn, joined) = std::thread::scope(|scope| {
                let joins = scope.spawn(|| mapped.join());
                (offered.withdraw(), joins.join().expect("joined"))
            });
            assert_eq!(withdrawn, joined);
        }
    }

    #[test]
    fn an_unknown_state_counts_as_withdrawn() {
        let (link, _fd) = Link::create().expect("memory");
        link.word().store(77, SeqCst);
        assert_eq!(
            [link.join(), link.withdraw(), link.state()],
            [LinkState::Withdrawn; 3]
        );
    }
}
