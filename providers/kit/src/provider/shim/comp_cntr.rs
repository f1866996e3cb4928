//! Completion counters: ibv_create_comp_cntr(3), ibv_qp_attach_comp_cntr(3).

use super::answer::{code, pointer};
use super::context::{Context, Subject};
use super::object::{Hold, New, Side};
use super::qp::subject;
use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::provider::Provider;
use crate::provider::comp_cntr::{CompCntr, Counts, MAX_COMP_CNTRS};
use crate::sync::Mutex;
use crate::table::Given;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// A counter.
pub(super) struct Counter(Arc<CompCntr>);

// SAFETY: ibv_comp_cntr starts with its context; its number may be 0.
unsafe impl Side for Counter {
    type C = ibv_comp_cntr;
}

/// The counters of a queue pair: the operations, and the counters, which therefore remain.
#[derive(Default)]
pub(super) struct Attached(Mutex<(u32, Vec<Hold>)>);

/// Adds the verbs of completion counters to others.
pub(super) fn with_verbs<P: Provider>(others: Given) -> Given {
    Given {
        query_comp_cntr_caps: Some(query_caps::<P>),
        create_comp_cntr: Some(create::<P>),
        destroy_comp_cntr: Some(destroy::<P>),
        set_comp_cntr: Some(set::<P>),
        set_err_comp_cntr: Some(set_err::<P>),
        inc_comp_cntr: Some(inc::<P>),
        inc_err_comp_cntr: Some(inc_err::<P>),
        read_comp_cntr: Some(read::<P>),
        read_err_comp_cntr: Some(read_err::<P>),
        qp_attach_comp_cntr: Some(attach::<P>),
        ..others
    }
}

/// The operations that the provider counts.
///
/// # Errors
/// EOPNOTSUPP without counters.
fn operations<P: Provider>(context: &Context<P>) -> Result<u32> {
    match context.provider()?.comp_cntr_ops() {
        0 => Err(Errno::OPNOTSUPP),
        operations => Ok(operations),
    }
}

unsafe extern "C" fn query_caps<P: Provider>(
    context: *mut ibv_context,
    caps: *mut ibv_comp_cntr_caps,
    _size: usize,
) -> c_int {
    // SAFETY: the library passes an open context and room for a whole answer.
    code(unsafe {
        Context::<P>::from_raw(context).and_then(|context| {
            let reported = ibv_comp_cntr_caps {
                max_value: u64::MAX,
                max_counters: MAX_COMP_CNTRS,
                supported_qp_attach_ops: operations(context)?,
            };
            *caps.as_mut().ok_or(Errno::INVAL)? = reported;
            Ok(())
        })
    })
}

/// # Errors
/// EINVAL for reserved members that are not 0, EOPNOTSUPP for unknown kinds.
fn counts(attr: &ibv_comp_cntr_init_attr) -> Result<Counts> {
    if attr.comp_mask != 0 || attr.flags != 0 {
        return Err(Errno::INVAL);
    }
    match attr.type_ {
        IBV_COMP_CNTR_TYPE_WRS => Ok(Counts::Requests),
        IBV_COMP_CNTR_TYPE_BYTES => Ok(Counts::Bytes),
        _ => Err(Errno::OPNOTSUPP),
    }
}

unsafe extern "C" fn create<P: Provider>(
    context: *mut ibv_context,
    attr: *mut ibv_comp_cntr_init_attr,
) -> *mut ibv_comp_cntr {
    // SAFETY: the library passes an open context and attributes.
    pointer(unsafe {
        Context::<P>::from_raw(context).and_then(|context| {
            operations(context)?;
            let counts = counts(attr.as_ref().ok_or(Errno::INVAL)?)?;
            let new = New::<Counter>::alloc(context, None)?;
            Ok(new.finish(Counter(Arc::new(CompCntr::new(counts)?))))
        })
    })
}

unsafe extern "C" fn destroy<P: Provider>(counter: *mut ibv_comp_cntr) -> c_int {
    // SAFETY: the library passes a live counter.
    code(unsafe {
        Subject::<P, Counter>::from_raw(counter).and_then(|subject| {
            subject.object.idle()?;
            subject.free();
            Ok(())
        })
    })
}

/// Does something with one of the counts.
///
/// # Safety
/// `counter` is NULL or a live counter of the provider.
unsafe fn with<P: Provider>(counter: *mut ibv_comp_cntr, then: impl FnOnce(&CompCntr)) -> c_int {
    // SAFETY: vouched for by the caller.
    code(unsafe {
        Subject::<P, Counter>::from_raw(counter).map(|subject| then(&subject.object.side.0))
    })
}

macro_rules! changes {
    ($($name:ident: $count:ident, $change:ident;)*) => { $(
        unsafe extern "C" fn $name<P: Provider>(counter: *mut ibv_comp_cntr, value: u64) -> c_int {
            // SAFETY: the library passes a live counter.
            unsafe { with::<P>(counter, |counter| $change(counter.$count(), value)) }
        }
    )* };
}

fn put(count: &AtomicU64, value: u64) {
    count.store(value, Ordering::Release);
}

fn add(count: &AtomicU64, value: u64) {
    count.fetch_add(value, Ordering::Release);
}

changes! {
    set: completions, put;
    set_err: failures, put;
    inc: completions, add;
    inc_err: failures, add;
}

macro_rules! reads {
    ($($name:ident: $count:ident;)*) => { $(
        unsafe extern "C" fn $name<P: Provider>(counter: *mut ibv_comp_cntr, value: *mut u64) -> c_int {
            // SAFETY: the library passes a live counter and room for the value.
            unsafe {
                with::<P>(counter, |counter| {
                    value.write(counter.$count().load(Ordering::Acquire));
                })
            }
        }
    )* };
}

reads! {
    read: completions;
    read_err: failures;
}

unsafe extern "C" fn attach<P: Provider>(
    qp: *mut ibv_qp,
    counter: *mut ibv_comp_cntr,
    attr: *mut ibv_qp_attach_comp_cntr_attr,
) -> c_int {
    // SAFETY: the library passes a live queue pair, and a counter and attributes.
    code(unsafe {
        subject::<P>(qp).and_then(|pair| {
            let known = operations(&pair.context)?;
            let counter = pair.context.object::<Counter>(counter)?;
            let attr = attr.as_ref().ok_or(Errno::INVAL)?;
            if attr.comp_mask != 0 || attr.op_mask == 0 {
                return Err(Errno::INVAL);
            }
            if attr.op_mask & !known != 0 {
                return Err(Errno::OPNOTSUPP);
            }
            let attached = &pair.object.side.attached.0;
            let mut attached = attached.lock();
            if attached.0 & attr.op_mask != 0 {
                return Err(Errno::BUSY);
            }
            let (qp, cntr) = (&pair.object.side.qp, Arc::clone(&counter.side.0));
            pair.provider.attach_comp_cntr(qp, cntr, attr.op_mask)?;
            attached.0 |= attr.op_mask;
            attached.1.push(counter.uses.hold());
            Ok(())
        })
    })
}
