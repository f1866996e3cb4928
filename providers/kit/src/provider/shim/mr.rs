//! Memory regions: ibv_reg_mr(3), ibv_rereg_mr(3), ibv_advise_mr(3).

use super::answer::{code, pointer};
use super::context::Subject;
use super::import::Import;
use super::object::{Hold, New, Object, Side, Uses};
use super::pd::Domain;
use crate::abi::{kernel::*, *};
use crate::errno::{Errno, Result};
use crate::provider::{Keys, Numbered, Provider, Rereg};
use crate::sync::Mutex;
use crate::sys::application::ApplicationMemory;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use std::sync::Arc;

/// A region.
pub(super) struct Region<P: Provider> {
    pub(super) mr: Arc<P::Mr>,
    /// The domain, which rereg changes.
    pd: Mutex<Hold>,
    /// Device memory under it.
    _dm: Option<Hold>,
    pub(super) import: Import,
}

impl<P: Provider> Region<P> {
    /// One that another context has made, in a domain here.
    pub(super) fn imported(mr: Arc<P::Mr>, pd: Hold, import: Import) -> Self {
        Self {
            mr,
            pd: Mutex::new(pd),
            _dm: None,
            import,
        }
    }
}

// SAFETY: verbs_mr starts with the context of its ibv_mr; numbers and pointers may be 0.
unsafe impl<P: Provider> Side for Region<P> {
    type C = verbs_mr;
}

/// The members of a new region that applications read.
pub(super) struct Shown {
    pub(super) addr: *mut c_void,
    pub(super) length: usize,
    pub(super) mr_type: ibv_mr_type,
    pub(super) access: u32,
}

/// Makes the C side of a region for the provider's region.
pub(super) fn register<P: Provider>(
    domain: &Subject<'_, P, Domain<P>>,
    shown: &Shown,
    dm: Option<&Uses>,
    make: impl FnOnce(&Arc<P>, &Arc<P::Pd>) -> Result<(P::Mr, Keys)>,
) -> Result<*mut ibv_mr> {
    let mut new = New::<Region<P>>::alloc(&domain.context, None)?;
    let (mr, keys) = make(&domain.provider, &domain.object.side.pd)?;
    let c = new.c();
    c.ibv_mr.pd = domain.object.c();
    c.ibv_mr.addr = shown.addr;
    c.ibv_mr.length = shown.length;
    let number = domain.provider.number(Numbered::Mr(&mr));
    let handle = number.unwrap_or_else(|| domain.context.exports().handle());
    c.ibv_mr.handle = handle;
    c.ibv_mr.lkey = keys.lkey;
    c.ibv_mr.rkey = keys.rkey;
    c.mr_type = shown.mr_type;
    c.access = shown.access.cast_signed();
    let region = Region {
        mr: Arc::new(mr),
        pd: Mutex::new(domain.object.uses.hold()),
        _dm: dm.map(Uses::hold),
        import: Import::by(handle),
    };
    let region = new.finish(region);
    domain.context.exports().mrs.add(handle, region);
    Ok(region.cast())
}

/// A range that the application named.
///
/// # Errors
/// EINVAL if it wraps around.
fn range(addr: *mut c_void, length: usize) -> Result<ApplicationMemory> {
    // SAFETY: ibv_reg_mr(3) makes the application keep it mapped while it is registered; the
    // provider keeps the value no longer than that.
    unsafe { ApplicationMemory::new(addr.expose_provenance(), length) }
}

pub(super) unsafe extern "C" fn reg_mr<P: Provider>(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    let access = access.cast_unsigned();
    // SAFETY: the library passes a live domain.
    let domain = unsafe { Subject::<P, Domain<P>>::from_raw(pd) };
    pointer(domain.and_then(|domain| {
        let memory = range(addr, length)?;
        let shown = Shown {
            addr,
            length,
            mr_type: IBV_MR_TYPE_MR,
            access,
        };
        register(&domain, &shown, None, |provider, pd| {
            provider.reg_mr(pd, memory, iova, access)
        })
    }))
}

