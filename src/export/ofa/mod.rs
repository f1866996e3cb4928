//! The XRC calls of the older verbs manual (`infiniband/ofa_verbs.h`), implemented over the current
//! ones. A receive queue pair is named by its number and lives as long as any process is registered
//! with it.
//!
//! The calls return 0, or -1 with errno; or a pointer, or NULL with errno. The exported names begin
//! with `ofa_` (node `FERROVERBS_1.0`), and the header maps the manual's names to them. The
//! manual's names are not exported, because Open MPI treats a library that exports
//! `ibv_create_xrc_rcv_qp` as one without the current XRC verbs.
//!
//! | type | contents |
//! | --- | --- |
//! | `domains::Domain` | an open domain: the current object, its file, its reference count, and the receive queue pairs that this process is registered with. A pointer to none of the open domains is EINVAL |
//! | `domains::Registered` | this process's handle of a receive queue pair, from creation or from `ibv_open_qp` |
//!
//! A file opened again on the same context is the same domain, counted. Across contexts and
//! processes the provider decides which domains are the same. A queue pair lives while any handle
//! of it is open, which is the rule for current XRC targets, so being registered means having a
//! handle. A process that is not registered and changes or queries a queue pair opens a handle for
//! that call.
//!
//! Lock: the table of domains is locked during calls, but not while a destruction waits for events.
//!
//! Tests: `c-tests/programs/post_44/ofa.c`.

mod answer;
mod domains;

use super::{qp, ret};
use crate::symver;
use answer::{made, result};
use domains::{Domain, Registered, ibv_xrc_domain};
use kit::abi::{
    handle::{Cq, Ctx, Pd, Qp},
    *,
};
use kit::errno::{Errno, Result};
use std::ffi::{c_int, c_void};
use std::mem::{MaybeUninit, offset_of};

/// `struct ofa_qp_init_attr`: the manual's `ibv_qp_init_attr`, which had one member more.
#[repr(C)]
pub struct ofa_qp_init_attr {
    init: ibv_qp_init_attr,
    xrc_domain: *mut ibv_xrc_domain,
}
const _: () = assert!(offset_of!(ofa_qp_init_attr, xrc_domain) == 64);
const _: () = assert!(size_of::<ofa_qp_init_attr>() == 72);

