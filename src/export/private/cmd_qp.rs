//! `ibv_cmd_*` of queue pairs.

use super::buffer::{destroyed, driver, request};
use crate::{export::ret, hidden, private, symver};
use kit::{
    abi::{
        handle::{
            Cq, Ctx, Pd, Qp, QpAnswer, QpChange, RwqIndTable, Srq, receives, sends, xrcd_number,
        },
        kernel::*,
        *,
    },
    errno::{Errno, Result},
    uverbs::{
        Driver, Link, post,
        qp::{self, CreatedQp, NewQp, Queues},
    },
};
use std::{
    ffi::{c_int, c_void},
    mem::offset_of,
    ptr,
};

/// The shared receive queue that the attributes name, if any.
///
/// # Safety
/// `srq` is live or NULL.
unsafe fn shared(srq: *mut ibv_srq) -> Result<Option<u32>> {
    if srq.is_null() {
        return Ok(None);
    }
    // SAFETY: vouched for by the caller.
    unsafe { Srq::from_raw(srq) }.map(|srq| Some(srq.number()))
}

/// # Safety
/// `cq` is live or NULL.
unsafe fn completions(cq: *mut ibv_cq) -> Result<Option<u32>> {
    // SAFETY: vouched for by the caller.
    unsafe { Cq::from_raw(cq) }.map(|cq| Some(cq.number()))
}

/// The queues that a queue pair with an indirection table has: sends, if it has any.
///
/// # Safety
/// Objects that the attributes name are live, or NULL.
unsafe fn spread(
    pd: Pd<'_>,
    attr: *const ibv_qp_init_attr,
    table: *mut ibv_rwq_ind_table,
) -> Result<Queues> {
    // SAFETY: vouched for by the caller.
    unsafe {
        // Its receives go to the queues of the table.
        if !(*attr).recv_cq.is_null() {
            return Err(Errno::INVAL);
        }
        Ok(Queues::Domain {
            pd: pd.number(),
            send_cq: match (*attr).cap.max_send_wr {
                0 => None,
                _ => completions((*attr).send_cq)?,
            },
            recv_cq: None,
            ind_table: Some(RwqIndTable::from_raw(table)?.number()),
        })
    }
}

/// # Safety
/// Objects that the attributes name are live, or NULL.
#[inline(always)]
unsafe fn queues(pd: Pd<'_>, attr: *const ibv_qp_init_attr) -> Result<Queues> {
    // SAFETY: vouched for by the caller.
    unsafe {
        Ok(Queues::Domain {
            pd: pd.number(),
            send_cq: completions((*attr).send_cq)?,
            recv_cq: match (*attr).qp_type {
                IBV_QPT_XRC_SEND => None,
                IBV_QPT_XRC_RECV => return Err(Errno::INVAL),
                _ => completions((*attr).recv_cq)?,
            },
            ind_table: None,
        })
    }
}

/// The parts of a request that the old attributes lack, or have as parameters.
struct CreateParams {
    pd: *mut ibv_pd,
    queues: Queues,
    flags: Option<u32>,
    source_qpn: u32,
}

// Extended attributes begin as old ones do, up to the mask.
const _: () = assert!(
    offset_of!(ibv_qp_init_attr, cap) == offset_of!(ibv_qp_init_attr_ex, cap)
        && offset_of!(ibv_qp_init_attr, qp_type) == offset_of!(ibv_qp_init_attr_ex, qp_type)
        && offset_of!(ibv_qp_init_attr, sq_sig_all) == offset_of!(ibv_qp_init_attr_ex, sq_sig_all)
);

