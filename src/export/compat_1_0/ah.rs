//! Address handles: ibv_create_ah(3) of 1.0.

use super::{ended, layout::*, made, ret, wrapper};
use crate::export::ah as today;
use crate::symver;
use kit::abi::ibv_ah_attr;
use std::{ffi::c_int, ptr::null_mut};

unsafe extern "C" fn create_ah(pd: *mut ibv_pd_1_0, attr: *mut ibv_ah_attr) -> *mut ibv_ah_1_0 {
    // SAFETY: the caller passes a live domain and attributes, or NULL.
    unsafe {
        ret::pointer_of(wrapper(pd), |pd| {
            let value = ibv_ah_1_0 {
                context: (*pd).context,
                pd,
                handle: 0,
                real_ah: null_mut(),
            };
            made(value, |_| today::create_ah((*pd).real_pd, attr))
        })
    }
}
symver!(old create_ah => "ibv_create_ah", "IBVERBS_1.0");

unsafe extern "C" fn destroy_ah(ah: *mut ibv_ah_1_0) -> c_int {
    // SAFETY: the caller passes a live handle or NULL.
    unsafe { ended(ah, |object| today::destroy_ah(object)) }
}
symver!(old destroy_ah => "ibv_destroy_ah", "IBVERBS_1.0");
