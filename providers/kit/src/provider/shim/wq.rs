//! Work queues and their tables: ibv_create_wq(3), ibv_create_rwq_ind_table(3).

use super::answer::{code, pointer};
use super::context::{Context, Subject};
use super::cq::Completions;
use super::object::{Hold, New, Object, Side};
use super::pd::Domain;
use super::receive::{Receives, refused};
use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::provider::{Provider, WqChange, WqInit};
use core::ffi::c_int;
use std::sync::Arc;

/// A work queue.
pub(super) struct Queue<P: Provider> {
    pub(super) wq: Arc<P::Wq>,
    _pd: Hold,
    _cq: Hold,
}

// SAFETY: ibv_wq starts with its context; numbers, pointers and functions may be 0.
unsafe impl<P: Provider> Side for Queue<P> {
    type C = ibv_wq;
}

/// The library's inline function makes mutex and condition ready afterwards.
pub(super) unsafe extern "C" fn create_wq<P: Provider>(
    context: *mut ibv_context,
    attr: *mut ibv_wq_init_attr,
) -> *mut ibv_wq {
    // SAFETY: the caller passes an open context and attributes that name live objects, or NULL.
    pointer(unsafe {
        Context::<P>::from_raw(context)
            .and_then(|context| create(context, attr.as_mut().ok_or(Errno::INVAL)?))
    })
}

/// # Safety
/// Objects that the attributes name are live, or NULL.
unsafe fn create<P: Provider>(
    context: &Context<P>,
    attr: &mut ibv_wq_init_attr,
) -> Result<*mut ibv_wq> {
    if attr.comp_mask & !IBV_WQ_INIT_ATTR_FLAGS != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    if attr.wq_type != IBV_WQT_RQ {
        return Err(Errno::INVAL);
    }
    // SAFETY: vouched for by the caller; domains and queues lie in such blocks.
    let (domain, cq) = unsafe {
        (
            context.object::<Domain<P>>(attr.pd)?,
            context.object::<Completions<P>>(attr.cq.cast())?,
        )
    };
    let provider = context.provider()?;
    let mut new = New::<Queue<P>>::alloc(context, domain.allocator())?;
    let mut init = WqInit {
        pd: &domain.side.pd,
        cq: &cq.side.cq,
        max_wr: attr.max_wr,
        max_sge: attr.max_sge,
        flags: match attr.comp_mask & IBV_WQ_INIT_ATTR_FLAGS {
            0 => 0,
            _ => attr.create_flags,
        },
    };
    let (wq, number) = provider.create_wq(&mut init)?;
    (attr.max_wr, attr.max_sge) = (init.max_wr, init.max_sge);
    let c = new.c();
    c.pd = domain.c();
    c.cq = cq.c().cast();
    c.wq_num = number;
    c.handle = number;
    c.state = IBV_WQS_RESET;
    c.wq_type = attr.wq_type;
    c.post_recv = Some(post_wq_recv::<P>);
    Ok(new.finish(Queue {
        wq: Arc::new(wq),
        _pd: domain.uses.hold(),
        _cq: cq.uses.hold(),
    }))
}

pub(super) unsafe extern "C" fn modify_wq<P: Provider>(
    wq: *mut ibv_wq,
    attr: *mut ibv_wq_attr,
) -> c_int {
    // SAFETY: the caller passes a live queue and attributes, or NULL.
    code(unsafe {
        Subject::<P, Queue<P>>::from_raw(wq).and_then(|queue| {
            let change = change(attr.as_ref().ok_or(Errno::INVAL)?)?;
            (*wq).state = queue.provider.modify_wq(&queue.object.side.wq, &change)?;
            Ok(())
        })
    })
}

/// # Errors
/// EINVAL for bits of the mask, or states, that there are not.
fn change(attr: &ibv_wq_attr) -> Result<WqChange> {
    let given = |bit| attr.attr_mask & bit != 0;
    let known = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE | IBV_WQ_ATTR_FLAGS;
    let state = |wanted: bool, state: ibv_wq_state| match (wanted, state) {
        (false, _) => Ok(None),
        (true, IBV_WQS_RESET | IBV_WQS_RDY | IBV_WQS_ERR) => Ok(Some(state)),
        (true, _) => Err(Errno::INVAL),
    };
    if attr.attr_mask & !known != 0 {
        return Err(Errno::INVAL);
    }
    Ok(WqChange {
        state: state(given(IBV_WQ_ATTR_STATE), attr.wq_state)?,
        current: state(given(IBV_WQ_ATTR_CURR_STATE), attr.curr_wq_state)?,
        flags: given(IBV_WQ_ATTR_FLAGS).then_some((attr.flags, attr.flags_mask)),
    })
}

