//! Protection domains: ibv_alloc_pd(3) of 1.0.

use super::{context, ended, layout::*, made, ret};
use crate::export::pd as today;
use crate::symver;
use std::{ffi::c_int, ptr::null_mut};

unsafe extern "C" fn alloc_pd(context: *mut ibv_context_1_0) -> *mut ibv_pd_1_0 {
    // SAFETY: the caller passes an open context or NULL.
    unsafe {
        ret::pointer_of(context::real(context), |open| {
            let value = ibv_pd_1_0 {
                context,
                handle: 0,
                real_pd: null_mut(),
            };
            made(value, |_| today::alloc_pd(open))
        })
    }
}
symver!(old alloc_pd => "ibv_alloc_pd", "IBVERBS_1.0");

unsafe extern "C" fn dealloc_pd(pd: *mut ibv_pd_1_0) -> c_int {
    // SAFETY: the caller passes a live domain or NULL.
    unsafe { ended(pd, |object| today::dealloc_pd(object)) }
}
symver!(old dealloc_pd => "ibv_dealloc_pd", "IBVERBS_1.0");
