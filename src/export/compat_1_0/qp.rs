//! Queue pairs: ibv_create_qp(3), ibv_modify_qp(3), ibv_query_qp(3), ibv_attach_mcast(3) of 1.0.

use super::{ended, idle, layout::*, made, optional, real, ret, wrapper, zeroed};
use crate::export::qp as today;
use crate::symver;
use kit::abi::*;
use kit::errno::Result;
use std::{ffi::c_int, ptr::null_mut};

/// The current attributes, except for the context.
///
/// # Safety
/// The queues that `init` names are as for [`wrapper`].
unsafe fn attributes(init: &ibv_qp_init_attr_1_0) -> Result<ibv_qp_init_attr> {
    // SAFETY: vouched for by the caller.
    unsafe {
        Ok(ibv_qp_init_attr {
            send_cq: optional(init.send_cq)?,
            recv_cq: optional(init.recv_cq)?,
            srq: optional(init.srq)?,
            cap: init.cap,
            qp_type: init.qp_type,
            sq_sig_all: init.sq_sig_all,
            ..zeroed()
        })
    }
}

unsafe extern "C" fn create_qp(
    pd: *mut ibv_pd_1_0,
    init: *mut ibv_qp_init_attr_1_0,
) -> *mut ibv_qp_1_0 {
    // SAFETY: the caller passes a live domain, and attributes whose queues are live, or NULL.
    unsafe {
        let arguments = ret::not_null(init).and_then(|_| Ok((wrapper(pd)?, attributes(&*init)?)));
        ret::pointer_of(arguments, |(pd, mut given)| {
            let (mutex, cond) = idle();
            let value = ibv_qp_1_0 {
                context: (*pd).context,
                qp_context: (*init).qp_context,
                pd,
                send_cq: (*init).send_cq,
                recv_cq: (*init).recv_cq,
                srq: (*init).srq,
                handle: 0,
                qp_num: 0,
                state: IBV_QPS_RESET,
                qp_type: given.qp_type,
                mutex,
                cond,
                events_completed: 0,
                real_qp: null_mut(),
            };
            let qp = made(value, |new| {
                given.qp_context = new.cast();
                today::create_qp((*pd).real_pd, &raw mut given)
            });
            if !qp.is_null() {
                (*init).cap = given.cap;
            }
            qp
        })
    }
}
symver!(old create_qp => "ibv_create_qp", "IBVERBS_1.0");

unsafe extern "C" fn query_qp(
    qp: *mut ibv_qp_1_0,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
    init: *mut ibv_qp_init_attr_1_0,
) -> c_int {
    // SAFETY: the caller passes a live queue pair and room for the results, or NULL. The objects of
    // a queue pair never change.
    unsafe {
        let arguments = ret::not_null(init).and_then(|_| wrapper(qp));
        ret::code_of(arguments, |pair| {
            let mut reported: ibv_qp_init_attr = zeroed();
            let answer = today::query_qp((*pair).real_qp, attr, attr_mask, &raw mut reported);
            if answer == 0 {
                (*pair).state = (*(*pair).real_qp).state;
                init.write(ibv_qp_init_attr_1_0 {
                    qp_context: (*pair).qp_context,
                    send_cq: (*pair).send_cq,
                    recv_cq: (*pair).recv_cq,
                    srq: (*pair).srq,
                    cap: reported.cap,
                    qp_type: reported.qp_type,
                    sq_sig_all: reported.sq_sig_all,
                });
            }
            answer
        })
    }
}
symver!(old query_qp => "ibv_query_qp", "IBVERBS_1.0");

unsafe extern "C" fn modify_qp(
    qp: *mut ibv_qp_1_0,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
) -> c_int {
    // SAFETY: the caller passes a live queue pair and attributes, or NULL.
    unsafe {
        ret::code_of(wrapper(qp), |pair| {
            let answer = today::modify_qp((*pair).real_qp, attr, attr_mask);
            (*pair).state = (*(*pair).real_qp).state;
            answer
        })
    }
}
symver!(old modify_qp => "ibv_modify_qp", "IBVERBS_1.0");

unsafe extern "C" fn destroy_qp(qp: *mut ibv_qp_1_0) -> c_int {
    // SAFETY: the caller passes a live queue pair or NULL.
    unsafe { ended(qp, |object| today::destroy_qp(object)) }
}
symver!(old destroy_qp => "ibv_destroy_qp", "IBVERBS_1.0");

unsafe extern "C" fn attach_mcast(qp: *mut ibv_qp_1_0, gid: *const ibv_gid, lid: u16) -> c_int {
    // SAFETY: the caller passes a live queue pair and a GID, or NULL.
    unsafe { ret::code_of(real(qp), |pair| today::attach_mcast(pair, gid, lid)) }
}
symver!(old attach_mcast => "ibv_attach_mcast", "IBVERBS_1.0");

unsafe extern "C" fn detach_mcast(qp: *mut ibv_qp_1_0, gid: *const ibv_gid, lid: u16) -> c_int {
    // SAFETY: as above.
    unsafe { ret::code_of(real(qp), |pair| today::detach_mcast(pair, gid, lid)) }
}
symver!(old detach_mcast => "ibv_detach_mcast", "IBVERBS_1.0");
