//! Completion queues: ibv_create_cq(3), ibv_create_cq_ex(3), ibv_poll_cq(3).

use super::answer::{code, count, pointer};
use super::context::{Context, Subject};
use super::cq_ex::{self, Batch};
use super::object::{Allocator, Ended, Hold, New, Object, Side};
use super::pd::Domain;
use crate::abi::handle::{CompChannel, Cq, UNACKED};
use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::provider::{CqInit, Numbered, Provider};
use core::ffi::c_int;

/// A completion queue, with or without its extended half.
pub(super) struct Completions<P: Provider> {
    pub(super) cq: P::Cq,
    /// The entry that readers see, if the queue is an extended one.
    pub(super) batch: Option<Batch>,
    ended: Ended<2>,
    _parent: Option<Hold>,
}

// SAFETY: ibv_cq_ex starts with its context as ibv_cq does; numbers, pointers and functions may
// be 0.
unsafe impl<P: Provider> Side for Completions<P> {
    type C = ibv_cq_ex;
}

/// Parameters of both kinds of queues.
struct CreateParams<'a, P: Provider> {
    entries: u32,
    channel: *mut ibv_comp_channel,
    vector: u32,
    ignore_overrun: bool,
    /// `wc_flags`, if the queue is an extended one.
    readers: Option<u64>,
    parent: Option<&'a Object<Domain<P>>>,
}

/// # Safety
/// The channel is live, or NULL.
unsafe fn create<P: Provider>(
    context: &Context<P>,
    params: &CreateParams<'_, P>,
) -> Result<*mut ibv_cq_ex> {
    let provider = context.provider()?;
    if params.entries == 0 || i32::try_from(params.entries).is_err() {
        return Err(Errno::INVAL);
    }
    if params.vector >= provider.comp_vectors() {
        return Err(Errno::INVAL);
    }
    let channel = match params.channel.is_null() {
        true => None,
        // SAFETY: vouched for by the caller.
        false => Some(unsafe { CompChannel::from_raw(params.channel)? }),
    };
    if channel.is_some_and(|channel| channel.ctx().as_ptr() != context.public()) {
        return Err(Errno::INVAL);
    }
    let allocator: Option<Allocator> = params.parent.and_then(Object::allocator);
    let mut new = New::<Completions<P>>::alloc(context, allocator)?;
    let (cq, entries) = provider.create_cq(&CqInit {
        token: new.token(),
        entries: params.entries,
        channel: channel.map(CompChannel::fd).transpose()?,
        vector: params.vector,
        ignore_overrun: params.ignore_overrun,
        readers: params.readers,
    })?;
    if let Some(number) = provider.number(Numbered::Cq(&cq)) {
        new.c().handle = number;
    }
    new.c().cqe = c_int::try_from(entries).unwrap_or(c_int::MAX);
    if let Some(flags) = params.readers {
        cq_ex::fill::<P>(new.c(), flags);
    }
    Ok(new.finish(Completions {
        cq,
        batch: params.readers.map(|_| Batch::new()),
        ended: Ended::not_yet(),
        _parent: params.parent.map(|parent| parent.uses.hold()),
    }))
}

/// The rest of the C structure is filled by the library.
pub(super) unsafe extern "C" fn create_cq<P: Provider>(
    context: *mut ibv_context,
    entries: c_int,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    let params = || -> Result<CreateParams<'_, P>> {
        Ok(CreateParams {
            entries: u32::try_from(entries).map_err(|_| Errno::INVAL)?,
            channel,
            vector: u32::try_from(vector).map_err(|_| Errno::INVAL)?,
            ignore_overrun: false,
            readers: None,
            parent: None,
        })
    };
    // SAFETY: the library passes an open context and a live channel or NULL.
    let queue =
        unsafe { Context::<P>::from_raw(context).and_then(|context| create(context, &params()?)) };
    pointer(queue).cast()
}

/// As above; the library has checked the attributes' `wc_flags` for bits that are unknown.
pub(super) unsafe extern "C" fn create_cq_ex<P: Provider>(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    // SAFETY: the library passes an open context and attributes that name a live channel and
    // domain, or NULL.
    pointer(unsafe {
        Context::<P>::from_raw(context).and_then(|context| {
            if attr.is_null() {
                return Err(Errno::INVAL);
            }
            create(context, &extended(context, attr)?)
        })
    })
}

