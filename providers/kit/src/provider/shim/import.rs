//! Objects that other contexts of the same command descriptor take over by their handles:
//! ibv_import_device(3), ibv_import_pd(3), ibv_import_mr(3), ibv_import_dm(3).
//!
//! An imported object shares the provider's side with its original, and holds it. Its unimport or
//! its destroy verb drops it; only the original ends the object itself.

use super::answer::pointer;
use super::context::{Context, Subject};
use super::dm::{Memory, memcpy_from_dm, memcpy_to_dm};
use super::mr::Region;
use super::object::{Hold, New, Object, Side, free};
use super::pd::Domain;
use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::provider::Provider;
use crate::sync::Mutex;
use core::ptr::{NonNull, null_mut};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Objects of one kind by their handles.
pub(super) struct Handles<R: Side>(Mutex<HashMap<u32, NonNull<Object<R>>>>);

// SAFETY: objects may be used from any thread; one that is in the map is live, since it is
// withdrawn under the map's lock before it is freed.
unsafe impl<R: Side> Send for Handles<R> {}
// SAFETY: as above.
unsafe impl<R: Side> Sync for Handles<R> {}

impl<R: Side> Default for Handles<R> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<R: Side> Handles<R> {
    /// Makes an object known.
    pub(super) fn add(&self, handle: u32, raw: *mut R::C) {
        if let Some(object) = NonNull::new(raw.cast()) {
            self.0.lock().insert(handle, object);
        }
    }

    /// No lookup finds the object any more; it is about to be destroyed.
    ///
    /// # Errors
    /// EBUSY while something is left that was made with it.
    pub(super) fn withdraw(&self, handle: u32, object: &Object<R>) -> Result<()> {
        let mut map = self.0.lock();
        object.idle()?;
        map.remove(&handle);
        Ok(())
    }

    /// Calls `take` with an object.
    ///
    /// # Errors
    /// ENOENT without an object.
    fn with<T>(&self, handle: u32, take: impl FnOnce(&Object<R>) -> Result<T>) -> Result<T> {
        let map = self.0.lock();
        let object = map.get(&handle).ok_or(Errno::NOENT)?;
        // SAFETY: objects in the map are live while the map is locked.
        take(unsafe { object.as_ref() })
    }
}

/// Objects that the contexts of one command descriptor share.
pub(super) struct Exports<P: Provider> {
    last: AtomicU32,
    pub(super) pds: Handles<Domain<P>>,
    pub(super) mrs: Handles<Region<P>>,
    pub(super) dms: Handles<Memory<P>>,
}

impl<P: Provider> Default for Exports<P> {
    fn default() -> Self {
        Self {
            last: AtomicU32::new(0),
            pds: Handles::default(),
            mrs: Handles::default(),
            dms: Handles::default(),
        }
    }
}

impl<P: Provider> Exports<P> {
    /// A handle for a new object.
    pub(super) fn handle(&self) -> u32 {
        self.last.fetch_add(1, Relaxed).wrapping_add(1)
    }
}

/// Whether an object can be imported, or was.
#[derive(Default)]
pub(super) struct Import {
    /// The handle by which it is found. Kept here since the C structure is the application's too.
    handle: u32,
    imported: bool,
    /// Its hold on the original, until it is given up.
    hold: Mutex<Option<Hold>>,
}

impl Import {
    fn of<R: Side>(original: &Object<R>) -> Self {
        Self {
            handle: 0,
            imported: true,
            hold: Mutex::new(Some(original.uses.hold())),
        }
    }

    /// For an original.
    pub(super) fn by(handle: u32) -> Self {
        Self {
            handle,
            ..Self::default()
        }
    }

    /// The handle of an original.
    pub(super) fn handle(&self) -> u32 {
        self.handle
    }

    /// Whether the object was imported.
    pub(super) fn is(&self) -> bool {
        self.imported
    }

    fn give_up(&self) {
        drop(self.hold.lock().take());
    }
}

/// Domains that were given up while something was left that had been made with them.
pub(super) struct Left<P: Provider>(Mutex<Vec<NonNull<Object<Domain<P>>>>>);

impl<P: Provider> Left<P> {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Frees those that nothing is left of.
    pub(super) fn sweep(&self) {
        self.0.lock().retain(|left| {
            // SAFETY: it is in the list, so it was not freed yet; the application has given it up,
            // and an idle one is used by nothing else.
            unsafe {
                let used = left.as_ref().uses.any();
                if !used {
                    free(left.as_ptr());
                }
                used
            }
        });
    }
}