pub(super) unsafe extern "C" fn alloc_null_mr<P: Provider>(pd: *mut ibv_pd) -> *mut ibv_mr {
    // SAFETY: the caller passes a live domain or NULL.
    let domain = unsafe { Subject::<P, Domain<P>>::from_raw(pd) };
    pointer(domain.and_then(|domain| {
        let shown = Shown {
            addr: null_mut(),
            length: usize::MAX,
            mr_type: IBV_MR_TYPE_NULL_MR,
            access: 0,
        };
        register(&domain, &shown, None, |provider, pd| {
            provider.alloc_null_mr(pd)
        })
    }))
}

pub(super) unsafe extern "C" fn dereg_mr<P: Provider>(mr: *mut verbs_mr) -> c_int {
    // SAFETY: the library passes a live region.
    code(unsafe {
        Subject::<P, Region<P>>::from_raw(mr).and_then(|subject| {
            let side = &subject.object.side;
            if side.import.is() {
                subject.object.idle()?;
            } else {
                let (mrs, handle) = (&subject.context.exports().mrs, side.import.handle());
                mrs.withdraw(handle, &subject.object)?;
                let done = subject.provider.dereg_mr(&side.mr);
                done.inspect_err(|_| mrs.add(handle, mr))?;
            }
            subject.free();
            Ok(())
        })
    })
}

pub(super) unsafe extern "C" fn rereg_mr<P: Provider>(
    mr: *mut verbs_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    // SAFETY: the library passes a live region, and a live domain if the flags contain it.
    code(unsafe {
        Subject::<P, Region<P>>::from_raw(mr).and_then(|subject| {
            let asks = |flag: u32| flags.cast_unsigned() & flag != 0;
            if flags.cast_unsigned() & !IBV_REREG_MR_FLAGS_SUPPORTED != 0 {
                return Err(Errno::INVAL);
            }
            // The keys that others know would be wrong.
            if subject.object.side.import.is() {
                return Err(Errno::OPNOTSUPP);
            }
            let domain: Option<&Object<Domain<P>>> = match asks(IBV_REREG_MR_CHANGE_PD) {
                true => Some(subject.context.object(pd)?),
                false => None,
            };
            let change = Rereg {
                range: match asks(IBV_REREG_MR_CHANGE_TRANSLATION) {
                    true => Some(range(addr, length)?),
                    false => None,
                },
                pd: domain.map(|domain| &domain.side.pd),
                access: asks(IBV_REREG_MR_CHANGE_ACCESS).then_some(access.cast_unsigned()),
            };
            let side = &subject.object.side;
            let keys = subject.provider.rereg_mr(&side.mr, &change)?;
            (*mr).ibv_mr.lkey = keys.lkey;
            (*mr).ibv_mr.rkey = keys.rkey;
            if change.access.is_some() {
                (*mr).access = access;
            }
            if let Some(domain) = domain {
                (*mr).ibv_mr.pd = pd;
                *side.pd.lock() = domain.uses.hold();
            }
            if change.range.is_some() {
                (*mr).ibv_mr.addr = addr;
                (*mr).ibv_mr.length = length;
            }
            Ok(())
        })
    })
}

pub(super) unsafe extern "C" fn advise_mr<P: Provider>(
    pd: *mut ibv_pd,
    advice: ib_uverbs_advise_mr_advice,
    flags: u32,
    list: *mut ibv_sge,
    count: u32,
) -> c_int {
    // SAFETY: the caller passes a live domain and a list of that many elements, or NULL.
    code(unsafe {
        Subject::<P, Domain<P>>::from_raw(pd).and_then(|subject| {
            let count = usize::try_from(count).map_err(|_| Errno::INVAL)?;
            let list = match (list.is_null(), count) {
                (true, _) | (_, 0) => return Err(Errno::INVAL),
                _ => core::slice::from_raw_parts(list, count),
            };
            let pd = &subject.object.side.pd;
            subject.provider.advise_mr(pd, advice, flags, list)
        })
    })
}
