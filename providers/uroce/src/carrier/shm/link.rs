//! What two processes share: a ring in each direction.

use kit::errno::{Errno, Result};
use kit::sys::shared::Shared;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Bytes of a ring's data.
pub const RING: usize = 128 << 10;
/// Bytes in front of a ring's data.
pub const HEAD: usize = 4096;
/// Bytes of a link.
pub const LINK: usize = 2 * (HEAD + RING);

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

    /// The process of the higher slot uses it: from now on it is for no other.
    ///
    /// # Errors
    /// EINVAL if another has joined it.
    pub fn join(&self, generation: u64) -> Result<()> {
        let before = self
            .joined()
            .compare_exchange(0, generation, SeqCst, SeqCst);
        match before {
            Ok(_) => Ok(()),
            Err(there) if there == generation => Ok(()),
            Err(_) => Err(Errno::INVAL),
        }
    }

    /// Whether nobody has joined it, or the process of that generation.
    pub fn is_for(&self, generation: u64) -> bool {
        let joined = self.joined().load(SeqCst);
        joined == 0 || joined == generation
    }

    /// The generation of the process that has joined it.
    fn joined(&self) -> &AtomicU64 {
        static NOBODY: AtomicU64 = AtomicU64::new(0);
        // The word is there: lengths were checked.
        self.memory.words().first().unwrap_or(&NOBODY)
    }

    /// Its memory.
    pub fn memory(&self) -> &Shared {
        &self.memory
    }
}