/// The application's request. Members that the mask leaves out are not read: the attributes of an
/// old program end before them.
///
/// # Safety
/// Objects that the attributes name are live, or NULL; members that the mask leaves out may lie
/// beyond the end of the caller's structure.
#[inline(always)]
unsafe fn params(attr: *const ibv_qp_init_attr_ex) -> Result<CreateParams> {
    let base = attr.cast::<ibv_qp_init_attr>();
    // SAFETY: vouched for by the caller; the mask is in all versions of the structure, the rest
    // is read under its bit. Providers embed every ibv_xrcd.
    unsafe {
        let given = |bit| (*attr).comp_mask & bit != 0;
        let pd = match given(IBV_QP_INIT_ATTR_PD) {
            false => ptr::null_mut(),
            true => (*attr).pd,
        };
        let queues = match (*attr).qp_type {
            IBV_QPT_XRC_RECV if given(IBV_QP_INIT_ATTR_XRCD) => {
                Queues::Xrc(xrcd_number((*attr).xrcd).ok_or(Errno::INVAL)?)
            }
            kind if kind != IBV_QPT_XRC_RECV && given(IBV_QP_INIT_ATTR_IND_TABLE) => {
                spread(Pd::from_raw(pd)?, base, (*attr).rwq_ind_tbl)?
            }
            _ => queues(Pd::from_raw(pd)?, base)?,
        };
        let flags = match given(IBV_QP_INIT_ATTR_CREATE_FLAGS) {
            false => None,
            true => Some((*attr).create_flags),
        };
        let own_source = flags.is_some_and(|flags| flags & IBV_QP_CREATE_SOURCE_QPN != 0);
        Ok(CreateParams {
            pd,
            queues,
            flags,
            source_qpn: if own_source { (*attr).source_qpn } else { 0 },
        })
    }
}

/// Fills in the library's members of a new queue pair.
///
/// # Safety
/// `pair` is a provider's new object.
#[inline(always)]
unsafe fn fill(pair: *mut ibv_qp, ctx: Ctx<'_>, attr: *const ibv_qp_init_attr, pd: *mut ibv_pd) {
    // SAFETY: vouched for by the caller.
    unsafe {
        (*pair).context = ctx.as_ptr();
        (*pair).qp_context = (*attr).qp_context;
        (*pair).pd = pd;
        (*pair).send_cq = (*attr).send_cq;
        (*pair).recv_cq = (*attr).recv_cq;
        (*pair).srq = (*attr).srq;
        (*pair).qp_type = (*attr).qp_type;
        (*pair).state = IBV_QPS_RESET;
        Qp::init_events(pair);
    }
}

/// Makes the queue pair and stores the kernel's response, also in the attributes.
///
/// # Safety
/// `pair` is a provider's new object; objects that the attributes name are live, or NULL.
// Inlined, like the functions that it calls: for a request with old attributes the compiler then
// knows that it has no flags and no table, which are most of the checks.
#[inline(always)]
unsafe fn create(
    ctx: Ctx<'_>,
    pair: *mut ibv_qp,
    attr: *mut ibv_qp_init_attr,
    params: CreateParams,
    driver: &mut Driver<'_>,
) -> Result<()> {
    // SAFETY: vouched for by the caller. An event may come before the command returns.
    unsafe {
        let new = NewQp {
            user_handle: ret::not_null(pair)?.expose_provenance() as u64,
            qp_type: (*attr).qp_type,
            queues: params.queues,
            srq: shared((*attr).srq)?,
            cap: (*attr).cap.into(),
            signal_all: (*attr).sq_sig_all != 0,
            flags: params.flags,
            source_qpn: params.source_qpn,
            async_fd: ctx.async_fd_raw(),
        };
        fill(pair, ctx, attr, params.pd);
        let CreatedQp {
            handle,
            qp_num,
            cap,
        } = qp::create_qp(&ctx, &new, driver)?;
        (*pair).handle = handle;
        (*pair).qp_num = qp_num;
        (*attr).cap = cap.into();
    }
    Ok(())
}

unsafe extern "C" fn create_qp(
    pd: *mut ibv_pd,
    pair: *mut ibv_qp,
    attr: *mut ibv_qp_init_attr,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
) -> c_int {
    // SAFETY: the provider passes a live domain, a new object, the application's attributes and
    // its own buffers.
    ret::command(unsafe {
        Pd::from_command(pd).and_then(|h| {
            let attr = ret::not_null(attr)?;
            let mut driver = driver::<ib_uverbs_create_qp>(cmd, cmd_size, resp, resp_size)?;
            let params = CreateParams {
                pd,
                queues: queues(h, attr)?,
                flags: None,
                source_qpn: 0,
            };
            create(h.ctx(), pair, attr, params, &mut driver)
        })
    })
}
private!(create_qp => "ibv_cmd_create_qp");

