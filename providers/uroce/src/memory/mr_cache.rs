//! The MR cache: the memory region that a queue pair used last, so that few bytes are read, and
//! receive requests checked, without a lock or a lookup.
//!
//! A queue pair has a cache for sends and one for receives, under its own lock. A region lists the
//! queue pairs that cache it, and has them forget it before it changes or is removed. That waits
//! for the queue pair's lock. So no thread uses the memory when the call returns that removes its
//! key.

use super::PdId;
use super::entry::Kind;
use super::keys::Keys;
use super::listeners::InvalidationListener;
use super::space::{AccessMode, Space};
use crate::few::Few;
use kit::abi::IBV_ACCESS_LOCAL_WRITE;
use kit::sys::application::{ApplicationMemory, AtomicWord};
use std::sync::Weak;
use uroce_engine::host::Fault;
use uroce_engine::work::Sge;

const WORD: usize = size_of::<u64>();

/// The region that was used last by sends from memory of one domain, or by receives into it.
#[derive(Debug)]
pub struct MrCache {
    pd: PdId,
    listener: Weak<dyn InvalidationListener>,
    last: u32,
    known: Option<Region>,
}

#[derive(Debug)]
struct Region {
    key: u32,
    base: u64,
    memory: ApplicationMemory,
    /// Local requests may write there.
    is_writable: bool,
}

impl MrCache {
    /// An empty cache. `listener` is called before the region in it changes.
    #[must_use]
    pub fn new(pd: PdId, listener: Weak<dyn InvalidationListener>) -> Self {
        Self {
            pd,
            listener,
            last: 0,
            known: None,
        }
    }

    /// For [`InvalidationListener::forget`]. Returns whether the key was cached.
    pub fn forget(&mut self, key: u32) -> bool {
        self.known.take_if(|known| known.key == key).is_some()
    }
}

/// Receiving.
impl MrCache {
    /// The place for a message of so many bytes in the piece of its receive request, if its region
    /// is cached. It stays registered as long as the queue pair is locked.
    #[inline]
    pub fn place(&self, sges: &[Sge], length: u32) -> Option<ApplicationMemory> {
        let known = self.known.as_ref()?;
        let [sge] = sges else {
            return None;
        };
        let fits = known.key == sge.lkey && length <= sge.length && known.takes(sge);
        let at = usize::try_from(sge.address.checked_sub(known.base)?).ok()?;
        let memory = fits.then_some(&known.memory)?;
        memory.part(at, usize::try_from(length).ok()?).ok()
    }
}

impl Region {
    /// Whether a message can be received into a piece.
    #[inline]
    fn takes(&self, sge: &Sge) -> bool {
        let inside = || {
            let start = sge.address.checked_sub(self.base)?;
            let end = start.checked_add(u64::from(sge.length))?;
            Some(usize::try_from(end).ok()? <= self.memory.length())
        };
        self.is_writable && inside() == Some(true)
    }

    /// The words of a piece that consists of words, followed by zeros.
    // Each is a separate value: copying recently written parts from memory would wait until they
    // have left the processor's store buffer.
    #[inline(always)]
    fn words(&self, sge: &Sge) -> Option<Few> {
        let at = usize::try_from(sge.address.checked_sub(self.base)?).ok()?;
        let length = usize::try_from(sge.length).ok()?;
        if !length.is_multiple_of(WORD) || length > size_of::<Few>() {
            return None;
        }
        let word = |offset| self.word(at, offset, length);
        Some([word(0)?, word(8)?, word(16)?, word(24)?])
    }

    /// A word of a piece of that many bytes; 0 behind its end.
    #[inline(always)]
    fn word(&self, at: usize, offset: usize, length: usize) -> Option<u64> {
        if offset >= length {
            return Some(0);
        }
        let word = self.memory.word(at.checked_add(offset)?);
        word.ok().map(AtomicWord::load)
    }
}

impl Keys {
    /// Reads a piece of no more bytes than [`Few`] has, directly ([`AccessMode::Direct`]), with
    /// zeros behind its end. A region is cached when it is used twice in succession.
    ///
    /// # Errors
    /// [`Fault`] if it may not be read, or is longer.
    #[inline(always)]
    pub fn gather_few(&self, sge: Sge, cache: &mut MrCache) -> Result<Few, Fault> {
        if let Some(known) = &cache.known
            && known.key == sge.lkey
            && let Some(words) = known.words(&sge)
        {
            return Ok(words);
        }
        self.gather_bytes(sge, cache)
    }

    #[inline(never)]
    fn gather_bytes(&self, sge: Sge, cache: &mut MrCache) -> Result<Few, Fault> {
        let mut words = Few::default();
        let length = usize::try_from(sge.length).map_err(|_| Fault)?;
        let room = bytemuck::bytes_of_mut(&mut words);
        let room = room.get_mut(..length).ok_or(Fault)?;
        self.using(AccessMode::Direct).gather(cache.pd, sge, room)?;
        self.notice(sge.lkey, cache);
        Ok(words)
    }

    /// The bytes of a piece to be read directly ([`AccessMode::Direct`]), if its region is cached.
    /// They stay registered as long as the queue pair is locked. A region is cached when it is used
    /// twice in succession.
    #[inline]
    pub fn lend(&self, sge: Sge, cache: &mut MrCache) -> Option<ApplicationMemory> {
        if cache.known.as_ref().is_none_or(|one| one.key != sge.lkey) {
            self.notice(sge.lkey, cache);
        }
        let known = cache.known.as_ref().filter(|one| one.key == sge.lkey)?;
        let at = usize::try_from(sge.address.checked_sub(known.base)?).ok()?;
        let length = usize::try_from(sge.length).ok()?;
        known.memory.part(at, length).ok()
    }

    /// Whether a message can be received into a piece, as far as the cache shows: `false`
    /// means nothing. A region is cached when it is used twice in succession.
    #[inline]
    pub fn is_to_receive(&self, sge: Sge, cache: &mut MrCache) -> bool {
        let is_known = |cache: &MrCache| {
            let known = cache.known.as_ref();
            known.is_some_and(|known| known.key == sge.lkey && known.takes(&sge))
        };
        if is_known(cache) {
            return true;
        }
        self.notice(sge.lkey, cache);
        is_known(cache)
    }

    /// A key was used that is not cached, or not for this.
    #[inline(never)]
    fn notice(&self, key: u32, cache: &mut MrCache) {
        let known = cache.known.as_ref();
        let is_known = known.is_some_and(|known| known.key == key);
        if cache.last == key && !is_known {
            cache.known = self.find_region(cache, key).ok();
        }
        cache.last = key;
    }

    fn find_region(&self, cache: &MrCache, key: u32) -> Result<Region, Fault> {
        self.with(key, |entry| {
            let Space::Pinned(memory) = entry.space else {
                return Err(Fault);
            };
            let identity = entry.identity.as_ref().ok_or(Fault)?;
            let may = entry.kind == Kind::Region && entry.pd == cache.pd;
            if !may || !identity.listeners.add(Weak::clone(&cache.listener)) {
                return Err(Fault);
            }
            Ok(Region {
                key,
                base: entry.base,
                memory,
                is_writable: entry.access & IBV_ACCESS_LOCAL_WRITE != 0,
            })
        })
    }
}

#[cfg(test)]
impl MrCache {
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_none()
    }
}
