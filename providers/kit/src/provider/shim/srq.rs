//! Shared receive queues: ibv_create_srq(3), ibv_create_srq_ex(3), ibv_post_srq_recv(3).

use super::answer::{code, pointer};
use super::context::{Context, Subject};
use super::cq::Completions;
use super::object::{Ended, Hold, New, Object, Side};
use super::pd::Domain;
use super::receive::Receives;
use super::xrcd::Sharing;
use crate::abi::handle::{Pd, Srq, UNACKED};
use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::provider::{Numbered, Provider, SrqInit, XrcInit};
use core::ffi::c_int;

/// A shared receive queue.
pub(super) struct Shared<P: Provider> {
    pub(super) srq: P::Srq,
    ended: Ended<1>,
    _pd: Hold,
    /// The XRC domain and the completion queue of an XRC queue.
    _xrc: Option<(Hold, Hold)>,
}

// SAFETY: verbs_srq starts with the context of its ibv_srq; numbers and pointers may be 0.
unsafe impl<P: Provider> Side for Shared<P> {
    type C = verbs_srq;
}

/// Additional parameters of an XRC queue.
type Xrc<'a, P> = (&'a Object<Sharing<P>>, &'a Object<Completions<P>>);

/// Makes the queue; `attr` has the requested sizes, and then the actual ones.
fn create<P: Provider>(
    context: &Context<P>,
    domain: &Object<Domain<P>>,
    attr: &mut ibv_srq_attr,
    xrc: Option<Xrc<'_, P>>,
    fill: impl FnOnce(*mut ibv_srq),
) -> Result<*mut ibv_srq> {
    let provider = context.provider()?;
    let mut new = New::<Shared<P>>::alloc(context, domain.allocator())?;
    // An event may come before the provider returns.
    fill(new.as_ptr().cast());
    let mut answer = *attr;
    let (srq, number) = provider.create_srq(&mut SrqInit {
        token: new.token(),
        pd: &domain.side.pd,
        attr: &mut answer,
        xrc: xrc.map(|(xrcd, cq)| XrcInit {
            xrcd: &xrcd.side.xrcd,
            cq: &cq.side.cq,
        }),
    })?;
    *attr = answer;
    let c = new.c();
    c.srq.pd = domain.c();
    c.srq.handle = provider.number(Numbered::Srq(&srq)).unwrap_or(number);
    c.srq_num = number;
    c.srq_type = IBV_SRQT_BASIC;
    if let Some((xrcd, cq)) = xrc {
        c.srq_type = IBV_SRQT_XRC;
        c.xrcd = xrcd.c();
        c.cq = cq.c().cast();
    }
    let srq = new.finish(Shared {
        srq,
        ended: Ended::not_yet(),
        _pd: domain.uses.hold(),
        _xrc: xrc.map(|(xrcd, cq)| (xrcd.uses.hold(), cq.uses.hold())),
    });
    Ok(srq.cast())
}

/// The rest of the C structure is filled by the library.
pub(super) unsafe extern "C" fn create_srq<P: Provider>(
    pd: *mut ibv_pd,
    attr: *mut ibv_srq_init_attr,
) -> *mut ibv_srq {
    // SAFETY: the library passes a live domain and attributes.
    pointer(unsafe {
        Subject::<P, Domain<P>>::from_raw(pd).and_then(|domain| {
            let attr = &mut attr.as_mut().ok_or(Errno::INVAL)?.attr;
            create(&domain.context, &domain.object, attr, None, |_| ())
        })
    })
}

/// Called by applications without the library between.
pub(super) unsafe extern "C" fn create_srq_ex<P: Provider>(
    context: *mut ibv_context,
    attr: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    // SAFETY: the caller passes an open context and attributes that name live objects, or NULL.
    pointer(unsafe {
        Context::<P>::from_raw(context).and_then(|context| {
            if attr.is_null() {
                return Err(Errno::INVAL);
            }
            if (*attr).comp_mask >= IBV_SRQ_INIT_ATTR_RESERVED {
                return Err(Errno::OPNOTSUPP);
            }
            if (*attr).comp_mask & IBV_SRQ_INIT_ATTR_PD == 0 {
                return Err(Errno::INVAL);
            }
            let domain = context.object::<Domain<P>>((*attr).pd)?;
            let xrc = xrc(context, attr)?;
            let (pd, srq_context) = (Pd::from_raw((*attr).pd)?, (*attr).srq_context);
            create(context, domain, &mut (*attr).attr, xrc, |srq| {
                Srq::init(srq, pd, srq_context);
            })
        })
    })
}