/// Adds the verbs of this module, which devices of the kernel do not have.
pub(super) fn with_imports<P: Provider>(ops: verbs_context_ops) -> verbs_context_ops {
    verbs_context_ops {
        import_dm: Some(import_dm::<P>),
        import_mr: Some(import_mr::<P>),
        import_pd: Some(import_pd::<P>),
        unimport_dm: Some(unimport_dm::<P>),
        unimport_mr: Some(unimport_mr::<P>),
        unimport_pd: Some(unimport_pd::<P>),
        ..ops
    }
}

unsafe extern "C" fn import_pd<P: Provider>(context: *mut ibv_context, handle: u32) -> *mut ibv_pd {
    // SAFETY: the library passes an open context.
    let context = unsafe { Context::<P>::from_raw(context) };
    pointer(context.and_then(|context| {
        context.provider()?;
        let mut new = New::<Domain<P>>::alloc(context, None)?;
        context.exports().pds.with(handle, |original| {
            new.c().handle = handle;
            let pd = Arc::clone(&original.side.pd);
            Ok(new.finish(Domain::imported(pd, Import::of(original))))
        })
    }))
}

unsafe extern "C" fn unimport_pd<P: Provider>(pd: *mut ibv_pd) {
    // SAFETY: the library passes an imported domain, which the application uses no more.
    unsafe {
        if let Ok(domain) = Subject::<P, Domain<P>>::from_raw(pd)
            && domain.object.side.import.is()
        {
            domain.object.side.import.give_up();
            let left = domain.context.left();
            left.0.lock().extend(NonNull::new(pd.cast()));
            left.sweep();
        }
    }
}

unsafe extern "C" fn import_mr<P: Provider>(pd: *mut ibv_pd, handle: u32) -> *mut ibv_mr {
    // SAFETY: the library passes a live domain.
    let domain = unsafe { Subject::<P, Domain<P>>::from_raw(pd) };
    let mr = domain.and_then(|domain| {
        let mut new = New::<Region<P>>::alloc(&domain.context, None)?;
        domain.context.exports().mrs.with(handle, |original| {
            // SAFETY: the original is live, and its numbers stay while it has uses.
            let (known, kind, access) = unsafe {
                let c = original.c();
                ((*c).ibv_mr, (*c).mr_type, (*c).access)
            };
            let c = new.c();
            c.ibv_mr.pd = domain.object.c();
            c.ibv_mr.addr = null_mut();
            c.ibv_mr.length = known.length;
            c.ibv_mr.handle = handle;
            c.ibv_mr.lkey = known.lkey;
            c.ibv_mr.rkey = known.rkey;
            c.mr_type = kind;
            c.access = access;
            let mr = Arc::clone(&original.side.mr);
            let hold = domain.object.uses.hold();
            Ok(new.finish(Region::imported(mr, hold, Import::of(original))))
        })
    });
    pointer(mr).cast()
}

unsafe extern "C" fn unimport_mr<P: Provider>(mr: *mut ibv_mr) {
    // SAFETY: the library passes an imported region, which the application uses no more.
    unsafe {
        if let Ok(region) = Subject::<P, Region<P>>::from_raw(mr.cast())
            && region.object.side.import.is()
            && region.object.idle().is_ok()
        {
            region.free();
        }
    }
}

unsafe extern "C" fn import_dm<P: Provider>(context: *mut ibv_context, handle: u32) -> *mut ibv_dm {
    // SAFETY: the library passes an open context.
    let context = unsafe { Context::<P>::from_raw(context) };
    let dm = context.and_then(|context| {
        context.provider()?;
        let mut new = New::<Memory<P>>::alloc(context, None)?;
        context.exports().dms.with(handle, |original| {
            let c = new.c();
            c.dm.memcpy_to_dm = Some(memcpy_to_dm::<P>);
            c.dm.memcpy_from_dm = Some(memcpy_from_dm::<P>);
            c.dm.handle = handle;
            c.handle = handle;
            let dm = Arc::clone(&original.side.dm);
            Ok(new.finish(Memory::imported(dm, Import::of(original))))
        })
    });
    pointer(dm).cast()
}

unsafe extern "C" fn unimport_dm<P: Provider>(dm: *mut ibv_dm) {
    // SAFETY: the library passes imported memory, which the application uses no more.
    unsafe {
        if let Ok(memory) = Subject::<P, Memory<P>>::from_raw(dm.cast())
            && memory.object.side.import.is()
            && memory.object.idle().is_ok()
        {
            memory.free();
        }
    }
}