/// # Safety
/// A domain that the attributes name is live, or NULL.
unsafe fn extended<'a, P: Provider>(
    context: &'a Context<P>,
    attr: *const ibv_cq_init_attr_ex,
) -> Result<CreateParams<'a, P>> {
    const MASK: u32 = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    const FLAGS: u32 = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    // SAFETY: vouched for by the caller; members that the mask leaves out are not read.
    unsafe {
        let mask = (*attr).comp_mask;
        if mask & !MASK != 0 || (*attr).wc_flags & !cq_ex::READERS != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        let flags = match mask & IBV_CQ_INIT_ATTR_MASK_FLAGS {
            0 => 0,
            _ => (*attr).flags,
        };
        if flags & !FLAGS != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        let parent = match mask & IBV_CQ_INIT_ATTR_MASK_PD {
            0 => None,
            _ => Some(context.object::<Domain<P>>((*attr).parent_domain)?),
        };
        if parent.is_some_and(|parent| !parent.is_parent()) {
            return Err(Errno::INVAL);
        }
        Ok(CreateParams {
            entries: (*attr).cqe,
            channel: (*attr).channel,
            vector: (*attr).comp_vector,
            ignore_overrun: flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN != 0,
            readers: Some((*attr).wc_flags),
            parent,
        })
    }
}

type Queue<'a, P> = Subject<'a, P, Completions<P>>;

/// # Safety
/// `cq` is NULL or a live queue of the provider.
unsafe fn subject<'a, P: Provider>(cq: *mut ibv_cq) -> Result<Queue<'a, P>> {
    // SAFETY: vouched for by the caller; both kinds of queues lie in such a block.
    unsafe { Subject::from_raw(cq.cast()) }
}

pub(super) unsafe extern "C" fn resize_cq<P: Provider>(cq: *mut ibv_cq, entries: c_int) -> c_int {
    // SAFETY: the library passes a live queue.
    code(unsafe {
        subject::<P>(cq).and_then(|queue| {
            let entries = u32::try_from(entries).map_err(|_| Errno::INVAL)?;
            if entries == 0 {
                return Err(Errno::INVAL);
            }
            let now = queue.provider.resize_cq(&queue.object.side.cq, entries)?;
            Cq::from_raw(cq)?.set_entries(now);
            Ok(())
        })
    })
}

pub(super) unsafe extern "C" fn modify_cq<P: Provider>(
    cq: *mut ibv_cq,
    attr: *mut ibv_modify_cq_attr,
) -> c_int {
    // SAFETY: the caller passes a live queue and attributes, or NULL.
    code(unsafe {
        subject::<P>(cq).and_then(|queue| {
            let attr = attr.as_ref().ok_or(Errno::INVAL)?;
            if attr.attr_mask & !IBV_CQ_ATTR_MODERATE != 0 {
                return Err(Errno::OPNOTSUPP);
            }
            if attr.attr_mask == 0 {
                return Err(Errno::INVAL);
            }
            let ibv_moderate_cq {
                cq_count,
                cq_period,
            } = attr.moderate;
            let cq = &queue.object.side.cq;
            queue.provider.moderate_cq(cq, cq_count, cq_period)
        })
    })
}

pub(super) unsafe extern "C" fn destroy_cq<P: Provider>(cq: *mut ibv_cq) -> c_int {
    // SAFETY: the library passes a live queue, whose mutex and condition it initialised, and no
    // other code destroys it.
    code(unsafe {
        subject::<P>(cq).and_then(|queue| {
            queue.object.idle()?;
            let reported = queue.object.side.ended.once(|| {
                let reported = queue.provider.destroy_cq(&queue.object.side.cq)?;
                Ok([reported.completion, reported.asynchronous])
            })?;
            // Without events no thread acknowledges any, or holds the mutex for it.
            if reported.iter().any(|count| *count > 0) && Cq::from_raw(cq)?.acked() != reported {
                return Err(Errno(UNACKED));
            }
            queue.free();
            Ok(())
        })
    })
}

pub(super) unsafe extern "C" fn poll_cq<P: Provider>(
    cq: *mut ibv_cq,
    entries: c_int,
    wc: *mut ibv_wc,
) -> c_int {
    // SAFETY: the caller passes a live queue and room for that many completions, which are plain
    // numbers.
    unsafe {
        let queue = match subject::<P>(cq) {
            Ok(queue) => queue,
            Err(e) => return count(Err(e)),
        };
        let room = match usize::try_from(entries) {
            Ok(0) => return 0,
            Ok(entries) if !wc.is_null() => core::slice::from_raw_parts_mut(wc, entries),
            _ => return count(Err(Errno::INVAL)),
        };
        count(queue.provider.poll_cq(&queue.object.side.cq, room))
    }
}

pub(super) unsafe extern "C" fn req_notify_cq<P: Provider>(
    cq: *mut ibv_cq,
    solicited_only: c_int,
) -> c_int {
    // SAFETY: the caller passes a live queue.
    code(unsafe {
        subject::<P>(cq).and_then(|queue| {
            let cq = &queue.object.side.cq;
            queue.provider.req_notify_cq(cq, solicited_only != 0)
        })
    })
}
