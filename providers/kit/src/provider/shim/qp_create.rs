//! Making queue pairs: ibv_create_qp(3), ibv_create_qp_ex(3), ibv_open_qp(3).

use super::answer::pointer;
use super::builder::{self, Builder};
use super::comp_cntr::Attached;
use super::context::{Context, Subject};
use super::cq::Completions;
use super::object::{Ended, Hold, New, Object, Side};
use super::pd::Domain;
use super::qp::Pair;
use super::srq::Shared;
use super::wq::Table;
use super::xrcd::Sharing;
use crate::abi::handle::Qp;
use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::provider::{Numbered, Provider, QpInit, Rss};
use core::ffi::c_void;
use core::ptr::null_mut;

/// The request, in checked form. Members that a mask leaves out were not read.
struct CreateParams<'a, P: Provider> {
    qp_context: *mut c_void,
    qp_type: ibv_qp_type,
    sq_sig_all: bool,
    cap: ibv_qp_cap,
    pd: Option<&'a Object<Domain<P>>>,
    send_cq: Option<&'a Object<Completions<P>>>,
    recv_cq: Option<&'a Object<Completions<P>>>,
    srq: Option<&'a Object<Shared<P>>>,
    xrcd: Option<&'a Object<Sharing<P>>>,
    create_flags: u32,
    source_qpn: u32,
    max_tso_header: u16,
    /// `None` without `IBV_QP_INIT_ATTR_SEND_OPS_FLAGS`.
    send_ops: Option<u64>,
    rss: Option<Spread<'a, P>>,
}

/// A table of work queues and how packets are spread over it.
struct Spread<'a, P: Provider> {
    table: &'a Object<Table<P>>,
    function: u8,
    key: &'a [u8],
    fields: u64,
}

/// The arguments of ibv_create_qp(3), with which either kind of attributes begins.
struct Queues {
    qp_type: ibv_qp_type,
    send_cq: *mut ibv_cq,
    recv_cq: *mut ibv_cq,
    srq: *mut ibv_srq,
}

impl<'a, P: Provider> CreateParams<'a, P> {
    /// The plain part. A queue pair that receives by a table has no queues itself.
    ///
    /// # Safety
    /// Queues that the attributes name are live, or NULL.
    unsafe fn plain(context: &Context<P>, attr: &ibv_qp_init_attr, table: bool) -> Result<Self> {
        let mut params = Self {
            qp_context: attr.qp_context,
            qp_type: attr.qp_type,
            sq_sig_all: attr.sq_sig_all != 0,
            cap: attr.cap,
            pd: None,
            send_cq: None,
            recv_cq: None,
            srq: None,
            xrcd: None,
            create_flags: 0,
            source_qpn: 0,
            max_tso_header: 0,
            send_ops: None,
            rss: None,
        };
        let queues = Queues {
            qp_type: attr.qp_type,
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            srq: attr.srq,
        };
        if !table {
            // SAFETY: vouched for by the caller.
            unsafe { params.queues(context, &queues) }?;
        }
        Ok(params)
    }

    /// The queues that a queue pair of the type has; others are not looked at.
    ///
    /// # Safety
    /// As for [`Self::plain`].
    unsafe fn queues(&mut self, context: &Context<P>, given: &Queues) -> Result<()> {
        let xrc = matches!(given.qp_type, IBV_QPT_XRC_SEND | IBV_QPT_XRC_RECV);
        if xrc && !given.srq.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY: vouched for by the caller; queues lie in such blocks.
        unsafe {
            if given.qp_type != IBV_QPT_XRC_RECV {
                self.send_cq = Some(context.object(given.send_cq.cast())?);
            }
            if !xrc {
                self.recv_cq = Some(context.object(given.recv_cq.cast())?);
                self.srq = context.optional(given.srq.cast())?;
            }
            match self.srq {
                Some(srq) if (*srq.c()).srq_type != IBV_SRQT_BASIC => Err(Errno::INVAL),
                _ => Ok(()),
            }
        }
    }

