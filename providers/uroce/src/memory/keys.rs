//! Keys come and go: regions.

use super::access;
use super::dm::Dm;
use super::entry::{Entry, Identity, Kind};
use super::shown::Shown;
use super::space::{AccessMode, Accessor, Space};
use super::table::{Slot, Table};
use super::{MAX_REGIONS, PdId};
use kit::abi::*;
use kit::errno::{Errno, Result};
use kit::provider;
use kit::sync::{RwLockReadGuard, RwLockWriteGuard};
use kit::sys::application::ApplicationMemory;
use kit::sys::no_fault_copy::{NoFaultCopy, Staged};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use uroce_engine::host::Fault;

/// The keys of a process.
pub struct Keys {
    table: Table,
    shown: Option<Box<dyn Shown>>,
    no_fault_copy: NoFaultCopy,
    regions: AtomicU32,
    pub(super) windows: AtomicU32,
}

/// A memory region; deregistered at the latest when it is dropped.
pub struct Mr {
    keys: Arc<Keys>,
    key: u32,
    pub(super) identity: Arc<Identity>,
}

impl Mr {
    /// L_Key and R_Key.
    #[must_use]
    pub fn key(&self) -> u32 {
        self.key
    }

    pub(super) fn index(&self) -> u32 {
        self.key >> 8
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // Mostly it was deregistered before. If a peer still uses it, there is no one to try again.
        let _ = self.keys.take_away(self, true);
    }
}

impl std::fmt::Debug for Mr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mr({:#x})", self.key)
    }
}

/// The validated range of a region.
struct Covered {
    base: u64,
    length: u64,
    space: Space,
}

impl Covered {
    /// # Errors
    /// As for [`Keys::register`].
    fn new(memory: ApplicationMemory, iova: u64, access: u32) -> Result<Self> {
        access::check(access)?;
        let length = u64::try_from(memory.length()).map_err(|_| Errno::INVAL)?;
        let on_demand = access & IBV_ACCESS_ON_DEMAND != 0;
        let implicit = memory.length() == usize::MAX;
        if implicit && (!on_demand || access & IBV_ACCESS_HUGETLB != 0) {
            return Err(Errno::INVAL);
        }
        if memory.length() == 0 && memory.address().is_multiple_of(page_size()) {
            return Err(Errno::INVAL);
        }
        let based = access & IBV_ACCESS_ZERO_BASED != 0 || implicit;
        let base = if based { 0 } else { iova };
        base.checked_add(length).ok_or(Errno::INVAL)?;
        if on_demand {
            let space = Space::OnDemand(memory);
            return Ok(Self {
                base,
                length,
                space,
            });
        }
        memory.populate(access & IBV_ACCESS_LOCAL_WRITE != 0)?;
        let space = Space::Pinned(memory);
        Ok(Self {
            base,
            length,
            space,
        })
    }
}

fn page_size() -> usize {
    rustix::param::page_size()
}

/// Takes one of `most`.
pub(super) fn count_up(counter: &AtomicU32, most: u32) -> Result<()> {
    let more = |count: u32| (count < most).then_some(count + 1);
    let counted = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    counted.map(|_| ()).map_err(|_| Errno::NOMEM)
}

impl Default for Keys {
    fn default() -> Self {
        Self::new()
    }
}