/// Attributes of today, all zero: no member of them refers to anything.
///
/// # Safety
/// All zeros is a value of the type.
unsafe fn zeroed<T>() -> T {
    // SAFETY: vouched for by the caller.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

unsafe extern "C" fn open_xrc_domain(
    context: *mut ibv_context,
    fd: c_int,
    oflag: c_int,
) -> *mut ibv_xrc_domain {
    // SAFETY: the caller passes an open context or NULL.
    let ctx = unsafe { Ctx::from_raw(context) };
    ret::pointer(ctx.and_then(|ctx| domains::open(ctx, fd, oflag)))
}
symver!(open_xrc_domain => "ofa_open_xrc_domain", "FERROVERBS_1.0");

unsafe extern "C" fn close_xrc_domain(domain: *mut ibv_xrc_domain) -> c_int {
    ret::minus_one(domains::close(domain))
}
symver!(close_xrc_domain => "ofa_close_xrc_domain", "FERROVERBS_1.0");

unsafe extern "C" fn create_xrc_srq(
    pd: *mut ibv_pd,
    domain: *mut ibv_xrc_domain,
    cq: *mut ibv_cq,
    init: *mut ibv_srq_init_attr,
) -> *mut ibv_srq {
    // SAFETY: the caller passes live objects and attributes, or NULL.
    let arguments = unsafe {
        ret::not_null(init)
            .and_then(|_| Pd::from_raw(pd))
            .and_then(|pd| Cq::from_raw(cq).map(|_| pd))
    };
    ret::pointer(arguments.and_then(|h| {
        domains::with(domain, |domain| {
            if h.ctx().as_ptr() != domain.context() {
                return Err(Errno::INVAL);
            }
            // SAFETY: as above; the table's verb reads the members given here, and zeros have no
            // effect.
            unsafe {
                let mut given = ibv_srq_init_attr_ex {
                    srq_context: (*init).srq_context,
                    attr: (*init).attr,
                    comp_mask: IBV_SRQ_INIT_ATTR_TYPE
                        | IBV_SRQ_INIT_ATTR_PD
                        | IBV_SRQ_INIT_ATTR_XRCD
                        | IBV_SRQ_INIT_ATTR_CQ,
                    srq_type: IBV_SRQT_XRC,
                    pd,
                    xrcd: domain.xrcd(),
                    cq,
                    ..zeroed()
                };
                let srq = made((h.table().create_srq_ex())(
                    domain.context(),
                    &raw mut given,
                ))?;
                (*init).attr = given.attr;
                Ok(srq)
            }
        })
    }))
}
symver!(create_xrc_srq => "ofa_create_xrc_srq", "FERROVERBS_1.0");

unsafe extern "C" fn create_xrc_rcv_qp(init: *mut ofa_qp_init_attr, number: *mut u32) -> c_int {
    let arguments = ret::not_null(init).and_then(|_| ret::not_null(number));
    // SAFETY: the caller passes attributes and room for the number, or NULL.
    ret::minus_one(arguments.and_then(|_| unsafe {
        let created = domains::with((*init).xrc_domain, |domain| {
            create(domain, (*init).init.qp_context)
        })?;
        number.write(created);
        Ok(())
    }))
}
symver!(create_xrc_rcv_qp => "ofa_create_xrc_rcv_qp", "FERROVERBS_1.0");

/// A receive queue pair, with which this process is registered: its number.
fn create(domain: &mut Domain, qp_context: *mut c_void) -> Result<u32> {
    // SAFETY: the context of a domain is open; zeros mean nothing.
    unsafe {
        let ctx = Ctx::from_raw(domain.context())?;
        let mut given = ibv_qp_init_attr_ex {
            qp_context,
            qp_type: IBV_QPT_XRC_RECV,
            comp_mask: IBV_QP_INIT_ATTR_XRCD,
            xrcd: domain.xrcd(),
            ..zeroed()
        };
        let qp = made((ctx.table().create_qp_ex())(
            domain.context(),
            &raw mut given,
        ))?;
        let number = (*qp).qp_num;
        domain.register(number, Registered(qp));
        Ok(number)
    }
}

/// Today's queue pair of that number, opened once more.
///
/// # Errors
/// The provider's: EINVAL where the domain has none of that number.
fn open(domain: &Domain, number: u32) -> Result<*mut ibv_qp> {
    let mut attr = ibv_qp_open_attr {
        comp_mask: IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
        qp_num: number,
        xrcd: domain.xrcd(),
        qp_context: std::ptr::null_mut(),
        qp_type: IBV_QPT_XRC_RECV,
    };
    // SAFETY: the context of a domain is open.
    unsafe {
        let ctx = Ctx::from_raw(domain.context())?;
        made((ctx.table().open_qp())(domain.context(), &raw mut attr))
    }
}

/// Does something with a queue pair of the domain, whether this process is registered with it or
/// not.
fn act(domain: &Domain, number: u32, run: impl FnOnce(*mut ibv_qp) -> c_int) -> Result<()> {
    if let Some(Registered(qp)) = domain.registered(number) {
        return result(run(qp));
    }
    let qp = open(domain, number)?;
    let answer = result(run(qp));
    // SAFETY: opened above, and nothing else refers to it.
    answer.and(result(unsafe { qp::destroy_qp(qp) }))
}

unsafe extern "C" fn modify_xrc_rcv_qp(
    domain: *mut ibv_xrc_domain,
    number: u32,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
) -> c_int {
    ret::minus_one(ret::not_null(attr).and_then(|_| {
        domains::with(domain, |domain| {
            // SAFETY: the caller's attributes, and a live queue pair.
            act(domain, number, |qp| unsafe {
                qp::modify_qp(qp, attr, attr_mask)
            })
        })
    }))
}
symver!(modify_xrc_rcv_qp => "ofa_modify_xrc_rcv_qp", "FERROVERBS_1.0");

unsafe extern "C" fn query_xrc_rcv_qp(
    domain: *mut ibv_xrc_domain,
    number: u32,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
    init: *mut ofa_qp_init_attr,
) -> c_int {
    let arguments = ret::not_null(attr).and_then(|_| ret::not_null(init));
    ret::minus_one(arguments.and_then(|_| {
        domains::with(domain, |found| {
            // SAFETY: all zeros is a value of it; the caller's room, and a live queue pair.
            act(found, number, |qp| unsafe {
                let mut reported: ibv_qp_init_attr = zeroed();
                let answer = qp::query_qp(qp, attr, attr_mask, &raw mut reported);
                if answer == 0 {
                    init.write(ofa_qp_init_attr {
                        init: reported,
                        xrc_domain: domain,
                    });
                }
                answer
            })
        })
    }))
}
symver!(query_xrc_rcv_qp => "ofa_query_xrc_rcv_qp", "FERROVERBS_1.0");

unsafe extern "C" fn reg_xrc_rcv_qp(domain: *mut ibv_xrc_domain, number: u32) -> c_int {
    ret::minus_one(domains::with(domain, |domain| {
        if domain.registered(number).is_none() {
            let qp = open(domain, number)?;
            domain.register(number, Registered(qp));
        }
        Ok(())
    }))
}
symver!(reg_xrc_rcv_qp => "ofa_reg_xrc_rcv_qp", "FERROVERBS_1.0");

unsafe extern "C" fn unreg_xrc_rcv_qp(domain: *mut ibv_xrc_domain, number: u32) -> c_int {
    ret::minus_one(unregister(domain, number))
}
symver!(unreg_xrc_rcv_qp => "ofa_unreg_xrc_rcv_qp", "FERROVERBS_1.0");

/// EINVAL for a process that is not registered.
fn unregister(domain: *mut ibv_xrc_domain, number: u32) -> Result<()> {
    let taken = domains::with(domain, |d| d.unregister(number).ok_or(Errno::INVAL))?;
    // The domains are not locked: this waits until all events of the queue pair are acknowledged.
    // SAFETY: it was this process's registration, and nothing else refers to it now.
    let answer = unsafe { Qp::from_raw(taken.0).map(|_| qp::destroy_qp(taken.0)) };
    answer.and_then(result).inspect_err(|_| {
        // It stays as it was; a domain that was closed meanwhile takes nothing back.
        let _ = domains::with(domain, |d| {
            d.register(number, Registered(taken.0));
            Ok(())
        });
    })
}
