//! What the local key stands for that somebody used last, so that few bytes are read, and receive requests
//! looked at, without a lock or a search.
//!
//! A region knows who remembers it, and has them forget before it becomes another one or goes: a queue
//! pair reads under its own lock, which whoever has it forget waits for. So this holds here, too: memory
//! is not used any more when the call returns that takes its key away.

use super::PdId;
use super::entry::Kind;
use super::keys::Keys;
use super::space::{Care, Space};
use crate::carrier::shm::Few;
use kit::abi::IBV_ACCESS_LOCAL_WRITE;
use kit::sys::application::{ApplicationMemory, Word};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Weak;
use uroce_engine::host::Fault;
use uroce_engine::work::Sge;

const WORD: usize = size_of::<u64>();

/// Somebody who remembers what a key stands for.
pub trait Remembers: Send + Sync {
    /// The key ceases to stand for that: when this returns, nobody goes by what was remembered. Waits for
    /// calls of [`Keys::gather_few`] with it, in which nothing waits for a change of a key.
    fn forget(&self, key: u32);
}

/// What somebody remembers, who sends from memory of one domain, or receives into it.
#[derive(Debug)]
pub struct Recent {
    pd: PdId,
    who: Weak<dyn Remembers>,
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

impl Recent {
    /// Nothing yet. It is `who` that forgets it.
    #[must_use]
    pub fn new(pd: PdId, who: Weak<dyn Remembers>) -> Self {
        Self {
            pd,
            who,
            last: 0,
            known: None,
        }
    }

    /// For [`Remembers::forget`]. Answers whether the key was remembered.
    pub fn forget(&mut self, key: u32) -> bool {
        self.known.take_if(|known| known.key == key).is_some()
    }
}

/// Receiving.
impl Recent {
    /// Writes a message plainly into the piece of its receive request, if that is remembered; else nothing is
    /// written.
    #[inline]
    pub fn receive(&self, sges: &[Sge], data: &[u8]) -> Option<()> {
        let known = self.known.as_ref()?;
        let [sge] = sges else {
            return None;
        };
        let length = u32::try_from(data.len()).ok()?;
        let fits = known.key == sge.lkey && length <= sge.length && known.takes(sge);
        let at = usize::try_from(sge.address.checked_sub(known.base)?).ok()?;
        let memory = fits.then_some(&known.memory)?;
        memory.write(at, data).ok()
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

    /// The words of a piece that consists of such, and zeros behind them.
    // Each is a value by itself: what was written to memory in parts would be copied from there only when
    // it has left the processor's store buffer.
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

    /// A word of a piece of so many bytes; 0 behind its end.
    #[inline(always)]
    fn word(&self, at: usize, offset: usize, length: usize) -> Option<u64> {
        if offset >= length {
            return Some(0);
        }
        let word = self.memory.word(at.checked_add(offset)?);
        word.ok().map(Word::load)
    }
}

/// Who remembers a region.
#[derive(Debug, Default)]
pub(super) struct Audience(Mutex<Everyone>);

#[derive(Debug, Default)]
struct Everyone {
    /// By address, which is nobody else's as long as somebody is listed.
    users: HashMap<usize, Weak<dyn Remembers>>,
    /// So many are about to change what the key stands for: nobody is to remember it.
    changing: u32,
}

/// As long as there is one, nobody remembers the region.
pub(super) struct Quiet<'a>(&'a Audience);

impl Audience {
    /// Whether `who` may remember the region from now on.
    fn admit(&self, who: Weak<dyn Remembers>) -> bool {
        let mut everyone = self.0.lock();
        if everyone.changing > 0 {
            return false;
        }
        let users = &mut everyone.users;
        let at = who.as_ptr().addr();
        if users.len() == users.capacity() && !users.contains_key(&at) {
            users.retain(|_, user| user.strong_count() > 0);
        }
        users.insert(at, who);
        true
    }

    /// Has everybody forget the key.
    pub fn quiet(&self, key: u32) -> Quiet<'_> {
        let users = {
            let mut everyone = self.0.lock();
            everyone.changing += 1;
            std::mem::take(&mut everyone.users)
        };
        for user in users.into_values() {
            if let Some(user) = user.upgrade() {
                user.forget(key);
            }
        }
        Quiet(self)
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        self.0.0.lock().changing -= 1;
    }
}

impl Keys {
    /// Reads a piece of no more bytes than [`Few`] has, plainly ([`Care::Plain`]), with zeros behind its end.
    /// What a key stands for is remembered when it is used twice in succession.
    ///
    /// # Errors
    /// [`Fault`] if it may not be read, or is longer.
    #[inline(always)]
    pub fn gather_few(&self, sge: Sge, recent: &mut Recent) -> Result<Few, Fault> {
        if let Some(known) = &recent.known
            && known.key == sge.lkey
            && let Some(words) = known.words(&sge)
        {
            return Ok(words);
        }
        self.gather_bytes(sge, recent)
    }

    #[inline(never)]
    fn gather_bytes(&self, sge: Sge, recent: &mut Recent) -> Result<Few, Fault> {
        let mut words = Few::default();
        let length = usize::try_from(sge.length).map_err(|_| Fault)?;
        let room = bytemuck::bytes_of_mut(&mut words);
        let room = room.get_mut(..length).ok_or(Fault)?;
        self.using(Care::Plain).gather(recent.pd, sge, room)?;
        self.notice(sge.lkey, recent);
        Ok(words)
    }

    /// Whether a message can be received into a piece, as far as is remembered: `false` says nothing. What a
    /// key stands for is remembered when it is used twice in succession.
    #[inline]
    pub fn is_to_receive(&self, sge: Sge, recent: &mut Recent) -> bool {
        let is_known = |recent: &Recent| {
            let known = recent.known.as_ref();
            known.is_some_and(|known| known.key == sge.lkey && known.takes(&sge))
        };
        if is_known(recent) {
            return true;
        }
        self.notice(sge.lkey, recent);
        is_known(recent)
    }

    /// A key was used that is not known, or not for this.
    #[inline(never)]
    fn notice(&self, key: u32, recent: &mut Recent) {
        let known = recent.known.as_ref();
        let is_known = known.is_some_and(|known| known.key == key);
        if recent.last == key && !is_known {
            recent.known = self.remember(recent, key).ok();
        }
        recent.last = key;
    }

    fn remember(&self, recent: &Recent, key: u32) -> Result<Region, Fault> {
        self.with(key, |entry| {
            let Space::Pinned(memory) = entry.space else {
                return Err(Fault);
            };
            let identity = entry.identity.as_ref().ok_or(Fault)?;
            let may = entry.kind == Kind::Region && entry.pd == recent.pd;
            if !may || !identity.audience.admit(Weak::clone(&recent.who)) {
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
impl Recent {
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_none()
    }
}

#[cfg(test)]
impl Audience {
    pub(super) fn count(&self) -> usize {
        self.0.lock().users.len()
    }
}