/// Members that the mask leaves out are not read.
///
/// # Safety
/// Objects that the attributes name are live, or NULL.
unsafe fn xrc<'a, P: Provider>(
    context: &Context<P>,
    attr: *const ibv_srq_init_attr_ex,
) -> Result<Option<Xrc<'a, P>>> {
    // SAFETY: vouched for by the caller; every XRC domain and queue lies in such a block.
    unsafe {
        let given = |bit| (*attr).comp_mask & bit != 0;
        if !given(IBV_SRQ_INIT_ATTR_TYPE) {
            return Ok(None);
        }
        match (*attr).srq_type {
            IBV_SRQT_BASIC => return Ok(None),
            IBV_SRQT_XRC => {}
            IBV_SRQT_TM => return Err(Errno::OPNOTSUPP),
            _ => return Err(Errno::INVAL),
        }
        if !given(IBV_SRQ_INIT_ATTR_XRCD) || !given(IBV_SRQ_INIT_ATTR_CQ) {
            return Err(Errno::INVAL);
        }
        let xrcd = context.object::<Sharing<P>>((*attr).xrcd.cast())?;
        Ok(Some((xrcd, context.object((*attr).cq.cast())?)))
    }
}

type Queue<'a, P> = Subject<'a, P, Shared<P>>;

/// # Safety
/// `srq` is NULL or a live queue of the provider.
unsafe fn subject<'a, P: Provider>(srq: *mut ibv_srq) -> Result<Queue<'a, P>> {
    // SAFETY: vouched for by the caller; an ibv_srq is the first member of its block.
    unsafe { Subject::from_raw(srq.cast()) }
}

pub(super) unsafe extern "C" fn modify_srq<P: Provider>(
    srq: *mut ibv_srq,
    attr: *mut ibv_srq_attr,
    mask: c_int,
) -> c_int {
    // SAFETY: the library passes a live queue and attributes.
    code(unsafe {
        subject::<P>(srq).and_then(|queue| {
            let (attr, mask) = (attr.as_ref().ok_or(Errno::INVAL)?, mask.cast_unsigned());
            if mask & !(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) != 0 {
                return Err(Errno::INVAL);
            }
            let srq = &queue.object.side.srq;
            queue.provider.modify_srq(srq, attr, mask)
        })
    })
}

pub(super) unsafe extern "C" fn query_srq<P: Provider>(
    srq: *mut ibv_srq,
    attr: *mut ibv_srq_attr,
) -> c_int {
    // SAFETY: the library passes a live queue and room for the attributes.
    code(unsafe {
        subject::<P>(srq).and_then(|queue| {
            let attr = attr.as_mut().ok_or(Errno::INVAL)?;
            *attr = queue.provider.query_srq(&queue.object.side.srq)?;
            Ok(())
        })
    })
}

pub(super) unsafe extern "C" fn get_srq_num<P: Provider>(
    srq: *mut ibv_srq,
    number: *mut u32,
) -> c_int {
    // SAFETY: the caller passes a live queue and room for the number, or NULL.
    code(unsafe {
        subject::<P>(srq).and_then(|queue| {
            let number = number.as_mut().ok_or(Errno::INVAL)?;
            let c = queue.object.c();
            if (*c).srq_type != IBV_SRQT_XRC {
                return Err(Errno::OPNOTSUPP);
            }
            *number = (*c).srq_num;
            Ok(())
        })
    })
}

pub(super) unsafe extern "C" fn destroy_srq<P: Provider>(srq: *mut ibv_srq) -> c_int {
    // SAFETY: the library passes a live queue, whose mutex and condition are initialised.
    code(unsafe {
        subject::<P>(srq).and_then(|queue| {
            queue.object.idle()?;
            let reported = queue.object.side.ended.once(|| {
                let reported = queue.provider.destroy_srq(&queue.object.side.srq)?;
                Ok([reported])
            })?;
            // Without events no thread acknowledges any, or holds the mutex for it.
            if reported.iter().any(|count| *count > 0) && Srq::from_raw(srq)?.acked() != reported {
                return Err(Errno(UNACKED));
            }
            queue.free();
            Ok(())
        })
    })
}

pub(super) unsafe extern "C" fn post_srq_recv<P: Provider>(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the caller passes a live queue, a chain of requests and room for a pointer, or NULL.
    unsafe {
        let queue = match subject::<P>(srq) {
            Ok(queue) => queue,
            Err(e) => return super::receive::refused(e, wr, bad),
        };
        let mut requests = Receives::new(wr);
        let srq = &queue.object.side.srq;
        let answer = queue.provider.post_srq_recv(srq, &mut requests);
        requests.answer(answer, bad)
    }
}
