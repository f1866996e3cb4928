//! Memory regions: ibv_reg_mr(3) of 1.0.

use super::{ended, layout::*, made, ret, wrapper};
use crate::export::mr as today;
use crate::symver;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

unsafe extern "C" fn reg_mr(
    pd: *mut ibv_pd_1_0,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr_1_0 {
    // SAFETY: the caller passes a live domain or NULL.
    unsafe {
        ret::pointer_of(wrapper(pd), |pd| {
            let value = ibv_mr_1_0 {
                context: (*pd).context,
                pd,
                handle: 0,
                lkey: 0,
                rkey: 0,
                real_mr: null_mut(),
            };
            made(value, |_| {
                today::reg_mr((*pd).real_pd, addr, length, access)
            })
        })
    }
}
symver!(old reg_mr => "ibv_reg_mr", "IBVERBS_1.0");

unsafe extern "C" fn dereg_mr(mr: *mut ibv_mr_1_0) -> c_int {
    // SAFETY: the caller passes a live region or NULL.
    unsafe { ended(mr, |object| today::dereg_mr(object)) }
}
symver!(old dereg_mr => "ibv_dereg_mr", "IBVERBS_1.0");
