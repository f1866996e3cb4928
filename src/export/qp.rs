//! Queue pairs: ibv_create_qp(3), ibv_modify_qp(3), ibv_query_qp(3), ibv_attach_mcast(3),
//! ibv_query_ece(3), ibv_query_qp_data_in_order(3).

use super::{ended, ret};
use crate::{core::events::kept, hidden, symver};
use kit::{
    abi::{
        handle::{Pd, Qp, UNACKED},
        *,
    },
    errno::{Errno, Result},
    sys::pthread::without_cancellation,
};
use std::ffi::c_int;

pub(super) unsafe extern "C" fn create_qp(
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> *mut ibv_qp {
    // SAFETY: the caller passes a live domain and its attributes, or NULL.
    unsafe {
        let arguments = ret::not_null(attr).and_then(|_| Pd::from_raw(pd));
        ret::pointer_of(arguments, |h| (h.table().create_qp())(pd, attr))
    }
}
symver!(create_qp => "ibv_create_qp", "IBVERBS_1.1");

unsafe extern "C" fn qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    // SAFETY: the caller passes a live queue pair or NULL.
    match unsafe { Qp::from_raw(qp) } {
        Ok(h) => h.extended(),
        Err(e) => ret::null(e),
    }
}
symver!(qp_to_qp_ex => "ibv_qp_to_qp_ex", "IBVERBS_1.6");

/// # Safety
/// `qp` is a live queue pair or NULL, `attr` its attributes or NULL.
unsafe fn qp_and<'a, T>(qp: *mut ibv_qp, argument: *mut T) -> Result<Qp<'a>> {
    ret::not_null(argument)?;
    // SAFETY: vouched for by the caller.
    unsafe { Qp::from_raw(qp) }
}

pub(super) unsafe extern "C" fn query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
    init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: the caller passes a live queue pair and room for the answers, or NULL.
    unsafe {
        let arguments = ret::not_null(init_attr).and_then(|_| qp_and(qp, attr));
        ret::code_of(arguments, |h| {
            let answer = (h.table().query_qp())(qp, attr, attr_mask, init_attr);
            note_state(h, answer, attr, attr_mask);
            answer
        })
    }
}
symver!(query_qp => "ibv_query_qp", "IBVERBS_1.1");

type ModifyQp = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;

/// 0 and the function that modifies the queue pair, or an errno.
///
/// # Safety
/// As for ibv_modify_qp(3); there is room for the answer.
unsafe extern "C" fn modify_qp_begin(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    modify: *mut ModifyQp,
) -> c_int {
    // SAFETY: vouched for by the caller.
    unsafe {
        ret::code_of(qp_and(qp, attr), |h| {
            modify.write(h.table().modify_qp());
            0
        })
    }
}
hidden!(modify_qp_begin => "ferroverbs_modify_qp_begin");

/// Modifies a queue pair for another function of the library. No cancellation point, as
/// ibv_modify_qp in `cancel.c` may be.
///
/// # Safety
/// As for ibv_modify_qp(3).
pub(super) unsafe fn modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, attr_mask: c_int) -> c_int {
    // SAFETY: vouched for by the caller.
    unsafe {
        ret::code_of(qp_and(qp, attr), |h| {
            let modify = h.table().modify_qp();
            let answer = without_cancellation(|| modify(qp, attr, attr_mask));
            note_state(h, answer, attr, attr_mask);
            answer
        })
    }
}

/// The same, for a thread whose cancellation is deferred or disabled.
///
/// # Safety
/// As for ibv_modify_qp(3).
pub(super) unsafe extern "C" fn modify_qp_deferred(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
) -> c_int {
    // SAFETY: vouched for by the caller.
    unsafe {
        ret::code_of(qp_and(qp, attr), |h| {
            let modify = h.table().modify_qp();
            let answer = ended::deferred(h.ctx(), || modify(qp, attr, attr_mask));
            note_state(h, answer, attr, attr_mask);
            answer
        })
    }
}

/// Keeps the state that applications read in the object.
///
/// # Safety
/// `attr` are the attributes of a call that answered `answer`.
unsafe fn note_state(qp: Qp<'_>, answer: c_int, attr: *const ibv_qp_attr, attr_mask: c_int) {
    if answer == 0 && attr_mask.cast_unsigned() & IBV_QP_STATE != 0 {
        // SAFETY: vouched for by the caller.
        qp.set_state(unsafe { (*attr).qp_state });
    }
}

