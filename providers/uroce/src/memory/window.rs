//! Memory windows: ibv_alloc_mw(3), ibv_bind_mw(3).

use super::access;
use super::entry::{Entry, Identity, Kind};
use super::keys::{Keys, Mr, count_up};
use super::space::Space;
use super::{MAX_WINDOWS, PdId, Peer};
use kit::abi::*;
use kit::errno::{Errno, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use uroce_engine::host::Fault;

/// A memory window; unbound and gone at the latest when it is dropped.
pub struct Mw {
    keys: Arc<Keys>,
    index: u32,
    kind: Kind,
    /// Type 1: the tag of the R_Key that was given out last.
    tag: AtomicU8,
    identity: Arc<Identity>,
}

impl Drop for Mw {
    fn drop(&mut self) {
        // Mostly it was deallocated before.
        let _ = Keys::dealloc_mw(&self.keys, self);
    }
}

impl std::fmt::Debug for Mw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mw({:#x}, {:?})", self.index, self.kind)
    }
}

/// The parameters of a binding.
#[derive(Debug)]
pub struct Binding {
    /// The window.
    pub mw: Arc<Mw>,
    /// Its new R_Key.
    pub rkey: u32,
    /// The region; `None` unbinds.
    pub mr: Option<Arc<Mr>>,
    /// First byte.
    pub address: u64,
    /// Bytes; 0 unbinds.
    pub length: u64,
    /// Bits of `enum ibv_access_flags`.
    pub access: u32,
}

/// The part of a region that a window gives access to.
struct View {
    base: u64,
    length: u64,
    access: u32,
    space: Space,
    bound: Option<Arc<Identity>>,
}

impl View {
    const NOTHING: Self = Self {
        base: 0,
        length: 0,
        access: 0,
        space: Space::Nothing,
        bound: None,
    };
}

fn show(entry: &mut Entry, view: View) {
    if let Some(region) = entry.bound.take() {
        region.windows.fetch_sub(1, Ordering::Release);
    }
    entry.base = view.base;
    entry.length = view.length;
    entry.access = view.access;
    entry.space = view.space;
    entry.bound = view.bound;
}

impl Keys {
    /// ibv_alloc_mw(3): a window that is not bound, and its R_Key. Windows of type 2 are of type
    /// 2B: they go by the protection domain and the queue pair that bound them.
    ///
    /// # Errors
    /// EINVAL for a type that there is not; ENOMEM.
    pub fn alloc_mw(self: &Arc<Self>, pd: PdId, mw_type: ibv_mw_type) -> Result<(Mw, u32)> {
        match mw_type {
            IBV_MW_TYPE_1 => self.window(pd, Kind::Type1),
            IBV_MW_TYPE_2 => self.window(pd, Kind::Type2B),
            _ => Err(Errno::INVAL),
        }
    }

    /// As [`Keys::alloc_mw`], for a window of type 2A, that goes by the queue pair alone. Verbs
    /// have no name for it: a device has windows of type 2A or 2B.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn alloc_mw_2a(self: &Arc<Self>, pd: PdId) -> Result<(Mw, u32)> {
        self.window(pd, Kind::Type2A)
    }

    fn window(self: &Arc<Self>, pd: PdId, kind: Kind) -> Result<(Mw, u32)> {
        count_up(&self.windows, MAX_WINDOWS)?;
        let identity = Arc::new(Identity::default());
        let entered = self.enter(Entry {
            kind,
            pd,
            identity: Some(Arc::clone(&identity)),
            ..Entry::FREE
        });
        let rkey = entered.inspect_err(|_| {
            self.windows.fetch_sub(1, Ordering::Relaxed);
        })?;
        let mw = Mw {
            keys: Arc::clone(self),
            index: rkey >> 8,
            kind,
            tag: AtomicU8::new(tag_of(rkey)),
            identity,
        };
        Ok((mw, rkey))
    }

    /// The R_Key that the next bind of a window of type 1 gives it (ibv_bind_mw(3)).
    ///
    /// # Errors
    /// EINVAL for a window of type 2.
    pub fn next_rkey(&self, mw: &Mw) -> Result<u32> {
        if mw.kind != Kind::Type1 {
            return Err(Errno::INVAL);
        }
        let tag = mw.tag.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        Ok(mw.index << 8 | u32::from(tag))
    }

    /// ibv_dealloc_mw(3). When it returns, memory is not used by its key any more.
    ///
    /// # Errors
    /// EINVAL if it was deallocated before.
    pub fn dealloc_mw(&self, mw: &Mw) -> Result<()> {
        let mut entry = self.change(mw.index << 8).map_err(|_| Errno::INVAL)?;
        if !entry.is(&mw.identity) {
            return Err(Errno::INVAL);
        }
        show(&mut entry, View::NOTHING);
        self.leave(mw.index, &mut entry);
        self.windows.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    /// Binds a window in the name of the queue pair that the request was posted to (IBTA volume 1,
    /// 10.6.7, 10.7): a window of type 1 whenever it is asked for, also to nothing; one of type 2
    /// only while it is not bound, and to something. The region must be of the queue pair's domain,
    /// allow binding and not be zero-based; a window through which memory is changed needs a
    /// region that may be changed locally. After an error the window is as it was.
    ///
    /// # Errors
    /// [`Fault`] if the window cannot be bound so.
    pub fn bind(&self, who: Peer, binding: &Binding) -> std::result::Result<(), Fault> {
        let mw = &binding.mw;
        if binding.rkey >> 8 != mw.index {
            return Err(Fault);
        }
        let mut entry = self.change(binding.rkey)?;
        if !entry.is(&mw.identity) {
            return Err(Fault);
        }
        let foreign = entry.pd != who.pd && entry.kind != Kind::Type2A;
        let taken = entry.kind.is_type_2() && entry.bound.is_some();
        if foreign || taken {
            return Err(Fault);
        }
        let view = match &binding.mr {
            Some(mr) if binding.length > 0 => self.view(who.pd, mr, binding)?,
            _ if entry.kind.is_type_2() => return Err(Fault),
            _ => View::NOTHING,
        };
        show(&mut entry, view);
        entry.tag = tag_of(binding.rkey);
        entry.qpn = who.qpn;
        Ok(())
    }

    /// The view of the window. The region counts it from now on. The window's lock is held, and the
    /// region's is taken: always in that order.
    fn view(&self, pd: PdId, mr: &Mr, binding: &Binding) -> std::result::Result<View, Fault> {
        let region = self.slot(mr.key())?.read();
        let may = region.is(&mr.identity)
            && region.pd == pd
            && access::admits(region.access, binding.access);
        if !may {
            return Err(Fault);
        }
        let start = region.place(binding.address, binding.length)?;
        let length = usize::try_from(binding.length).map_err(|_| Fault)?;
        let space = region.space.part(start, length)?;
        mr.identity.windows.fetch_add(1, Ordering::AcqRel);
        let zero_based = binding.access & IBV_ACCESS_ZERO_BASED != 0;
        Ok(View {
            base: if zero_based { 0 } else { binding.address },
            length: binding.length,
            access: binding.access,
            space,
            bound: Some(Arc::clone(&mr.identity)),
        })
    }

    /// Invalidates an R_Key, for a local request or because a peer asks (`remote`): that of a bound
    /// window of type 2, for callers that may use it. Regions that verbs register are not
    /// invalidated, nor are windows of type 1 (IBTA volume 1, 10.6.5, o10-37.2.26).
    ///
    /// Whether a peer asks makes no difference, since it asks through a queue pair that may use
    /// the window.
    ///
    /// # Errors
    /// [`Fault`] if the key is not one that may be invalidated so.
    pub fn invalidate(
        &self,
        who: Peer,
        rkey: u32,
        _remote: bool,
    ) -> std::result::Result<(), Fault> {
        let mut entry = self.change(rkey)?;
        let bound = entry.kind.is_type_2() && entry.bound.is_some();
        if !bound || entry.tag != tag_of(rkey) || !entry.admits(who, 0) {
            return Err(Fault);
        }
        show(&mut entry, View::NOTHING);
        Ok(())
    }
}

fn tag_of(key: u32) -> u8 {
    key.to_le_bytes()[0]
}
