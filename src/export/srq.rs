//! Shared receive queues: ibv_create_srq(3), ibv_modify_srq(3), ibv_query_srq(3).

use super::{ended, ret};
use crate::{core::events::kept, hidden, symver};
use kit::abi::{
    handle::{Pd, Srq},
    *,
};
use std::ffi::c_int;

pub(super) unsafe extern "C" fn create_srq(
    pd: *mut ibv_pd,
    attr: *mut ibv_srq_init_attr,
) -> *mut ibv_srq {
    // SAFETY: the caller passes a live domain and its attributes, or NULL; a provider's new
    // queue is valid and nothing else refers to it yet.
    unsafe {
        let arguments = ret::not_null(attr).and_then(|_| Pd::from_raw(pd));
        ret::pointer_of(arguments, |h| {
            let srq = (h.table().create_srq())(pd, attr);
            if !srq.is_null() {
                Srq::init(srq, h, (*attr).srq_context);
            }
            srq
        })
    }
}
symver!(create_srq => "ibv_create_srq", "IBVERBS_1.1");

pub(super) unsafe extern "C" fn modify_srq(
    srq: *mut ibv_srq,
    attr: *mut ibv_srq_attr,
    attr_mask: c_int,
) -> c_int {
    // SAFETY: the caller passes a live queue and its attributes, or NULL.
    unsafe {
        let arguments = ret::not_null(attr).and_then(|_| Srq::from_raw(srq));
        ret::code_of(arguments, |h| {
            (h.table().modify_srq())(srq, attr, attr_mask)
        })
    }
}
symver!(modify_srq => "ibv_modify_srq", "IBVERBS_1.1");

pub(super) unsafe extern "C" fn query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int {
    // SAFETY: as for modify_srq.
    unsafe {
        let arguments = ret::not_null(attr).and_then(|_| Srq::from_raw(srq));
        ret::code_of(arguments, |h| (h.table().query_srq())(srq, attr))
    }
}
symver!(query_srq => "ibv_query_srq", "IBVERBS_1.1");

/// Destroys a queue for another function of the library. No cancellation point, as
/// ibv_destroy_srq in `cancel.c` is.
///
/// # Safety
/// As for ibv_destroy_srq(3).
pub(super) unsafe fn destroy_srq(srq: *mut ibv_srq) -> c_int {
    // SAFETY: vouched for by the caller.
    unsafe {
        ret::code_of(Srq::from_raw(srq), |h| {
            let (destroy, acked) = (h.table().destroy_srq(), || h.acked());
            let answer = ended::whole(|| destroy(srq), acked, |seen| h.wait_acked(seen));
            if answer == 0 {
                kept::forget(srq.addr());
            }
            answer
        })
    }
}

/// 0 and the object that destroys the queue, or an errno.
///
/// # Safety
/// As for ibv_destroy_srq(3); there is room for the answer.
unsafe extern "C" fn destroy_srq_begin(
    srq: *mut ibv_srq,
    destroy: *mut unsafe extern "C" fn(*mut ibv_srq) -> c_int,
) -> c_int {
    // SAFETY: vouched for by the caller.
    unsafe {
        ret::code_of(Srq::from_raw(srq), |h| {
            destroy.write(h.table().destroy_srq());
            0
        })
    }
}
hidden!(destroy_srq_begin => "ferroverbs_destroy_srq_begin");
