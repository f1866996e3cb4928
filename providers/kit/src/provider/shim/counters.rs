//! Counters: ibv_create_counters(3), ibv_attach_counters_point_flow(3), ibv_read_counters(3).

use super::answer::{code, pointer};
use super::context::{Context, Subject};
use super::object::{New, Side};
use crate::abi::*;
use crate::errno::Errno;
use crate::provider::Provider;
use core::ffi::c_int;
use std::sync::Arc;

/// A set of counters.
pub(super) struct Counting<P: Provider> {
    pub(super) counters: Arc<P::Counters>,
}

// SAFETY: verbs_counters starts with the context of its ibv_counters; its number may be 0.
unsafe impl<P: Provider> Side for Counting<P> {
    type C = verbs_counters;
}

pub(super) unsafe extern "C" fn create_counters<P: Provider>(
    context: *mut ibv_context,
    attr: *mut ibv_counters_init_attr,
) -> *mut ibv_counters {
    // SAFETY: the caller passes an open context and attributes, or NULL.
    let counters = unsafe {
        Context::<P>::from_raw(context).and_then(|context| {
            if attr.as_ref().ok_or(Errno::INVAL)?.comp_mask != 0 {
                return Err(Errno::OPNOTSUPP);
            }
            let new = New::<Counting<P>>::alloc(context, None)?;
            let counters = Arc::new(context.provider()?.create_counters()?);
            Ok(new.finish(Counting { counters }))
        })
    };
    pointer(counters).cast()
}

pub(super) unsafe extern "C" fn destroy_counters<P: Provider>(
    counters: *mut ibv_counters,
) -> c_int {
    // SAFETY: the caller passes live counters, which lie in such a block, or NULL.
    code(unsafe {
        Subject::<P, Counting<P>>::from_raw(counters.cast()).and_then(|subject| {
            subject.object.idle()?;
            let side = &subject.object.side;
            subject.provider.destroy_counters(&side.counters)?;
            subject.free();
            Ok(())
        })
    })
}

/// Counters are bound when a flow is made with them, so a flow that is there already is refused.
pub(super) unsafe extern "C" fn attach_counters_point_flow<P: Provider>(
    counters: *mut ibv_counters,
    attr: *mut ibv_counter_attach_attr,
    flow: *mut ibv_flow,
) -> c_int {
    // SAFETY: the caller passes live counters and attributes, or NULL.
    code(unsafe {
        Subject::<P, Counting<P>>::from_raw(counters.cast()).and_then(|subject| {
            let attr = attr.as_ref().ok_or(Errno::INVAL)?;
            if attr.comp_mask != 0 || !flow.is_null() {
                return Err(Errno::OPNOTSUPP);
            }
            subject.object.idle()?;
            let side = &subject.object.side;
            let what = attr.counter_desc;
            subject
                .provider
                .attach_counter(&side.counters, what, attr.index)
        })
    })
}

pub(super) unsafe extern "C" fn read_counters<P: Provider>(
    counters: *mut ibv_counters,
    values: *mut u64,
    count: u32,
    flags: u32,
) -> c_int {
    // SAFETY: the caller passes live counters and room for that many values, or NULL.
    code(unsafe {
        Subject::<P, Counting<P>>::from_raw(counters.cast()).and_then(|subject| {
            let count = usize::try_from(count).map_err(|_| Errno::INVAL)?;
            if flags & !IBV_READ_COUNTERS_ATTR_PREFER_CACHED != 0 || values.is_null() {
                return Err(Errno::INVAL);
            }
            values.write_bytes(0, count);
            let values = core::slice::from_raw_parts_mut(values, count);
            let side = &subject.object.side;
            subject.provider.read_counters(&side.counters, values)
        })
    })
}