pub(super) unsafe extern "C" fn destroy_wq<P: Provider>(wq: *mut ibv_wq) -> c_int {
    // SAFETY: the caller passes a live queue or NULL.
    code(unsafe {
        Subject::<P, Queue<P>>::from_raw(wq).and_then(|queue| {
            queue.object.idle()?;
            queue.provider.destroy_wq(&queue.object.side.wq)?;
            queue.free();
            Ok(())
        })
    })
}

unsafe extern "C" fn post_wq_recv<P: Provider>(
    wq: *mut ibv_wq,
    wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the caller passes a live queue, a chain of requests and room for a pointer, or NULL.
    unsafe {
        let queue = match Subject::<P, Queue<P>>::from_raw(wq) {
            Ok(queue) => queue,
            Err(e) => return refused(e, wr, bad),
        };
        let mut requests = Receives::new(wr);
        let wq = &queue.object.side.wq;
        let answer = queue.provider.post_wq_recv(wq, &mut requests);
        requests.answer(answer, bad)
    }
}

/// A table of work queues.
pub(super) struct Table<P: Provider> {
    pub(super) table: Arc<P::WqTable>,
    _queues: Vec<Hold>,
}

// SAFETY: ibv_rwq_ind_table starts with its context; its other members are numbers.
unsafe impl<P: Provider> Side for Table<P> {
    type C = ibv_rwq_ind_table;
}

/// More queues than any table has, so that a wild size is refused before the list is read.
const MOST_LOG: u32 = 16;

pub(super) unsafe extern "C" fn create_rwq_ind_table<P: Provider>(
    context: *mut ibv_context,
    attr: *mut ibv_rwq_ind_table_init_attr,
) -> *mut ibv_rwq_ind_table {
    // SAFETY: the caller passes an open context, and attributes that name a list of that many live
    // queues, or NULL.
    pointer(unsafe {
        Context::<P>::from_raw(context)
            .and_then(|context| create_table(context, attr.as_ref().ok_or(Errno::INVAL)?))
    })
}

/// # Safety
/// The list of the attributes has the length that they state, its queues are live, or NULL.
unsafe fn create_table<P: Provider>(
    context: &Context<P>,
    attr: &ibv_rwq_ind_table_init_attr,
) -> Result<*mut ibv_rwq_ind_table> {
    if attr.comp_mask != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    if attr.ind_tbl.is_null() || attr.log_ind_tbl_size > MOST_LOG {
        return Err(Errno::INVAL);
    }
    // SAFETY: vouched for by the caller; work queues lie in such blocks.
    let queues = unsafe {
        core::slice::from_raw_parts(attr.ind_tbl, 1 << attr.log_ind_tbl_size)
            .iter()
            .map(|wq| context.object::<Queue<P>>(*wq))
            .collect::<Result<Vec<&Object<Queue<P>>>>>()?
    };
    let provider = context.provider()?;
    let mut new = New::<Table<P>>::alloc(context, None)?;
    let sides: Vec<_> = queues.iter().map(|queue| &queue.side.wq).collect();
    let (table, number) = provider.create_wq_table(&sides)?;
    let c = new.c();
    c.ind_tbl_num = number.cast_signed();
    c.ind_tbl_handle = number.cast_signed();
    Ok(new.finish(Table {
        table: Arc::new(table),
        _queues: queues.iter().map(|queue| queue.uses.hold()).collect(),
    }))
}

pub(super) unsafe extern "C" fn destroy_rwq_ind_table<P: Provider>(
    table: *mut ibv_rwq_ind_table,
) -> c_int {
    // SAFETY: the caller passes a live table or NULL.
    code(unsafe {
        Subject::<P, Table<P>>::from_raw(table).and_then(|subject| {
            subject.object.idle()?;
            subject
                .provider
                .destroy_wq_table(&subject.object.side.table)?;
            subject.free();
            Ok(())
        })
    })
}
