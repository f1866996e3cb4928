//! Protection, thread and parent domains: ibv_alloc_pd(3), ibv_alloc_td(3),
//! ibv_alloc_parent_domain(3).

use super::answer::{code, pointer};
use super::context::{Context, Subject};
use super::import::Import;
use super::object::{Allocator, Hold, New, Object, Side};
use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::provider::{Numbered, Provider};
use core::ffi::c_int;
use std::sync::Arc;

/// A domain. One that wraps another shares its provider's side.
pub(super) struct Domain<P: Provider> {
    pub(super) pd: Arc<P::Pd>,
    parent: Option<Parent>,
    pub(super) import: Import,
}

impl<P: Provider> Domain<P> {
    /// One that another context has made.
    pub(super) fn imported(pd: Arc<P::Pd>, import: Import) -> Self {
        Self {
            pd,
            parent: None,
            import,
        }
    }
}

/// The parts of a parent domain.
struct Parent {
    allocator: Option<Allocator>,
    _pd: Hold,
    _td: Option<Hold>,
}

// SAFETY: ibv_pd starts with its context; numbers and pointers may be 0.
unsafe impl<P: Provider> Side for Domain<P> {
    type C = ibv_pd;
}

impl<P: Provider> Object<Domain<P>> {
    /// Where objects of this domain get their memory from.
    pub(super) fn allocator(&self) -> Option<Allocator> {
        self.side.parent.as_ref()?.allocator
    }

    /// Whether it is a parent domain.
    pub(super) fn is_parent(&self) -> bool {
        self.side.parent.is_some()
    }
}

pub(super) unsafe extern "C" fn alloc_pd<P: Provider>(context: *mut ibv_context) -> *mut ibv_pd {
    // SAFETY: the library passes an open context.
    pointer(
        unsafe { Context::<P>::from_raw(context) }.and_then(|context| {
            let provider = context.provider()?;
            let mut new = New::<Domain<P>>::alloc(context, None)?;
            let pd = Arc::new(provider.alloc_pd()?);
            let number = provider.number(Numbered::Pd(&*pd));
            let handle = number.unwrap_or_else(|| context.exports().handle());
            new.c().handle = handle;
            let domain = new.finish(Domain {
                pd,
                parent: None,
                import: Import::by(handle),
            });
            context.exports().pds.add(handle, domain);
            Ok(domain)
        }),
    )
}

pub(super) unsafe extern "C" fn dealloc_pd<P: Provider>(pd: *mut ibv_pd) -> c_int {
    // SAFETY: the library passes a live domain, which is not used afterwards unless this call
    // returns an error.
    code(unsafe {
        Subject::<P, Domain<P>>::from_raw(pd).and_then(|subject| {
            let side = &subject.object.side;
            if subject.object.is_parent() || side.import.is() {
                subject.object.idle()?;
            } else {
                let (pds, handle) = (&subject.context.exports().pds, side.import.handle());
                pds.withdraw(handle, &subject.object)?;
                let done = subject.provider.dealloc_pd(&side.pd);
                done.inspect_err(|_| pds.add(handle, pd))?;
            }
            subject.free();
            Ok(())
        })
    })
}

/// A thread domain: a promise of the application that nothing here makes use of. Objects of such
/// a domain are as safe to use from several threads as others.
pub(super) struct Thread;

// SAFETY: ibv_td is a pointer to its context.
unsafe impl Side for Thread {
    type C = ibv_td;
}

pub(super) unsafe extern "C" fn alloc_td<P: Provider>(
    context: *mut ibv_context,
    attr: *mut ibv_td_init_attr,
) -> *mut ibv_td {
    // SAFETY: the caller passes an open context and attributes, or NULL.
    pointer(unsafe {
        Context::<P>::from_raw(context).and_then(|context| {
            context.provider()?;
            if attr.as_ref().ok_or(Errno::INVAL)?.comp_mask != 0 {
                return Err(Errno::INVAL);
            }
            Ok(New::<Thread>::alloc(context, None)?.finish(Thread))
        })
    })
}

pub(super) unsafe extern "C" fn dealloc_td<P: Provider>(td: *mut ibv_td) -> c_int {
    // SAFETY: the caller passes a live domain or NULL.
    code(unsafe {
        Subject::<P, Thread>::from_raw(td).and_then(|subject| {
            subject.object.idle()?;
            subject.free();
            Ok(())
        })
    })
}

pub(super) unsafe extern "C" fn alloc_parent_domain<P: Provider>(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    // SAFETY: the caller passes an open context and attributes, which name live domains, or NULL.
    pointer(unsafe {
        Context::<P>::from_raw(context)
            .and_then(|context| wrap(context, attr.as_ref().ok_or(Errno::INVAL)?))
    })
}

/// # Safety
/// The attributes name live domains, or NULL.
unsafe fn wrap<P: Provider>(
    context: &Context<P>,
    attr: &ibv_parent_domain_init_attr,
) -> Result<*mut ibv_pd> {
    // Memory need not be shared with a host for a device in user space, but may be.
    const KNOWN: u32 = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS
        | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT
        | IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC;
    if attr.comp_mask & !KNOWN != 0 {
        return Err(Errno::INVAL);
    }
    context.provider()?;
    // SAFETY: vouched for by the caller.
    let (wrapped, td) = unsafe {
        (
            context.object::<Domain<P>>(attr.pd)?,
            context.optional::<Thread>(attr.td)?,
        )
    };
    let mut new = New::<Domain<P>>::alloc(context, None)?;
    // SAFETY: the domain is live.
    new.c().handle = unsafe { (*attr.pd).handle };
    let parent = Parent {
        allocator: allocator(attr, new.as_ptr()),
        _pd: wrapped.uses.hold(),
        _td: td.map(|td| td.uses.hold()),
    };
    Ok(new.finish(Domain {
        pd: Arc::clone(&wrapped.side.pd),
        parent: Some(parent),
        import: Import::default(),
    }))
}

/// The functions that the attributes name; members that the mask leaves out are not read.
fn allocator(attr: &ibv_parent_domain_init_attr, pd: *mut ibv_pd) -> Option<Allocator> {
    let given = |bit| attr.comp_mask & bit != 0;
    if !given(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
        return None;
    }
    let pd_context = match given(IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) {
        true => attr.pd_context,
        false => core::ptr::null_mut(),
    };
    Some(Allocator {
        pd,
        pd_context,
        alloc: attr.alloc?,
        free: attr.free,
    })
}

// SAFETY: the pointers are the application's, for its own functions, which it lets any thread
// call that makes or destroys an object.
unsafe impl Send for Allocator {}
// SAFETY: as above.
unsafe impl Sync for Allocator {}