impl Keys {
    /// No keys yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            table: Table::new(),
            shown: None,
            no_fault_copy: NoFaultCopy::default(),
            regions: AtomicU32::new(0),
            windows: AtomicU32::new(0),
        }
    }

    /// No keys yet; those to come are shown to peers.
    #[must_use]
    pub fn shown_by(shown: Box<dyn Shown>) -> Self {
        Self {
            shown: Some(shown),
            ..Self::new()
        }
    }

    /// Makes the descriptor of [`AccessMode::Faultable`], while descriptors are available.
    pub fn prepare(&self) {
        self.no_fault_copy.prepare();
    }

    /// Where payloads are collected that continue each other; `None` if that cannot be. To be given
    /// back.
    #[must_use]
    pub fn stage(&self) -> Option<Staged> {
        self.no_fault_copy.stage()
    }

    /// Gives it back.
    pub fn unstage(&self, staged: Staged) {
        self.no_fault_copy.unstage(staged);
    }

    pub(super) fn accessor(&self, mode: AccessMode) -> Accessor<'_> {
        let no_fault_copy = &self.no_fault_copy;
        Accessor {
            mode,
            no_fault_copy,
        }
    }

    /// The slot of a key, locked to be changed. It may be another's meanwhile.
    pub(super) fn change(
        &self,
        key: u32,
    ) -> std::result::Result<RwLockWriteGuard<'_, Entry>, Fault> {
        Ok(self.slot(key)?.write())
    }

    /// Publishes an index, whose slot is locked for the change, to peers.
    fn show(&self, index: u32, entry: &Entry) {
        if let Some(shown) = &self.shown {
            shown.show(index, entry.shown());
        }
    }

    /// Has peers use a region by packets only, and waits until none uses it by itself any more.
    ///
    /// # Errors
    /// EINVAL if it was deregistered before; EBUSY if a peer may still be at it after a while.
    fn hide(&self, mr: &Mr) -> Result<()> {
        let Some(shown) = &self.shown else {
            return Ok(());
        };
        {
            let entry = self.own(mr)?.write();
            if !entry.is(&mr.identity) {
                return Err(Errno::INVAL);
            }
            if entry.shown().is_none() {
                return Ok(());
            }
            shown.show(mr.index(), None);
        }
        // Without the lock: packets continue to use the region.
        shown.wait(mr.index())
    }

    /// Changes the object of a region's key, when no queue pair caches it and no peer uses it by
    /// itself. With `anyhow`, also if a peer may still be using it. After an error the table is
    /// unchanged.
    fn change_region<T>(
        &self,
        mr: &Mr,
        anyhow: bool,
        change: impl FnOnce(&mut Entry) -> T,
    ) -> Result<T> {
        let _alone = mr.identity.changing.lock();
        let _invalidation = mr.identity.listeners.invalidate(mr.key);
        let hidden = self.hide(mr);
        let mut entry = self.change(mr.key).map_err(|_| Errno::INVAL)?;
        let done = if !entry.is(&mr.identity) {
            Err(Errno::INVAL)
        } else if mr.identity.windows.load(Ordering::Acquire) > 0 {
            Err(Errno::BUSY)
        } else {
            hidden.or(if anyhow { Ok(()) } else { hidden })
        };
        let done = done.map(|()| change(&mut entry));
        self.show(mr.index(), &entry);
        done
    }

    /// The slot of a key, which may be another's meanwhile.
    #[inline]
    pub(super) fn slot(&self, key: u32) -> std::result::Result<&Slot, Fault> {
        self.table.slot(key >> 8).ok_or(Fault)
    }

    /// Calls a function with the object of the key, which is unchanged until the call returns.
    #[inline(always)]
    pub(super) fn with<T>(
        &self,
        key: u32,
        call: impl FnOnce(&Entry) -> std::result::Result<T, Fault>,
    ) -> std::result::Result<T, Fault> {
        call(&*self.reading(key)?)
    }

    /// The object of the key, which is unchanged until the result is dropped.
    #[inline(always)]
    pub(super) fn reading(
        &self,
        key: u32,
    ) -> std::result::Result<RwLockReadGuard<'_, Entry>, Fault> {
        let entry = self.slot(key)?.read();
        if u32::from(entry.tag) != key & 0xff {
            return Err(Fault);
        }
        Ok(entry)
    }

    /// Puts an entry into a free slot; returns the key. Its tag is chosen here.
    pub(super) fn enter(&self, mut entry: Entry) -> Result<u32> {
        let index = self.table.take()?;
        let mut slot = self.change(index << 8).map_err(|_| Errno::NOMEM)?;
        entry.tag = slot.tag.wrapping_add(1);
        let key = index << 8 | u32::from(entry.tag);
        *slot = entry;
        self.show(index, &slot);
        Ok(key)
    }

    /// Empties the slot, which the caller has locked, and gives the index back.
    pub(super) fn leave(&self, index: u32, entry: &mut Entry) {
        let tag = entry.tag;
        *entry = Entry { tag, ..Entry::FREE };
        self.table.give(index);
    }

    fn region(
        self: &Arc<Self>,
        pd: PdId,
        access: u32,
        covered: Covered,
    ) -> Result<(Mr, provider::Keys)> {
        count_up(&self.regions, MAX_REGIONS)?;
        let identity = Arc::new(Identity::default());
        let entered = self.enter(Entry {
            kind: Kind::Region,
            access,
            pd,
            base: covered.base,
            length: covered.length,
            space: covered.space,
            identity: Some(Arc::clone(&identity)),
            ..Entry::FREE
        });
        let key = entered.inspect_err(|_| {
            self.regions.fetch_sub(1, Ordering::Relaxed);
        })?;
        let keys = Arc::clone(self);
        let mr = Mr {
            keys,
            key,
            identity,
        };
        Ok((mr, both(key)))
    }

    /// ibv_reg_mr(3), ibv_reg_mr_iova(3). The pages are brought in, unless they are on demand.
    ///
    /// A length of 0 is refused as the kernel does: where no page holds the address and the
    /// address is that of a page. Elsewhere it makes a region that nothing lies in.
    ///
    /// # Errors
    /// EINVAL for access flags that contradict or mean nothing, for a range of addresses that
    /// wraps around, and for the whole address space unless it is on demand; EFAULT if part of the
    /// range is not mapped, or not writable with `IBV_ACCESS_LOCAL_WRITE`; ENOMEM.
    pub fn register(
        self: &Arc<Self>,
        pd: PdId,
        memory: ApplicationMemory,
        iova: u64,
        access: u32,
    ) -> Result<(Mr, provider::Keys)> {
        self.region(pd, access, Covered::new(memory, iova, access)?)
    }

    /// ibv_alloc_null_mr(3): only its L_Key is of use.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn null_mr(self: &Arc<Self>, pd: PdId) -> Result<(Mr, provider::Keys)> {
        let everything = Covered {
            base: 0,
            length: u64::MAX,
            space: Space::Null,
        };
        self.region(pd, IBV_ACCESS_LOCAL_WRITE, everything)
    }

    /// ibv_reg_dm_mr(3).
    ///
    /// # Errors
    /// EINVAL beyond the end, without `IBV_ACCESS_ZERO_BASED`, and for flags that contradict or are
    /// about pages of the application; ENOMEM.
    pub fn register_dm(
        self: &Arc<Self>,
        pd: PdId,
        dm: &Dm,
        offset: u64,
        length: usize,
        access: u32,
    ) -> Result<(Mr, provider::Keys)> {
        access::check(access)?;
        let of_pages = access & (IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB) != 0;
        if of_pages || access & IBV_ACCESS_ZERO_BASED == 0 {
            return Err(Errno::INVAL);
        }
        let space = dm.part(offset, length).ok_or(Errno::INVAL)?;
        let length = u64::try_from(length).map_err(|_| Errno::INVAL)?;
        let base = 0;
        self.region(
            pd,
            access,
            Covered {
                base,
                length,
                space,
            },
        )
    }

    /// ibv_rereg_mr(3): `range`, `pd` and `access` change where they are given. The keys stay.
    /// After an error nothing has changed.
    ///
    /// # Errors
    /// As for [`Keys::register`]; EBUSY while a window is bound to the region, or a peer may be
    /// copying from or into it ([`Keys::deregister`]); EINVAL for a range or access of a region
    /// that is not one of the application's memory.
    pub fn rereg(
        &self,
        mr: &Mr,
        range: Option<ApplicationMemory>,
        pd: Option<PdId>,
        access: Option<u32>,
    ) -> Result<provider::Keys> {
        let covered = self.changed(mr, range, access)?;
        self.change_region(mr, false, |entry| {
            entry.pd = pd.unwrap_or(entry.pd);
            entry.access = access.unwrap_or(entry.access);
            if let Some(covered) = covered {
                entry.base = covered.base;
                entry.length = covered.length;
                entry.space = covered.space;
            }
            both(mr.key)
        })
    }

    /// The range of a region after a change of its address or access.
    fn changed(
        &self,
        mr: &Mr,
        range: Option<ApplicationMemory>,
        access: Option<u32>,
    ) -> Result<Option<Covered>> {
        if range.is_none() && access.is_none() {
            return Ok(None);
        }
        let (memory, base, had) = {
            let entry = self.own(mr)?.read();
            match (entry.is(&mr.identity), &entry.space) {
                (true, Space::Pinned(memory) | Space::OnDemand(memory)) => {
                    (*memory, entry.base, entry.access)
                }
                _ => return Err(Errno::INVAL),
            }
        };
        let access = access.unwrap_or(had);
        let was_based = had & IBV_ACCESS_ZERO_BASED != 0;
        let (memory, iova) = match range {
            Some(range) => (range, address(&range)?),
            None if was_based => (memory, address(&memory)?),
            None => (memory, base),
        };
        Covered::new(memory, iova, access).map(Some)
    }

    fn own(&self, mr: &Mr) -> Result<&Slot> {
        self.table.slot(mr.index()).ok_or(Errno::INVAL)
    }

    /// ibv_dereg_mr(3). When it returns, the memory is not used by the key any more.
    ///
    /// # Errors
    /// EBUSY while a window is bound to it, and if a peer on this host may still be copying from or
    /// into it after a second: then it is registered as before, and the call may be made again.
    /// EINVAL if it was deregistered before.
    pub fn deregister(&self, mr: &Mr) -> Result<()> {
        self.take_away(mr, false)
    }

    fn take_away(&self, mr: &Mr, anyhow: bool) -> Result<()> {
        // Listeners need no call for a region that is gone already: usually a region was
        // deregistered when it is dropped, and the thread that drops it may hold the lock of a
        // listener.
        if !self.own(mr)?.read().is(&mr.identity) {
            return Err(Errno::INVAL);
        }
        if mr.identity.windows.load(Ordering::Acquire) > 0 {
            return Err(Errno::BUSY);
        }
        self.change_region(mr, anyhow, |entry| {
            self.leave(mr.index(), entry);
            self.regions.fetch_sub(1, Ordering::Relaxed);
        })
    }
}

fn address(memory: &ApplicationMemory) -> Result<u64> {
    u64::try_from(memory.address()).map_err(|_| Errno::INVAL)
}

fn both(key: u32) -> provider::Keys {
    provider::Keys {
        lkey: key,
        rkey: key,
    }
}
