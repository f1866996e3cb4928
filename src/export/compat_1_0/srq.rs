//! Shared receive queues: ibv_create_srq(3) of 1.0.

use super::{ended, idle, layout::*, made, real, ret, wrapper};
use crate::export::srq as today;
use crate::symver;
use kit::abi::{ibv_srq_attr, ibv_srq_init_attr};
use kit::errno::Result;
use std::{ffi::c_int, ptr::null_mut};

/// # Safety
/// `pd` is as for [`wrapper`].
unsafe fn domain_and<T>(pd: *mut ibv_pd_1_0, argument: *mut T) -> Result<*mut ibv_pd_1_0> {
    ret::not_null(argument)?;
    // SAFETY: vouched for by the caller.
    unsafe { wrapper(pd) }
}

unsafe extern "C" fn create_srq(
    pd: *mut ibv_pd_1_0,
    init: *mut ibv_srq_init_attr,
) -> *mut ibv_srq_1_0 {
    // SAFETY: the caller passes a live domain and attributes, or NULL.
    unsafe {
        ret::pointer_of(domain_and(pd, init), |pd| {
            let (mutex, cond) = idle();
            let value = ibv_srq_1_0 {
                context: (*pd).context,
                srq_context: (*init).srq_context,
                pd,
                handle: 0,
                mutex,
                cond,
                events_completed: 0,
                real_srq: null_mut(),
            };
            let attr = (*init).attr;
            made(value, |new| {
                let mut given = ibv_srq_init_attr {
                    srq_context: new.cast(),
                    attr,
                };
                let srq = today::create_srq((*pd).real_pd, &raw mut given);
                // The granted capacities may exceed the requested ones.
                (*init).attr = given.attr;
                srq
            })
        })
    }
}
symver!(old create_srq => "ibv_create_srq", "IBVERBS_1.0");

unsafe extern "C" fn modify_srq(
    srq: *mut ibv_srq_1_0,
    attr: *mut ibv_srq_attr,
    attr_mask: c_int,
) -> c_int {
    // SAFETY: the caller passes a live queue and attributes, or NULL.
    unsafe { ret::code_of(real(srq), |queue| today::modify_srq(queue, attr, attr_mask)) }
}
symver!(old modify_srq => "ibv_modify_srq", "IBVERBS_1.0");

unsafe extern "C" fn query_srq(srq: *mut ibv_srq_1_0, attr: *mut ibv_srq_attr) -> c_int {
    // SAFETY: as above.
    unsafe { ret::code_of(real(srq), |queue| today::query_srq(queue, attr)) }
}
symver!(old query_srq => "ibv_query_srq", "IBVERBS_1.0");

unsafe extern "C" fn destroy_srq(srq: *mut ibv_srq_1_0) -> c_int {
    // SAFETY: the caller passes a live queue or NULL.
    unsafe { ended(srq, |object| today::destroy_srq(object)) }
}
symver!(old destroy_srq => "ibv_destroy_srq", "IBVERBS_1.0");
