//! Memory of local requests, locked while bytes are copied between it and another process.

use super::PdId;
use super::entry::Entry;
use super::keys::Keys;
use super::space::Space;
use kit::abi::*;
use kit::sync::RwLockReadGuard;
use kit::sys::application::ApplicationMemory;
use kit::sys::other_process::MOST;
use uroce_engine::host::LocalAccess;
use uroce_engine::work::Sge;

impl Keys {
    /// Calls a function with the pieces' memory, which is unchanged until the call returns, and
    /// whether all of it was mapped when it was registered. `None`, without a call, if a piece does
    /// not have the rights, is not memory of the application, or if there are more than [`MOST`].
    pub fn with_pieces<T>(
        &self,
        pd: PdId,
        sges: &[Sge],
        access: LocalAccess,
        call: impl FnOnce(&[ApplicationMemory], bool) -> Option<T>,
    ) -> Option<T> {
        let flags = match access {
            LocalAccess::Read => 0,
            LocalAccess::Write => IBV_ACCESS_LOCAL_WRITE,
        };
        let mut pieces: [_; MOST] = [(0, Sge::default()); MOST];
        let mut count = 0;
        for sge in sges.iter().filter(|sge| sge.length > 0) {
            *pieces.get_mut(count)? = (count, *sge);
            count += 1;
        }
        let pieces = pieces.get_mut(..count)?;
        // Each slot once, and all threads in the same order: locking a locked slot, or an earlier
        // one, would wait for a thread that waits to change it and may wait for this thread.
        pieces.sort_unstable_by_key(|(_, sge)| index(sge));
        let mut held: [Option<RwLockReadGuard<'_, Entry>>; MOST] = [const { None }; MOST];
        let mut free = held.iter_mut();
        let mut memory: [_; MOST] = [ApplicationMemory::NOTHING; MOST];
        let mut is_pinned = true;
        for same in pieces.chunk_by(|(_, left), (_, right)| index(left) == index(right)) {
            let slot = self.slot(same.first()?.1.lkey).ok()?;
            let entry = free.next()?.insert(slot.read());
            is_pinned &= matches!(entry.space, Space::Pinned(_));
            for (at, sge) in same {
                *memory.get_mut(*at)? = part(entry, pd, sge, flags)?;
            }
        }
        call(memory.get(..count)?, is_pinned)
    }
}

/// The index of a piece's slot.
fn index(sge: &Sge) -> u32 {
    sge.lkey >> 8
}

/// The memory of a piece.
fn part(entry: &Entry, pd: PdId, sge: &Sge, flags: u32) -> Option<ApplicationMemory> {
    if u32::from(entry.tag) != sge.lkey & 0xff {
        return None;
    }
    let at = entry.local(pd, sge.address, u64::from(sge.length), flags);
    let (Space::Pinned(memory) | Space::OnDemand(memory)) = &entry.space else {
        return None;
    };
    let length = usize::try_from(sge.length).ok()?;
    memory.part(at.ok()?, length).ok()
}
