//! The memory that a process shows to its peers.
//!
//! Only its owner can write it: peers can map it only for reading, whatever they do with its
//! descriptor ([`Shared::publish`]). Memory that two processes both write is in their
//! [`super::Link`], which no third process has.

use super::attention::CLOSED;
use kit::errno::{Errno, Result};
use kit::sys::shared::{Published, ReadOnlyWord, Shared};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Bytes of a segment. Pages take memory when they are first used.
pub const SEGMENT: usize = 16 << 20;
/// End of the header: the tables of one-sided operations follow it.
pub const TABLES: usize = 4096;

/// `uroce`, and the version of the layout, and of the link. Processes of two versions communicate
/// by UDP.
const MAGIC: u64 = u64::from_le_bytes(*b"uroce\0\0\x08");

/// Words of the header, by index. The one that changes is alone in its cache line.
mod word {
    pub const MAGIC: usize = 0;
    pub const SLOT: usize = 1;
    pub const GENERATION: usize = 2;
    /// Where the owner has the word before, in its memory.
    pub const HOME: usize = 3;
    pub const ATTENTION: usize = 16;
}

/// The segment of this process.
#[derive(Debug)]
pub struct Segment {
    memory: Shared,
}

impl Segment {
    /// That of this process. `generation` distinguishes it from others in the same slot.
    ///
    /// # Errors
    /// Those of [`Shared::publish`].
    pub fn create(slot: u16, generation: u64) -> Result<(Self, OwnedFd)> {
        let (memory, fd) = Shared::publish(c"uroce-segment", SEGMENT)?;
        let segment = Self { memory };
        segment.word(word::SLOT)?.store(u64::from(slot), SeqCst);
        let home = segment.word(word::GENERATION)?;
        home.store(generation, SeqCst);
        let home = u64::try_from(std::ptr::from_ref(home).addr()).map_err(|_| Errno::INVAL)?;
        segment.word(word::HOME)?.store(home, SeqCst);
        segment.word(word::MAGIC)?.store(MAGIC, SeqCst);
        Ok((segment, fd))
    }

    fn word(&self, index: usize) -> Result<&AtomicU64> {
        self.memory.words().get(index).ok_or(Errno::INVAL)
    }

    /// The activity of the process: [`super::SLEEPS`], [`super::AWAITS`], [`CLOSED`], and how often
    /// it has slept.
    #[inline]
    pub fn attention(&self) -> &AtomicU64 {
        static ABSENT: AtomicU64 = AtomicU64::new(CLOSED);
        // The word is there: lengths were checked.
        self.memory.words().get(word::ATTENTION).unwrap_or(&ABSENT)
    }

    /// The words of the tables for one-sided operations, from [`TABLES`] on.
    #[must_use]
    pub fn tables(&self) -> &[AtomicU64] {
        let words = self.memory.words();
        words.get(TABLES / size_of::<u64>()..).unwrap_or_default()
    }
}

/// The segment of a peer. Whatever is read there may be wrong.
#[derive(Debug)]
pub struct PeerSegment {
    memory: Published,
}

impl PeerSegment {
    /// That of the process of a slot.
    ///
    /// # Errors
    /// Those of [`Published::map`]; EINVAL if it is not the one of that slot and generation.
    pub fn map(fd: BorrowedFd<'_>, slot: u16, generation: u64) -> Result<Self> {
        let memory = Published::map(fd, SEGMENT)?;
        let wanted = [
            (word::MAGIC, MAGIC),
            (word::SLOT, u64::from(slot)),
            (word::GENERATION, generation),
        ];
        let is = |(index, value): (usize, u64)| {
            let word = memory.words().get(index);
            word.is_some_and(|word| word.load(SeqCst) == value)
        };
        if wanted.into_iter().all(is) {
            Ok(Self { memory })
        } else {
            Err(Errno::INVAL)
        }
    }

    /// Where the peer has its generation in its memory; 0 if it does not say so.
    #[must_use]
    pub fn home(&self) -> u64 {
        let word = self.memory.words().get(word::HOME);
        word.map_or(0, |word| word.load(SeqCst))
    }

    /// The activity of the process, as of [`Segment::attention`].
    #[inline]
    #[must_use]
    pub fn attention(&self) -> u64 {
        // The word is there: lengths were checked.
        let word = self.memory.words().get(word::ATTENTION);
        word.map_or(CLOSED, |word| word.load(SeqCst))
    }

    /// The words of the tables for one-sided operations, from [`TABLES`] on.
    #[must_use]
    pub fn tables(&self) -> &[ReadOnlyWord] {
        let words = self.memory.words();
        words.get(TABLES / size_of::<u64>()..).unwrap_or_default()
    }
}
