//! The local key that somebody used last, for reading few bytes.
//!
//! Nothing is locked where nothing has changed since: [`Keys`] counts changes of what keys stand for. Who
//! gives up memory while a verb that he called himself reads it has the bytes of nobody else, as with
//! inline data.

use super::PdId;
use super::entry::Kind;
use super::keys::Keys;
use super::space::Space;
use kit::sys::application::{ApplicationMemory, Word};
use uroce_engine::host::Fault;
use uroce_engine::work::Sge;

const WORD: usize = size_of::<u64>();
/// Few bytes.
type Words = [u64; 4];

/// A region of a domain, and how many changes there had been when it was looked at.
#[derive(Debug)]
pub struct Recent {
    key: u32,
    changes: u64,
    base: u64,
    memory: ApplicationMemory,
}

impl Recent {
    /// The words of a piece that consists of such, and zeros behind them.
    // Each is a value by itself: what was written to memory in parts would be copied from there only when
    // it has left the processor's store buffer.
    #[inline(always)]
    fn words(&self, sge: &Sge) -> Option<Words> {
        let at = self.place(sge)?;
        let length = usize::try_from(sge.length).ok()?;
        if !length.is_multiple_of(WORD) || length > size_of::<Words>() {
            return None;
        }
        let word = |offset| self.word(at, offset, length);
        Some([word(0)?, word(8)?, word(16)?, word(24)?])
    }

    /// A word of a piece of so many bytes; 0 behind its end.
    #[inline(always)]
    fn word(&self, at: usize, offset: usize, length: usize) -> Option<u64> {
        if offset >= length {
            return Some(0);
        }
        let word = self.memory.word(at.checked_add(offset)?);
        word.ok().map(Word::load)
    }

    /// The bytes of a piece, and zeros behind them.
    #[inline(never)]
    fn bytes(&self, sge: &Sge) -> Result<Words, Fault> {
        let at = self.place(sge).ok_or(Fault)?;
        let length = usize::try_from(sge.length).map_err(|_| Fault)?;
        let mut words = Words::default();
        let room = bytemuck::bytes_of_mut(&mut words);
        let room = room.get_mut(..length).ok_or(Fault)?;
        self.memory.read(at, room).map_err(|_| Fault)?;
        Ok(words)
    }

    #[inline]
    fn place(&self, sge: &Sge) -> Option<usize> {
        usize::try_from(sge.address.checked_sub(self.base)?).ok()
    }
}

impl Keys {
    /// Reads a piece that has no more bytes than four words, which end with zeros. It is one of a
    /// domain's own, always the same for one `recent`.
    ///
    /// # Errors
    /// [`Fault`] if it may not be read, or is longer.
    #[inline(always)]
    pub fn gather_words(
        &self,
        pd: PdId,
        sge: &Sge,
        recent: &mut Option<Recent>,
    ) -> Result<Words, Fault> {
        let changes = self.changes();
        match recent {
            Some(known) if known.key == sge.lkey && known.changes == changes => {
                known.words(sge).map_or_else(|| known.bytes(sge), Ok)
            }
            _ => self.gather_anew(pd, sge, changes, recent),
        }
    }

    #[inline(never)]
    fn gather_anew(
        &self,
        pd: PdId,
        sge: &Sge,
        changes: u64,
        recent: &mut Option<Recent>,
    ) -> Result<Words, Fault> {
        let mut words = Words::default();
        let length = usize::try_from(sge.length).map_err(|_| Fault)?;
        let room = bytemuck::bytes_of_mut(&mut words);
        self.gather(pd, *sge, room.get_mut(..length).ok_or(Fault)?)?;
        *recent = self.look(pd, sge.lkey, changes).ok();
        Ok(words)
    }

    fn look(&self, pd: PdId, key: u32, changes: u64) -> Result<Recent, Fault> {
        self.with(key, |entry| match entry.space {
            Space::Pinned(memory) if entry.kind == Kind::Region && entry.pd == pd => Ok(Recent {
                key,
                changes,
                base: entry.base,
                memory,
            }),
            _ => Err(Fault),
        })
    }
}
