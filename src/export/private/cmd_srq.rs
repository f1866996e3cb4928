//! `ibv_cmd_*` of shared receive queues.

use super::buffer::{destroyed, driver, request};
use crate::{export::ret, hidden, private};
use kit::{
    abi::{
        handle::{Cq, Ctx, Pd, Srq, receives, xrcd_number},
        kernel::*,
        *,
    },
    errno::{Errno, Result},
    uverbs::{
        Driver, post,
        srq::{self, CreatedSrq, NewSrq, SrqKind},
    },
};
use std::ffi::{c_int, c_void};

/// Makes the queue and stores the kernel's response, also in the attributes.
///
/// # Safety
/// `queue` is a provider's new object.
unsafe fn create(
    pd: Pd<'_>,
    queue: *mut ibv_srq,
    attr: &mut ibv_srq_attr,
    kind: SrqKind,
    driver: &mut Driver<'_>,
) -> Result<CreatedSrq> {
    let ctx = pd.ctx();
    let new = NewSrq {
        user_handle: ret::not_null(queue)?.expose_provenance() as u64,
        pd: pd.number(),
        max_wr: attr.max_wr,
        max_sge: attr.max_sge,
        srq_limit: attr.srq_limit,
        kind,
        async_fd: ctx.async_fd_raw(),
    };
    // SAFETY: vouched for by the caller. An event may come before the command returns.
    unsafe {
        (*queue).context = ctx.as_ptr();
        Srq::init_events(queue);
        let made = srq::create_srq(&ctx, &new, driver)?;
        (*queue).handle = made.handle;
        attr.max_wr = made.max_wr;
        attr.max_sge = made.max_sge;
        Ok(made)
    }
}

unsafe extern "C" fn create_srq(
    pd: *mut ibv_pd,
    queue: *mut ibv_srq,
    attr: *mut ibv_srq_init_attr,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
) -> c_int {
    // SAFETY: the provider passes a live domain, a new object, the application's attributes and
    // its own buffers.
    ret::command(unsafe {
        Pd::from_command(pd).and_then(|pd| {
            let attr = &mut attr.as_mut().ok_or(Errno::INVAL)?.attr;
            let mut driver = driver::<ib_uverbs_create_srq>(cmd, cmd_size, resp, resp_size)?;
            create(pd, queue, attr, SrqKind::Basic, &mut driver).map(|_| ())
        })
    })
}
private!(create_srq => "ibv_cmd_create_srq");

/// The completion queue that the attributes have to name.
///
/// # Safety
/// A queue that they name is live, or NULL.
unsafe fn completions(attr: *const ibv_srq_init_attr_ex) -> Result<u32> {
    // SAFETY: vouched for by the caller.
    unsafe {
        if (*attr).comp_mask & IBV_SRQ_INIT_ATTR_CQ == 0 {
            return Err(Errno::INVAL);
        }
        Cq::from_raw((*attr).cq).map(Cq::number)
    }
}

/// # Safety
/// Objects that the attributes name are live, or NULL; members that the mask leaves out may lie
/// beyond the end of the caller's structure.
unsafe fn kind(attr: *const ibv_srq_init_attr_ex) -> Result<SrqKind> {
    let given = |bit| {
        // SAFETY: the mask is in all versions of the structure.
        if unsafe { (*attr).comp_mask } & bit == 0 {
            return Err(Errno::INVAL);
        }
        Ok(())
    };
    // SAFETY: vouched for by the caller; providers embed every ibv_xrcd.
    unsafe {
        match asked_type(attr) {
            IBV_SRQT_BASIC => Ok(SrqKind::Basic),
            IBV_SRQT_XRC => {
                given(IBV_SRQ_INIT_ATTR_XRCD)?;
                let (xrcd, cq) = (xrcd_number((*attr).xrcd), completions(attr)?);
                let xrcd = xrcd.ok_or(Errno::INVAL)?;
                Ok(SrqKind::Xrc { xrcd, cq })
            }
            IBV_SRQT_TM => {
                given(IBV_SRQ_INIT_ATTR_TM)?;
                let cq = completions(attr)?;
                let max_num_tags = (*attr).tm_cap.max_num_tags;
                if max_num_tags == 0 {
                    return Err(Errno::INVAL);
                }
                Ok(SrqKind::TagMatching { cq, max_num_tags })
            }
            _ => Err(Errno::INVAL),
        }
    }
}

/// # Safety
/// The members that the mask names are there.
unsafe fn asked_type(attr: *const ibv_srq_init_attr_ex) -> ibv_srq_type {
    // SAFETY: vouched for by the caller.
    unsafe {
        if (*attr).comp_mask & IBV_SRQ_INIT_ATTR_TYPE == 0 {
            return IBV_SRQT_BASIC;
        }
        (*attr).srq_type
    }
}

