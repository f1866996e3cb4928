//! Memory of local requests, locked while bytes are copied between it and another process.

use super::PdId;
use super::keys::Keys;
use super::space::Space;
use kit::abi::*;
use kit::sys::application::ApplicationMemory;
use kit::sys::other_process::MOST;
use uroce_engine::host::LocalAccess;
use uroce_engine::work::Sge;

impl Keys {
    /// Calls with the pieces' memory, which stays what it is until the call returns. `None`, and no
    /// call, if a piece may not be used so, is not memory of the application, or if there are more
    /// than [`MOST`].
    pub fn with_pieces<T>(
        &self,
        pd: PdId,
        sges: &[Sge],
        access: LocalAccess,
        call: impl FnOnce(&[ApplicationMemory]) -> Option<T>,
    ) -> Option<T> {
        let flags = match access {
            LocalAccess::Read => 0,
            LocalAccess::Write => IBV_ACCESS_LOCAL_WRITE,
        };
        let mut held: [_; MOST] = [const { None }; MOST];
        let mut pieces: [_; MOST] = [ApplicationMemory::NOTHING; MOST];
        let mut count = 0;
        for sge in sges.iter().filter(|sge| sge.length > 0) {
            // Two pieces may be of one region, and somebody may wait to change it.
            let entry = self.slot(sge.lkey).ok()?.read_recursive();
            if u32::from(entry.tag) != sge.lkey & 0xff {
                return None;
            }
            let at = entry.local(pd, sge.address, u64::from(sge.length), flags);
            let (Space::Pinned(memory) | Space::OnDemand(memory)) = &entry.space else {
                return None;
            };
            let length = usize::try_from(sge.length).ok()?;
            *pieces.get_mut(count)? = memory.part(at.ok()?, length).ok()?;
            *held.get_mut(count)? = Some(entry);
            count += 1;
        }
        call(pieces.get(..count)?)
    }
}
