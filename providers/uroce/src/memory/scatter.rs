//! Messages that come together, on their way into local memory.

use super::PdId;
use super::entry::Entry;
use super::keys::Keys;
use super::space::AccessMode;
use kit::abi::IBV_ACCESS_LOCAL_WRITE;
use kit::sync::RwLockReadGuard;
use kit::sys::application::ApplicationMemory;
use uroce_engine::host::Fault;
use uroce_engine::outgoing::Gather;
use uroce_engine::work::Sge;

/// Writes into pieces of one domain's local memory, message after message.
///
/// Usually all of them name one region. The region of the last piece stays locked until the next
/// piece names another, or the value is dropped: it is to be dropped as soon as the pending data is
/// received.
pub struct Scattering<'k> {
    keys: &'k Keys,
    pd: PdId,
    mode: AccessMode,
    held: Option<Held<'k>>,
}

struct Held<'k> {
    key: u32,
    entry: RwLockReadGuard<'k, Entry>,
}

impl<'k> Scattering<'k> {
    /// Has looked at no key yet.
    #[must_use]
    #[inline]
    pub fn new(keys: &'k Keys, pd: PdId, mode: AccessMode) -> Self {
        Self {
            keys,
            pd,
            mode,
            held: None,
        }
    }

    /// Whether these pieces can be written without waiting for another thread.
    #[must_use]
    #[inline]
    pub fn holds(&self, sges: &[Sge]) -> bool {
        match (sges, &self.held) {
            ([one], Some(held)) => one.lkey == held.key,
            _ => false,
        }
    }

    /// Writes a message into the pieces of its receive request.
    ///
    /// # Errors
    /// [`Fault`] if there is too little room, and nothing was written; if a piece may not be
    /// written, and those in front of it have been.
    #[inline]
    pub fn write(&mut self, sges: &[Sge], data: &[u8]) -> Result<(), Fault> {
        let [one] = sges else {
            return self.write_pieces(sges, data);
        };
        let length = u64::try_from(data.len()).map_err(|_| Fault)?;
        if length > u64::from(one.length) {
            return Err(Fault);
        }
        if data.is_empty() {
            return Ok(());
        }
        self.put(one.lkey, one.address, data)
    }

    /// The place in the only piece of a receive request for a message of so many bytes, if it is
    /// accessed directly. It stays registered until the next call, or until this is dropped.
    #[must_use]
    #[inline]
    pub fn place(&mut self, sges: &[Sge], length: u32) -> Option<ApplicationMemory> {
        let [one] = sges else {
            return None;
        };
        if length > one.length || self.mode != AccessMode::Direct {
            return None;
        }
        let (pd, mode) = (self.pd, self.mode);
        let entry = self.entry(one.lkey).ok()?;
        let at = entry.local(pd, one.address, u64::from(length), IBV_ACCESS_LOCAL_WRITE);
        let size = usize::try_from(length).ok()?;
        entry.space.direct(at.ok()?, size, mode)
    }

    #[inline(never)]
    fn write_pieces(&mut self, sges: &[Sge], data: &[u8]) -> Result<(), Fault> {
        let room: u64 = sges.iter().map(|sge| u64::from(sge.length)).sum();
        if u64::try_from(data.len()).map_err(|_| Fault)? > room {
            return Err(Fault);
        }
        self.write_at(sges, 0, data)
    }

    /// Writes bytes into the pieces, from `offset` bytes after the beginning of the first on.
    ///
    /// # Errors
    /// [`Fault`] if a piece may not be written, or there is too little room. Pieces in front of it
    /// have been written.
    pub fn write_at(&mut self, sges: &[Sge], offset: u64, data: &[u8]) -> Result<(), Fault> {
        let length = u32::try_from(data.len()).map_err(|_| Fault)?;
        let mut rest = data;
        for piece in Gather::new(sges, offset, length) {
            let take = usize::try_from(piece.length).map_err(|_| Fault)?;
            let (now, later) = rest.split_at_checked(take).ok_or(Fault)?;
            self.put(piece.lkey, piece.address, now)?;
            rest = later;
        }
        if rest.is_empty() { Ok(()) } else { Err(Fault) }
    }

    #[inline]
    fn put(&mut self, key: u32, address: u64, data: &[u8]) -> Result<(), Fault> {
        let length = u64::try_from(data.len()).map_err(|_| Fault)?;
        let (pd, accessor) = (self.pd, self.keys.accessor(self.mode));
        let entry = self.entry(key)?;
        let at = entry.local(pd, address, length, IBV_ACCESS_LOCAL_WRITE)?;
        entry.space.write(at, data, false, accessor)
    }

    #[inline]
    fn entry(&mut self, key: u32) -> Result<&Entry, Fault> {
        if self.held.as_ref().is_none_or(|held| held.key != key) {
            self.hold(key)?;
        }
        self.held.as_ref().map(|held| &*held.entry).ok_or(Fault)
    }

    #[inline(never)]
    fn hold(&mut self, key: u32) -> Result<(), Fault> {
        // Given back first: never two at a time.
        self.held = None;
        let entry = self.keys.reading(key)?;
        self.held = Some(Held { key, entry });
        Ok(())
    }
}
