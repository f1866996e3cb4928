//! ibv_advise_mr(3).

use super::PdId;
use super::entry::{Entry, Kind};
use super::keys::Keys;
use super::space::Space;
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::sys::application::ApplicationMemory;

/// `IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE`; without `_WRITE` it is 0.
const PREFETCH_WRITE: u32 = 1;
/// `IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT`.
const PREFETCH_NO_FAULT: u32 = 2;
/// `IB_UVERBS_ADVISE_MR_FLAG_FLUSH`.
const FLUSH: u32 = 1;

fn wanted(entry: &Entry, pd: PdId, advice: u32, sge: &ibv_sge) -> Result<ApplicationMemory> {
    match entry.kind {
        Kind::Region => {}
        Kind::Free => return Err(Errno::NOENT),
        _ => return Err(Errno::INVAL),
    }
    let unwritable = advice == PREFETCH_WRITE && entry.access & IBV_ACCESS_LOCAL_WRITE == 0;
    if entry.pd != pd || unwritable {
        return Err(Errno::PERM);
    }
    let Space::OnDemand(memory) = &entry.space else {
        return Err(Errno::INVAL);
    };
    let outside = Errno(libc::EFAULT);
    let start = entry.place(sge.addr, u64::from(sge.length));
    let length = usize::try_from(sge.length).map_err(|_| outside)?;
    let part = memory.part(start.map_err(|_| outside)?, length);
    part.map_err(|_| outside)
}

impl Keys {
    /// ibv_advise_mr(3), for regions on demand. Pages are faulted in before it returns, whether or
    /// not `IBV_ADVISE_MR_FLAG_FLUSH` is set. Pages that are present for the CPU are present for
    /// the device, so `IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT` needs no action.
    ///
    /// # Errors
    /// EOPNOTSUPP for advice that there is not; EINVAL for such flags, for no pieces, and for keys
    /// of windows and of regions that are not on demand; ENOENT for a key of nothing; EPERM for
    /// another domain, and for write access that the region does not have; EFAULT beyond its
    /// bounds, and where nothing is mapped; ENOMEM.
    pub fn advise(&self, pd: PdId, advice: u32, flags: u32, sges: &[ibv_sge]) -> Result<()> {
        if advice > PREFETCH_NO_FAULT {
            return Err(Errno::OPNOTSUPP);
        }
        if flags & !FLUSH != 0 || sges.is_empty() {
            return Err(Errno::INVAL);
        }
        let parts: Vec<ApplicationMemory> = sges
            .iter()
            .map(|sge| {
                self.with(sge.lkey, |entry| Ok(wanted(entry, pd, advice, sge)))
                    .unwrap_or(Err(Errno::NOENT))
            })
            .collect::<Result<_>>()?;
        if advice == PREFETCH_NO_FAULT {
            return Ok(());
        }
        parts
            .iter()
            .try_for_each(|part| part.populate(advice == PREFETCH_WRITE))
    }
}