    /// The part that only ibv_create_qp_ex(3) has.
    ///
    /// # Safety
    /// Objects that the attributes name are live, or NULL; members that the mask leaves out may lie
    /// beyond the end of the caller's structure.
    unsafe fn extended(
        &mut self,
        context: &Context<P>,
        attr: *const ibv_qp_init_attr_ex,
    ) -> Result<()> {
        // SAFETY: the mask is in all versions of the structure; the rest is read under its bit.
        unsafe {
            let mask = (*attr).comp_mask;
            let given = |bit| mask & bit != 0;
            check_mask(mask)?;
            match (self.qp_type, given(IBV_QP_INIT_ATTR_XRCD)) {
                (IBV_QPT_XRC_RECV, true) => {
                    self.xrcd = Some(context.object((*attr).xrcd.cast())?);
                }
                (IBV_QPT_XRC_RECV, false) => return Err(Errno::INVAL),
                _ if given(IBV_QP_INIT_ATTR_PD) => self.pd = Some(context.object((*attr).pd)?),
                _ => return Err(Errno::INVAL),
            }
            if given(IBV_QP_INIT_ATTR_CREATE_FLAGS) {
                self.create_flags = (*attr).create_flags;
            }
            if self.create_flags & IBV_QP_CREATE_SOURCE_QPN != 0 {
                self.source_qpn = (*attr).source_qpn;
            }
            if given(IBV_QP_INIT_ATTR_MAX_TSO_HEADER) {
                self.max_tso_header = (*attr).max_tso_header;
            }
            if given(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
                let ops = (*attr).send_ops_flags;
                builder::check(self.qp_type, ops)?;
                self.send_ops = Some(ops);
            }
            if given(IBV_QP_INIT_ATTR_IND_TABLE) {
                self.rss = Some(spread(context, attr)?);
            }
        }
        Ok(())
    }
}

/// # Errors
/// EINVAL for another type than raw packets, without a hash, or with sends.
///
/// # Safety
/// The mask has `IBV_QP_INIT_ATTR_IND_TABLE`; the table is live or NULL, the key as long as stated
/// during `'a`.
unsafe fn spread<'a, P: Provider>(
    context: &Context<P>,
    attr: *const ibv_qp_init_attr_ex,
) -> Result<Spread<'a, P>> {
    // SAFETY: vouched for by the caller; tables lie in such blocks.
    unsafe {
        let mask = (*attr).comp_mask;
        let hash = (*attr).rx_hash_conf;
        let length = usize::from(hash.rx_hash_key_len);
        let fit = (*attr).qp_type == IBV_QPT_RAW_PACKET
            && mask & IBV_QP_INIT_ATTR_RX_HASH != 0
            && mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS == 0
            && !(hash.rx_hash_key.is_null() && length > 0);
        if !fit {
            return Err(Errno::INVAL);
        }
        let key = match length {
            0 => &[],
            _ => core::slice::from_raw_parts(hash.rx_hash_key, length),
        };
        Ok(Spread {
            table: context.object((*attr).rwq_ind_tbl)?,
            function: hash.rx_hash_function,
            key,
            fields: hash.rx_hash_fields_mask,
        })
    }
}

/// # Errors
/// EOPNOTSUPP for bits that are unknown, EINVAL for a hash without a table.
fn check_mask(mask: u32) -> Result<()> {
    const KNOWN: u32 = IBV_QP_INIT_ATTR_PD
        | IBV_QP_INIT_ATTR_XRCD
        | IBV_QP_INIT_ATTR_CREATE_FLAGS
        | IBV_QP_INIT_ATTR_MAX_TSO_HEADER
        | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
        | TABLES;
    const TABLES: u32 = IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
    if mask & !KNOWN != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    if mask & TABLES == IBV_QP_INIT_ATTR_RX_HASH {
        return Err(Errno::INVAL);
    }
    Ok(())
}

fn part<'a, R: Side, T>(
    object: Option<&'a Object<R>>,
    part: impl FnOnce(&'a R) -> &'a T,
) -> Option<&'a T> {
    object.map(|object| part(&object.side))
}

fn raw<R: Side>(object: Option<&Object<R>>) -> *mut R::C {
    object.map_or(null_mut(), Object::c)
}

