//! Memory windows. A window keeps the regions that it was bound to: requests of several queue pairs
//! may bind it, in an order that nothing reports, so it may show any of them.

use std::{
    ffi::c_int,
    fmt, ptr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use kit::abi::*;

use super::{
    calls::Qp,
    object::{Object, made, status},
};
use crate::{
    domain::ProtectionDomain,
    error::{Error, Result},
    memory::{Access, MemoryRegion, RegionSlice, RemoteMemory},
};

type Regions = Mutex<Vec<MemoryRegion>>;

/// A memory window.
pub(crate) struct Window {
    mw: Object<ibv_mw, (ProtectionDomain, Regions)>,
    kind: ibv_mw_type,
    last: Mutex<Last>,
}

/// The last binding that was posted.
#[derive(Clone, Copy)]
pub(crate) struct Last {
    rkey: u32,
    remote: Option<RemoteMemory>,
}

/// What a request that binds a window keeps.
#[derive(Clone)]
pub(crate) struct Binding {
    pub window: Arc<Window>,
    /// None unbinds.
    pub slice: Option<RegionSlice>,
    pub access: Access,
}

/// Calls the verb of the window's context.
unsafe extern "C" fn dealloc(mw: *mut ibv_mw) -> c_int {
    // SAFETY: by `Object::new`; the window's context is open.
    unsafe {
        let verb = (*(*mw).context).ops.dealloc_mw;
        verb.map_or(libc::EOPNOTSUPP, |verb| verb(mw))
    }
}

impl Window {
    /// ibv_alloc_mw(3).
    pub(crate) fn new(pd: &ProtectionDomain, kind: ibv_mw_type) -> Result<Self> {
        const VERB: &str = "ibv_alloc_mw";
        let at = pd.object().as_ptr();
        // SAFETY: the domain and its context live, and are kept. The window is new.
        unsafe {
            let verb = (*(*at).context).ops.alloc_mw;
            let verb = verb.ok_or(Error::new(VERB, libc::EOPNOTSUPP))?;
            let mw = made(VERB, verb(at, kind))?;
            let rkey = mw.as_ref().rkey;
            Ok(Self {
                mw: Object::new(mw, dealloc, (pd.clone(), Regions::default())),
                kind,
                last: Mutex::new(Last { rkey, remote: None }),
            })
        }
    }

    pub(crate) fn kind(&self) -> ibv_mw_type {
        self.kind
    }

    pub(crate) fn domain(&self) -> &ProtectionDomain {
        let (pd, _) = &*self.mw;
        pd
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The memory of the last binding that was posted.
    pub(crate) fn remote(&self) -> Option<RemoteMemory> {
        self.last().remote
    }

    fn keep(&self, slice: &RegionSlice) {
        let (_, regions) = &*self.mw;
        let mut regions = regions.lock().unwrap_or_else(PoisonError::into_inner);
        if !regions.iter().any(|kept| kept.same(slice.region())) {
            regions.push(slice.region().clone());
        }
    }

    /// The key that the next binding of a window of type 2 has: the lower eight bits are the
    /// program's.
    fn next_key(rkey: u32) -> u32 {
        rkey & 0xffff_ff00 | rkey.wrapping_add(1) & 0xff
    }
}

impl Binding {
    fn info(&self) -> ibv_mw_bind_info {
        let slice = self.slice.as_ref().and_then(RegionSlice::place);
        let (mr, addr, length) = slice.unwrap_or((ptr::null_mut(), 0, 0));
        ibv_mw_bind_info {
            mr,
            addr,
            length,
            mw_access_flags: self.access.bits(),
        }
    }

    /// Posts it by `post`, which gets the window, the next key and the memory, and returns the key
    /// that the window has afterwards. Returns the state before.
    fn posted(
        &self,
        post: impl FnOnce(*mut ibv_mw, u32, &ibv_mw_bind_info) -> Result<u32>,
    ) -> Result<Last> {
        let window = &*self.window;
        if let Some(slice) = &self.slice {
            window.keep(slice);
        }
        let mut last = window.last();
        let (before, info) = (*last, self.info());
        let rkey = post(window.mw.as_ptr(), Window::next_key(before.rkey), &info)?;
        let remote = RemoteMemory {
            address: info.addr,
            length: info.length,
            rkey,
        };
        *last = Last {
            rkey,
            remote: self.slice.is_some().then_some(remote),
        };
        Ok(before)
    }

    /// Posts it in a request, which `post` does with these members.
    pub(crate) fn by_request(
        &self,
        post: impl FnOnce(*mut ibv_mw, u32, &ibv_mw_bind_info) -> Result<()>,
    ) -> Result<Last> {
        self.posted(|mw, rkey, info| post(mw, rkey, info).map(|()| rkey))
    }

    /// Takes it back, as its request was refused after `by_request`, which returned `before`.
    pub(crate) fn undo(&self, before: Last) {
        let mut last = self.window.last();
        if last.rkey == Window::next_key(before.rkey) {
            *last = before;
        }
    }

    /// ibv_bind_mw(3).
    pub(crate) fn by_verb(&self, qp: &Qp, wr_id: u64, flags: ibv_send_flags) -> Result<()> {
        const VERB: &str = "ibv_bind_mw";
        let posted = self.posted(|mw, _, info| {
            let mut bind = ibv_mw_bind {
                wr_id,
                send_flags: flags,
                bind_info: *info,
            };
            // SAFETY: window, queue pair, region and context live; window and region are kept until
            // the request has completed or the queue pair is destroyed. The key of the window is
            // read under the lock under which it is written.
            unsafe {
                let verb = (*(*mw).context).ops.bind_mw;
                let verb = verb.ok_or(Error::new(VERB, libc::EOPNOTSUPP))?;
                status(VERB, verb(qp.as_ptr(), mw, &raw mut bind))?;
                Ok((*mw).rkey)
            }
        });
        posted.map(|_| ())
    }
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Binding");
        shown.field("slice", &self.slice);
        shown.field("access", &self.access);
        shown.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_key_differs_in_the_lower_bits_alone() {
        assert_eq!(Window::next_key(0x1234_5678), 0x1234_5679);
        assert_eq!(Window::next_key(0x1234_56ff), 0x1234_5600);
    }
}