/// Fills in the members of a `verbs_qp` after the queue pair, if the provider's generation has
/// them.
///
/// # Safety
/// `pair` is a provider's new object, and has room for the domain if one is given.
unsafe fn set_behind(ctx: Ctx<'_>, pair: *mut verbs_qp, xrcd: Option<*mut verbs_xrcd>) {
    let mask = pair.wrapping_byte_add(ctx.private().layout().qp_mask);
    // SAFETY: vouched for by the caller.
    unsafe {
        mask.cast::<u32>().write(match xrcd {
            None => 0,
            Some(_) => VERBS_QP_XRCD,
        });
        if let Some(xrcd) = xrcd {
            mask.byte_add(XRCD_BEHIND_MASK)
                .cast::<*mut verbs_xrcd>()
                .write(xrcd);
        }
    }
}

/// How far `xrcd` lies behind `comp_mask` in a `verbs_qp` of any generation.
const XRCD_BEHIND_MASK: usize = offset_of!(verbs_qp, xrcd) - offset_of!(verbs_qp, comp_mask);

/// As [`create`], for a `verbs_qp` and attributes that may have the bits `known`.
///
/// # Safety
/// As for [`create`].
unsafe fn create_verbs_qp(
    ctx: Ctx<'_>,
    pair: *mut verbs_qp,
    attr: *mut ibv_qp_init_attr_ex,
    known: u32,
    driver: &mut Driver<'_>,
) -> Result<()> {
    // SAFETY: vouched for by the caller; a verbs_qp starts with its ibv_qp.
    unsafe {
        let attr = ret::not_null(attr)?;
        if (*attr).comp_mask & !known != 0 {
            return Err(Errno::INVAL);
        }
        create(ctx, pair.cast(), attr.cast(), params(attr)?, driver)?;
        let xrcd = match (*attr).qp_type {
            IBV_QPT_XRC_RECV => (*attr).xrcd.cast(),
            _ => ptr::null_mut(),
        };
        let has_domain = (*attr).comp_mask & IBV_QP_INIT_ATTR_XRCD != 0;
        set_behind(ctx, pair, has_domain.then_some(xrcd));
    }
    Ok(())
}

/// Attributes that the plain command supports.
const KNOWN: u32 = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

/// Attributes that the extended command supports, or leaves to the provider's part of it.
const KNOWN_EX: u32 = KNOWN
    | IBV_QP_INIT_ATTR_CREATE_FLAGS
    | IBV_QP_INIT_ATTR_MAX_TSO_HEADER
    | IBV_QP_INIT_ATTR_IND_TABLE
    | IBV_QP_INIT_ATTR_RX_HASH;

unsafe extern "C" fn create_qp_ex(
    context: *mut ibv_context,
    pair: *mut verbs_qp,
    attr: *mut ibv_qp_init_attr_ex,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
) -> c_int {
    // SAFETY: the provider passes an open context, a new object, the application's attributes
    // and its own buffers.
    ret::command(unsafe {
        Ctx::from_raw(context).and_then(|ctx| {
            let mut driver = driver::<ib_uverbs_create_qp>(cmd, cmd_size, resp, resp_size)?;
            create_verbs_qp(ctx, pair, attr, KNOWN, &mut driver)
        })
    })
}
private!(create_qp_ex => "ibv_cmd_create_qp_ex");

unsafe extern "C" fn create_qp_ex2(
    context: *mut ibv_context,
    pair: *mut verbs_qp,
    attr: *mut ibv_qp_init_attr_ex,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        let link = ptr::null_mut();
        create_qp_ex2_linked(context, pair, attr, cmd, cmd_size, resp, resp_size, link)
    }
}
symver!(create_qp_ex2 => "ibv_cmd_create_qp_ex2", "IBVERBS_PRIVATE_34");
private!(create_qp_ex2 => "ibv_cmd_create_qp_ex2", [57, 59]);

