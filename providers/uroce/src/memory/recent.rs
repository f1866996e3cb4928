//! The local key that somebody used last, for reading few bytes.
//!
//! Nothing is locked where nothing has changed since: [`Keys`] counts changes of what keys stand for. Who
//! gives up memory while a verb that he called himself reads it has the bytes of nobody else, as with
//! inline data.

use super::PdId;
use super::entry::Kind;
use super::keys::Keys;
use super::space::Space;
use kit::sys::application::ApplicationMemory;
use uroce_engine::host::Fault;
use uroce_engine::work::Sge;

const WORD: usize = size_of::<u64>();

/// A region of a domain, and how many changes there had been when it was looked at.
#[derive(Debug)]
pub struct Recent {
    key: u32,
    changes: u64,
    base: u64,
    memory: ApplicationMemory,
}

impl Recent {
    /// The bytes of a piece, and zeros behind them.
    #[inline]
    fn read<const N: usize>(&self, sge: &Sge) -> Result<[u64; N], Fault> {
        let at = sge.address.checked_sub(self.base).ok_or(Fault)?;
        let at = usize::try_from(at).map_err(|_| Fault)?;
        let length = usize::try_from(sge.length).map_err(|_| Fault)?;
        let mut words = [0; N];
        if length == WORD
            && let Some(first) = words.first_mut()
            && let Ok(word) = self.memory.word(at)
        {
            *first = word.load();
            return Ok(words);
        }
        let room = bytemuck::bytes_of_mut(&mut words);
        let room = room.get_mut(..length).ok_or(Fault)?;
        self.memory.read(at, room).map_err(|_| Fault)?;
        Ok(words)
    }
}

impl Keys {
    /// Reads a piece that has no more bytes than so many words, which end with zeros. It is one of a
    /// domain's own, always the same for one `recent`.
    ///
    /// # Errors
    /// [`Fault`] if it may not be read, or is longer.
    #[inline]
    pub fn gather_words<const N: usize>(
        &self,
        pd: PdId,
        sge: &Sge,
        recent: &mut Option<Recent>,
    ) -> Result<[u64; N], Fault> {
        let changes = self.changes();
        match recent {
            Some(known) if known.key == sge.lkey && known.changes == changes => known.read(sge),
            _ => self.gather_anew(pd, sge, changes, recent),
        }
    }

    #[inline(never)]
    fn gather_anew<const N: usize>(
        &self,
        pd: PdId,
        sge: &Sge,
        changes: u64,
        recent: &mut Option<Recent>,
    ) -> Result<[u64; N], Fault> {
        let mut words = [0; N];
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