/// Destroys a queue pair for another function of the library. No cancellation point, as
/// ibv_destroy_qp in `cancel.c` is.
///
/// # Safety
/// As for ibv_destroy_qp(3).
pub(super) unsafe fn destroy_qp(qp: *mut ibv_qp) -> c_int {
    // SAFETY: vouched for by the caller.
    unsafe {
        ret::code_of(Qp::from_raw(qp), |h| {
            let (destroy, acked) = (h.table().destroy_qp(), || h.acked());
            let answer = ended::whole(|| destroy(qp), acked, |seen| h.wait_acked(seen));
            if answer == 0 {
                kept::forget(qp.addr());
            }
            answer
        })
    }
}

/// The same, for a thread whose cancellation is deferred or disabled.
///
/// # Safety
/// As for ibv_destroy_qp(3).
pub(super) unsafe extern "C" fn destroy_qp_deferred(qp: *mut ibv_qp) -> c_int {
    // SAFETY: vouched for by the caller.
    unsafe {
        ret::code_of(Qp::from_raw(qp), |h| {
            let destroy = h.table().destroy_qp();
            match ended::deferred(h.ctx(), || destroy(qp)) {
                UNACKED => destroy_qp(qp),
                answer => {
                    if answer == 0 {
                        kept::forget(qp.addr());
                    }
                    answer
                }
            }
        })
    }
}

/// 0 and the object that destroys the queue pair, or an errno.
///
/// # Safety
/// As for ibv_destroy_qp(3); there is room for the answer.
unsafe extern "C" fn destroy_qp_begin(
    qp: *mut ibv_qp,
    destroy: *mut unsafe extern "C" fn(*mut ibv_qp) -> c_int,
) -> c_int {
    // SAFETY: vouched for by the caller.
    unsafe {
        ret::code_of(Qp::from_raw(qp), |h| {
            destroy.write(h.table().destroy_qp());
            0
        })
    }
}
hidden!(destroy_qp_begin => "ferroverbs_destroy_qp_begin");

unsafe extern "C" fn query_qp_data_in_order(
    qp: *mut ibv_qp,
    opcode: ibv_wr_opcode,
    flags: u32,
) -> c_int {
    const KNOWN: u32 =
        IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS | IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY;
    let asks = |flag| flags & flag != 0;
    // Only the x86 memory model is known to keep the order that the device writes in.
    let known = cfg!(any(target_arch = "x86", target_arch = "x86_64"));
    if flags & !KNOWN != 0 || !(known || asks(IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY)) {
        return 0;
    }
    // SAFETY: the caller passes a live queue pair or NULL. The flags came after the verb: a
    // provider that is asked without them answers for whole messages.
    let answer = match unsafe { Qp::from_raw(qp) } {
        // SAFETY: as above.
        Ok(h) => unsafe { (h.table().query_qp_data_in_order())(qp, opcode, 0) },
        Err(_) => 0,
    };
    match answer.cast_unsigned() & IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG {
        0 => 0,
        _ if !asks(IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS) => 1,
        whole => (whole | IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES).cast_signed(),
    }
}
symver!(query_qp_data_in_order => "ibv_query_qp_data_in_order", "IBVERBS_1.14");

pub(super) unsafe extern "C" fn attach_mcast(
    qp: *mut ibv_qp,
    gid: *const ibv_gid,
    lid: u16,
) -> c_int {
    // SAFETY: the caller passes a live queue pair and a GID, or NULL.
    unsafe {
        ret::code_of(qp_and(qp, gid.cast_mut()), |h| {
            (h.table().attach_mcast())(qp, gid, lid)
        })
    }
}
symver!(attach_mcast => "ibv_attach_mcast", "IBVERBS_1.1");

pub(super) unsafe extern "C" fn detach_mcast(
    qp: *mut ibv_qp,
    gid: *const ibv_gid,
    lid: u16,
) -> c_int {
    // SAFETY: as for attach_mcast.
    unsafe {
        ret::code_of(qp_and(qp, gid.cast_mut()), |h| {
            (h.table().detach_mcast())(qp, gid, lid)
        })
    }
}
symver!(detach_mcast => "ibv_detach_mcast", "IBVERBS_1.1");

unsafe extern "C" fn set_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    // SAFETY: the caller passes a live queue pair and the options, or NULL.
    unsafe {
        ret::code_of(qp_and(qp, ece), |h| {
            // Options without a vendor mean nothing to any device (ibv_set_ece(3)).
            if (*ece).vendor_id == 0 {
                kit::sys::errno::set(Errno::OPNOTSUPP);
                return Errno::OPNOTSUPP.raw();
            }
            (h.table().set_ece())(qp, ece)
        })
    }
}
symver!(set_ece => "ibv_set_ece", "IBVERBS_1.10");

unsafe extern "C" fn query_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    // SAFETY: the caller passes a live queue pair and room for the options, or NULL.
    unsafe { ret::code_of(qp_and(qp, ece), |h| (h.table().query_ece())(qp, ece)) }
}
symver!(query_ece => "ibv_query_ece", "IBVERBS_1.10");
