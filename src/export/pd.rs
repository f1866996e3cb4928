//! Protection domains: ibv_alloc_pd(3), ibv_import_pd(3).

use super::ret;
use crate::symver;
use kit::abi::{
    handle::{Ctx, Pd},
    ibv_context, ibv_pd,
};
use std::ffi::c_int;

pub(super) unsafe extern "C" fn alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    // SAFETY: the caller passes an open context or NULL; a provider's new domain is valid.
    unsafe {
        ret::pointer_of(Ctx::from_raw(context), |ctx| {
            let pd = (ctx.table().alloc_pd())(context);
            if let Some(pd) = pd.as_mut() {
                pd.context = context;
            }
            pd
        })
    }
}
symver!(alloc_pd => "ibv_alloc_pd", "IBVERBS_1.1");

pub(super) unsafe extern "C" fn dealloc_pd(pd: *mut ibv_pd) -> c_int {
    // SAFETY: the caller passes a live domain or NULL.
    unsafe { ret::code_of(Pd::from_raw(pd), |h| (h.table().dealloc_pd())(pd)) }
}
symver!(dealloc_pd => "ibv_dealloc_pd", "IBVERBS_1.1");

unsafe extern "C" fn import_pd(context: *mut ibv_context, handle: u32) -> *mut ibv_pd {
    // SAFETY: the caller passes an open context or NULL.
    unsafe {
        ret::pointer_of(Ctx::from_raw(context), |ctx| {
            (ctx.table().import_pd())(context, handle)
        })
    }
}
symver!(import_pd => "ibv_import_pd", "IBVERBS_1.10");

unsafe extern "C" fn unimport_pd(pd: *mut ibv_pd) {
    // SAFETY: the caller passes an imported domain or NULL.
    unsafe {
        if let Ok(h) = Pd::from_raw(pd) {
            (h.table().unimport_pd())(pd);
        }
    }
}
symver!(unimport_pd => "ibv_unimport_pd", "IBVERBS_1.10");