fn hold<R: Side>(object: Option<&Object<R>>) -> Option<Hold> {
    object.map(|object| object.uses.hold())
}

/// Makes the queue pair; returns its capacities.
fn create<P: Provider>(
    context: &Context<P>,
    params: &CreateParams<'_, P>,
) -> Result<(*mut ibv_qp, ibv_qp_cap)> {
    let provider = context.provider()?;
    let allocator = params.pd.and_then(Object::allocator);
    let mut new = New::<Pair<P>>::alloc(context, allocator)?;
    // An event may come before the provider returns.
    fill(&mut new, params);
    let mut cap = params.cap;
    let (qp, number) = provider.create_qp(&mut QpInit {
        token: new.token(),
        qp_type: params.qp_type,
        pd: part(params.pd, |side| &side.pd),
        send_cq: part(params.send_cq, |side| &side.cq),
        recv_cq: part(params.recv_cq, |side| &side.cq),
        srq: part(params.srq, |side| &side.srq),
        xrcd: part(params.xrcd, |side| &side.xrcd),
        cap: &mut cap,
        sq_sig_all: params.sq_sig_all,
        create_flags: params.create_flags,
        source_qpn: params.source_qpn,
        max_tso_header: params.max_tso_header,
        send_ops: params.send_ops.unwrap_or(0),
        rss: params.rss.as_ref().map(|rss| Rss {
            table: &rss.table.side.table,
            function: rss.function,
            key: rss.key,
            fields: rss.fields,
        }),
    })?;
    let handle = provider.number(Numbered::Qp(&qp)).unwrap_or(number);
    note(&mut new, number, handle);
    let qp = new.finish(Pair {
        qp,
        sq_sig_all: params.sq_sig_all,
        builder: params.send_ops.map(|_| Box::new(Builder::new(cap))),
        attached: Attached::default(),
        ended: Ended::not_yet(),
        _holds: [
            hold(params.pd),
            hold(params.send_cq),
            hold(params.recv_cq),
            hold(params.srq),
            hold(params.xrcd),
            params.rss.as_ref().map(|rss| rss.table.uses.hold()),
        ],
    });
    Ok((qp.cast(), cap))
}

/// Fills in the members that do not depend on the provider.
fn fill<P: Provider>(new: &mut New<Pair<P>>, params: &CreateParams<'_, P>) {
    let qp: *mut ibv_qp = new.as_ptr().cast();
    // SAFETY: a verbs_qp starts with its ibv_qp, and nothing else refers to the block.
    unsafe {
        (*qp).qp_context = params.qp_context;
        (*qp).pd = raw(params.pd);
        (*qp).send_cq = raw(params.send_cq).cast();
        (*qp).recv_cq = raw(params.recv_cq).cast();
        (*qp).srq = raw(params.srq).cast();
        (*qp).qp_type = params.qp_type;
        (*qp).state = IBV_QPS_RESET;
        Qp::init_events(qp);
    }
    if let Some(ops) = params.send_ops {
        new.c().comp_mask |= VERBS_QP_EX;
        builder::fill::<P>(&mut new.c().qp_ex, params.qp_type, ops);
    }
    if params.xrcd.is_some() {
        let c = new.c();
        c.comp_mask |= VERBS_QP_XRCD;
        c.xrcd = raw(params.xrcd);
    }
}

/// Notes the numbers of the queue pair: on the wire, and where it was made.
fn note<P: Provider>(new: &mut New<Pair<P>>, number: u32, handle: u32) {
    let qp: *mut ibv_qp = new.as_ptr().cast();
    // SAFETY: as in `fill`.
    unsafe {
        (*qp).handle = handle;
        (*qp).qp_num = number;
    }
}