/// Stores the members after the `ibv_srq`.
///
/// # Safety
/// `queue` is a provider's new object.
unsafe fn note(queue: *mut verbs_srq, attr: *const ibv_srq_init_attr_ex, made: &CreatedSrq) {
    // SAFETY: vouched for by the caller.
    unsafe {
        (*queue).srq_type = asked_type(attr);
        if asked_type(attr) == IBV_SRQT_XRC {
            (*queue).srq_num = made.srq_num;
            (*queue).xrcd = (*attr).xrcd.cast();
        }
        if (*attr).comp_mask & IBV_SRQ_INIT_ATTR_CQ != 0 {
            (*queue).cq = (*attr).cq;
        }
    }
}

unsafe extern "C" fn create_srq_ex(
    context: *mut ibv_context,
    queue: *mut verbs_srq,
    attr: *mut ibv_srq_init_attr_ex,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
) -> c_int {
    // SAFETY: the provider passes a new object, which starts with an ibv_srq, the application's
    // attributes, whose protection domain belongs to the context, and its buffers.
    ret::command(unsafe {
        Ctx::from_raw(context).and_then(|_| {
            let attr = ret::not_null(attr)?;
            if (*attr).comp_mask >= IBV_SRQ_INIT_ATTR_RESERVED {
                return Err(Errno::OPNOTSUPP);
            }
            if (*attr).comp_mask & IBV_SRQ_INIT_ATTR_PD == 0 {
                return Err(Errno::INVAL);
            }
            let (pd, kind) = (Pd::from_raw((*attr).pd)?, kind(attr)?);
            let mut driver = driver::<ib_uverbs_create_xsrq>(cmd, cmd_size, resp, resp_size)?;
            let made = create(pd, queue.cast(), &mut (*attr).attr, kind, &mut driver)?;
            note(queue, attr, &made);
            Ok(())
        })
    })
}
private!(create_srq_ex => "ibv_cmd_create_srq_ex");

unsafe extern "C" fn modify_srq(
    queue: *mut ibv_srq,
    attr: *mut ibv_srq_attr,
    attr_mask: c_int,
    cmd: *mut c_void,
    cmd_size: usize,
) -> c_int {
    // SAFETY: the provider passes a live queue, the application's attributes and its own buffer.
    ret::command(unsafe {
        Srq::from_command(queue).and_then(|h| {
            let attr = attr.as_ref().ok_or(Errno::INVAL)?;
            let command = ib_uverbs_modify_srq {
                srq_handle: h.number(),
                attr_mask: attr_mask.cast_unsigned(),
                max_wr: attr.max_wr,
                srq_limit: attr.srq_limit,
            };
            let mut driver = request::<ib_uverbs_modify_srq>(cmd, cmd_size)?;
            srq::modify_srq(&h.ctx(), &command, &mut driver)
        })
    })
}
private!(modify_srq => "ibv_cmd_modify_srq");

unsafe extern "C" fn query_srq(
    queue: *mut ibv_srq,
    attr: *mut ibv_srq_attr,
    cmd: *mut c_void,
    cmd_size: usize,
) -> c_int {
    // SAFETY: the provider passes a live queue, room for the attributes and its own buffer.
    ret::command(unsafe {
        Srq::from_command(queue).and_then(|h| {
            let attr = attr.as_mut().ok_or(Errno::INVAL)?;
            let mut driver = request::<ib_uverbs_query_srq>(cmd, cmd_size)?;
            let reported = srq::query_srq(&h.ctx(), h.number(), &mut driver)?;
            attr.max_wr = reported.max_wr;
            attr.max_sge = reported.max_sge;
            attr.srq_limit = reported.srq_limit;
            Ok(())
        })
    })
}
private!(query_srq => "ibv_cmd_query_srq");

/// Destroys the kernel's object, and answers as [`destroyed`] does.
///
/// # Safety
/// The provider passes a live queue; there is room for the answer.
unsafe extern "C" fn destroy_srq(queue: *mut ibv_srq, events: *mut u32) -> c_int {
    // SAFETY: vouched for by the caller.
    unsafe {
        let done = Srq::from_command(queue).and_then(|h| srq::destroy_srq(&h.ctx(), h.number()));
        destroyed(done, events)
    }
}
hidden!(destroy_srq => "ferroverbs_cmd_destroy_srq_begin");

unsafe extern "C" fn post_srq_recv(
    queue: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the provider passes a live queue, the application's chain and room for a pointer.
    ret::command(unsafe {
        Srq::from_command(queue).and_then(|h| {
            let posted = post::post_srq_recv(&h.ctx(), h.number(), receives(wr));
            ret::posted(posted, bad_wr)
        })
    })
}
private!(post_srq_recv => "ibv_cmd_post_srq_recv");