/// Since release 64: with attributes of the provider's own.
unsafe extern "C" fn create_qp_ex2_linked(
    context: *mut ibv_context,
    pair: *mut verbs_qp,
    attr: *mut ibv_qp_init_attr_ex,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
    link: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: as above, and its attributes or NULL.
    ret::command(unsafe {
        Ctx::from_raw(context).and_then(|ctx| {
            let driver = driver::<ib_uverbs_ex_create_qp>(cmd, cmd_size, resp, resp_size)?;
            let mut driver = driver.and_linked(Link::from_raw(link));
            create_verbs_qp(ctx, pair, attr, KNOWN_EX, &mut driver)
        })
    })
}
private!(create_qp_ex2_linked => "ibv_cmd_create_qp_ex2", [64, 65]);

/// The XRC domain that the attributes have to name, beside number and type.
///
/// # Safety
/// A domain that they name is live, or NULL.
unsafe fn open_domain(attr: &ibv_qp_open_attr) -> Result<u32> {
    const NEEDED: u32 = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    if attr.comp_mask >= IBV_QP_OPEN_ATTR_RESERVED {
        return Err(Errno::OPNOTSUPP);
    }
    if attr.comp_mask & NEEDED != NEEDED {
        return Err(Errno::INVAL);
    }
    // SAFETY: vouched for by the caller; providers embed every ibv_xrcd.
    unsafe { xrcd_number(attr.xrcd) }.ok_or(Errno::INVAL)
}

/// Fills an opened queue pair, whose queues belong to another process.
///
/// # Safety
/// `pair` is a provider's new object of `size` bytes.
unsafe fn fill_opened(
    pair: *mut verbs_qp,
    size: c_int,
    ctx: Ctx<'_>,
    attr: &ibv_qp_open_attr,
) -> Result<()> {
    let end = ctx.private().layout().qp_mask + XRCD_BEHIND_MASK + size_of::<*mut verbs_xrcd>();
    let size = usize::try_from(size).map_err(|_| Errno::INVAL)?;
    let qp: *mut ibv_qp = pair.cast();
    // SAFETY: vouched for by the caller; a verbs_qp starts with its ibv_qp.
    unsafe {
        (*qp).context = ctx.as_ptr();
        (*qp).qp_context = attr.qp_context;
        (*qp).pd = ptr::null_mut();
        (*qp).send_cq = ptr::null_mut();
        (*qp).recv_cq = ptr::null_mut();
        (*qp).srq = ptr::null_mut();
        (*qp).qp_num = attr.qp_num;
        (*qp).qp_type = attr.qp_type;
        (*qp).state = IBV_QPS_UNKNOWN;
        Qp::init_events(qp);
        set_behind(ctx, pair, (size >= end).then_some(attr.xrcd.cast()));
    }
    Ok(())
}

unsafe extern "C" fn open_qp(
    context: *mut ibv_context,
    pair: *mut verbs_qp,
    size: c_int,
    attr: *mut ibv_qp_open_attr,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
) -> c_int {
    // SAFETY: the provider passes an open context, a new object, the application's attributes
    // and its own buffers.
    ret::command(unsafe {
        Ctx::from_raw(context).and_then(|ctx| {
            let attr = attr.as_ref().ok_or(Errno::INVAL)?;
            let domain = open_domain(attr)?;
            let name = ret::not_null(pair)?.expose_provenance() as u64;
            let mut driver = driver::<ib_uverbs_open_qp>(cmd, cmd_size, resp, resp_size)?;
            fill_opened(pair, size, ctx, attr)?;
            let number = (domain, attr.qp_num);
            let handle = qp::open_qp(&ctx, number, attr.qp_type, name, &mut driver)?;
            (*pair.cast::<ibv_qp>()).handle = handle;
            Ok(())
        })
    })
}
private!(open_qp => "ibv_cmd_open_qp");