pub(super) unsafe extern "C" fn create_qp<P: Provider>(
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> *mut ibv_qp {
    // SAFETY: the library passes a live domain, and attributes that name live queues or NULL.
    pointer(unsafe {
        Subject::<P, Domain<P>>::from_raw(pd).and_then(|domain| {
            let attr = attr.as_mut().ok_or(Errno::INVAL)?;
            if attr.qp_type == IBV_QPT_XRC_RECV {
                return Err(Errno::INVAL);
            }
            let mut params = CreateParams::plain(&domain.context, attr, false)?;
            params.pd = Some(&domain.object);
            let (qp, cap) = create(&domain.context, &params)?;
            attr.cap = cap;
            Ok(qp)
        })
    })
}

pub(super) unsafe extern "C" fn create_qp_ex<P: Provider>(
    context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    // SAFETY: the caller passes an open context and attributes that name live objects, or NULL;
    // they start as the plain ones do (asserted below).
    pointer(unsafe {
        Context::<P>::from_raw(context).and_then(|context| {
            let plain = attr.cast::<ibv_qp_init_attr>().as_ref();
            let plain = plain.ok_or(Errno::INVAL)?;
            let table = (*attr).comp_mask & IBV_QP_INIT_ATTR_IND_TABLE != 0;
            let mut params = CreateParams::plain(context, plain, table)?;
            params.extended(context, attr)?;
            let (qp, cap) = create(context, &params)?;
            (*attr).cap = cap;
            Ok(qp)
        })
    })
}

const _: () = {
    use core::mem::offset_of;
    assert!(offset_of!(ibv_qp_init_attr, cap) == offset_of!(ibv_qp_init_attr_ex, cap));
    assert!(
        offset_of!(ibv_qp_init_attr, sq_sig_all) == offset_of!(ibv_qp_init_attr_ex, sq_sig_all)
    );
    assert!(offset_of!(ibv_qp_init_attr_ex, comp_mask) < size_of::<ibv_qp_init_attr>());
};

/// An XRC target that this or another process made: its queues are not to be seen.
pub(super) unsafe extern "C" fn open_qp<P: Provider>(
    context: *mut ibv_context,
    attr: *mut ibv_qp_open_attr,
) -> *mut ibv_qp {
    // SAFETY: the caller passes an open context and attributes that name a live domain, or NULL.
    pointer(unsafe {
        Context::<P>::from_raw(context)
            .and_then(|context| open(context, attr.as_ref().ok_or(Errno::INVAL)?))
    })
}

/// # Safety
/// A domain that the attributes name is live, or NULL.
unsafe fn open<P: Provider>(context: &Context<P>, attr: &ibv_qp_open_attr) -> Result<*mut ibv_qp> {
    const NEEDED: u32 = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    if attr.comp_mask >= IBV_QP_OPEN_ATTR_RESERVED {
        return Err(Errno::OPNOTSUPP);
    }
    if attr.comp_mask & NEEDED != NEEDED || attr.qp_type != IBV_QPT_XRC_RECV {
        return Err(Errno::INVAL);
    }
    // SAFETY: vouched for by the caller; every XRC domain lies in such a block.
    let xrcd = unsafe { context.object::<Sharing<P>>(attr.xrcd.cast()) }?;
    let mut new = New::<Pair<P>>::alloc(context, None)?;
    let qp_context = match attr.comp_mask & IBV_QP_OPEN_ATTR_CONTEXT {
        0 => null_mut(),
        _ => attr.qp_context,
    };
    let qp: *mut ibv_qp = new.as_ptr().cast();
    // SAFETY: a verbs_qp starts with its ibv_qp, and nothing else refers to the block.
    unsafe {
        (*qp).qp_context = qp_context;
        (*qp).qp_type = attr.qp_type;
        (*qp).state = IBV_QPS_UNKNOWN;
        Qp::init_events(qp);
    }
    note(&mut new, attr.qp_num, attr.qp_num);
    let c = new.c();
    c.comp_mask = VERBS_QP_XRCD;
    c.xrcd = xrcd.c();
    let provider = context.provider()?;
    let opened = provider.open_qp(&xrcd.side.xrcd, attr.qp_num, new.token())?;
    let pair = new.finish(Pair {
        qp: opened,
        sq_sig_all: false,
        builder: None,
        attached: Attached::default(),
        ended: Ended::not_yet(),
        _holds: [Some(xrcd.uses.hold()), None, None, None, None, None],
    });
    Ok(pair.cast())
}
