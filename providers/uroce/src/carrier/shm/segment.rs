//! The memory that a process shows to its peers.

use kit::errno::{Errno, Result};
use kit::sys::shared::Shared;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Bytes of a segment. Pages take memory when they are first used.
pub const SEGMENT: usize = 16 << 20;
/// Where the header ends: what follows is for tables of one-sided operations.
pub const TABLES: usize = 4096;

/// `uroce`, and the version of what follows. Processes of two versions talk by UDP.
const MAGIC: u64 = u64::from_le_bytes(*b"uroce\0\0\x05");

/// Words of the header, by index. The one that changes is alone in its cache line.
mod word {
    pub const MAGIC: usize = 0;
    pub const SLOT: usize = 1;
    pub const GENERATION: usize = 2;
    pub const ATTENTION: usize = 16;
}

/// Nobody looks at the rings: whoever puts something there rings the bell.
pub const SLEEPS: u64 = 1;
/// And it waits for its peers to take what it has put there.
pub const AWAITS: u64 = 2;
/// The process has closed its last device, and looks no more.
pub const CLOSED: u64 = 4;

/// The segment of this process, or of a peer.
#[derive(Debug)]
pub struct Segment {
    memory: Shared,
}

impl Segment {
    /// That of this process. `generation` tells it from those that have its slot before or after.
    ///
    /// # Errors
    /// Those of [`Shared::create`].
    pub fn create(slot: u16, generation: u64) -> Result<(Self, OwnedFd)> {
        let (memory, fd) = Shared::create(c"uroce-segment", SEGMENT)?;
        let segment = Self { memory };
        segment.word(word::SLOT)?.store(u64::from(slot), SeqCst);
        segment.word(word::GENERATION)?.store(generation, SeqCst);
        segment.word(word::MAGIC)?.store(MAGIC, SeqCst);
        Ok((segment, fd))
    }

    /// That of a peer.
    ///
    /// # Errors
    /// Those of [`Shared::map`]; EINVAL if it is not the one of that slot and generation.
    pub fn map(fd: BorrowedFd<'_>, slot: u16, generation: u64) -> Result<Self> {
        let memory = Shared::map(fd, SEGMENT)?;
        let segment = Self { memory };
        let is = |index, value| Ok::<bool, Errno>(segment.word(index)?.load(SeqCst) == value);
        let right = is(word::MAGIC, MAGIC)?
            && is(word::SLOT, u64::from(slot))?
            && is(word::GENERATION, generation)?;
        if right {
            Ok(segment)
        } else {
            Err(Errno::INVAL)
        }
    }

    fn word(&self, index: usize) -> Result<&AtomicU64> {
        self.memory.words().get(index).ok_or(Errno::INVAL)
    }

    /// What the process is doing: [`SLEEPS`], [`AWAITS`], [`CLOSED`].
    #[inline]
    pub fn attention(&self) -> &AtomicU64 {
        static NOBODY: AtomicU64 = AtomicU64::new(CLOSED);
        // The word is there: lengths were checked.
        self.memory.words().get(word::ATTENTION).unwrap_or(&NOBODY)
    }

    /// The words of the tables for one-sided operations, from [`TABLES`] on.
    #[must_use]
    pub fn tables(&self) -> &[AtomicU64] {
        let words = self.memory.words();
        words.get(TABLES / size_of::<u64>()..).unwrap_or_default()
    }
}