/// Destroys the kernel's object, and answers as [`destroyed`] does.
///
/// # Safety
/// The provider passes a live queue pair; there is room for the answer.
unsafe extern "C" fn destroy_qp(pair: *mut ibv_qp, events: *mut u32) -> c_int {
    // SAFETY: vouched for by the caller.
    unsafe {
        let done = Qp::from_command(pair).and_then(|h| qp::destroy_qp(&h.ctx(), h.number()));
        destroyed(done, events)
    }
}
hidden!(destroy_qp => "ferroverbs_cmd_destroy_qp_begin");

unsafe extern "C" fn modify_qp(
    pair: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
    cmd: *mut c_void,
    cmd_size: usize,
) -> c_int {
    // SAFETY: the provider passes a live queue pair, the application's attributes and its own
    // buffer.
    ret::command(unsafe {
        Qp::from_command(pair).and_then(|h| {
            let change = QpChange::from_raw(attr, attr_mask.cast_unsigned())?;
            let command = qp::modify_command(h.number(), change);
            let mut driver = request::<ib_uverbs_modify_qp>(cmd, cmd_size)?;
            qp::modify_qp(&h.ctx(), &command, &mut driver)
        })
    })
}
private!(modify_qp => "ibv_cmd_modify_qp");

unsafe extern "C" fn modify_qp_ex(
    pair: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
    cmd: *mut c_void,
    cmd_size: usize,
    resp: *mut c_void,
    resp_size: usize,
) -> c_int {
    // SAFETY: as above.
    ret::command(unsafe {
        Qp::from_command(pair).and_then(|h| {
            let change = QpChange::from_raw(attr, attr_mask.cast_unsigned())?;
            let rate_limit = change.rate_limit().unwrap_or(0);
            let command = qp::modify_command(h.number(), change);
            let mut driver = driver::<ib_uverbs_ex_modify_qp>(cmd, cmd_size, resp, resp_size)?;
            qp::modify_qp_ex(&h.ctx(), command, rate_limit, &mut driver)
        })
    })
}
private!(modify_qp_ex => "ibv_cmd_modify_qp_ex");

unsafe extern "C" fn query_qp(
    pair: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
    init_attr: *mut ibv_qp_init_attr,
    cmd: *mut c_void,
    cmd_size: usize,
) -> c_int {
    // SAFETY: the provider passes a live queue pair, room for both kinds of attributes and its
    // own buffer.
    ret::command(unsafe {
        Qp::from_command(pair).and_then(|h| {
            let mut attr = QpAnswer::from_raw(attr)?;
            let init_attr = init_attr.as_mut().ok_or(Errno::INVAL)?;
            let mut driver = request::<ib_uverbs_query_qp>(cmd, cmd_size)?;
            let mask = attr_mask.cast_unsigned();
            let reported = qp::query_qp(&h.ctx(), h.number(), mask, &mut driver)?;
            qp::read_attr(&mut attr, &reported);
            init_attr.qp_context = (*pair).qp_context;
            init_attr.send_cq = (*pair).send_cq;
            init_attr.recv_cq = (*pair).recv_cq;
            init_attr.srq = (*pair).srq;
            init_attr.cap = reported.cap();
            init_attr.qp_type = (*pair).qp_type;
            init_attr.sq_sig_all = reported.sq_sig_all.into();
            Ok(())
        })
    })
}
private!(query_qp => "ibv_cmd_query_qp");

unsafe extern "C" fn post_send(
    pair: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the provider passes a live queue pair, the application's chain and room for a
    // pointer.
    ret::command(unsafe {
        Qp::from_command(pair).and_then(|h| {
            let chain = sends(wr, h.qp_type());
            ret::posted(post::post_send(&h.ctx(), h.number(), chain), bad_wr)
        })
    })
}
private!(post_send => "ibv_cmd_post_send");

unsafe extern "C" fn post_recv(
    pair: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: as above.
    ret::command(unsafe {
        Qp::from_command(pair).and_then(|h| {
            let chain = receives(wr);
            ret::posted(post::post_recv(&h.ctx(), h.number(), chain), bad_wr)
        })
    })
}
private!(post_recv => "ibv_cmd_post_recv");
