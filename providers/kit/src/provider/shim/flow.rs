//! Flow rules: ibv_create_flow(3).

use super::answer::{code, pointer};
use super::context::{Context, Subject};
use super::counters::Counting;
use super::object::{Hold, New, Object, Side};
use super::qp::{Pair, subject};
use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::provider::{FlowInit, FlowPart, Provider};
use crate::uverbs::flow::halves;
use core::ffi::c_int;
use core::mem::offset_of;
use std::sync::Arc;

/// An `ibv_flow` does not start with its context, as blocks do; so there is one more in front.
#[repr(C)]
pub(super) struct Prefixed {
    context: *mut ibv_context,
    flow: ibv_flow,
}

/// A flow rule.
pub(super) struct Rule<P: Provider> {
    flow: Arc<P::Flow>,
    _qp: Hold,
    _counters: Vec<Hold>,
}

// SAFETY: the structure starts with its context; numbers and pointers may be 0.
unsafe impl<P: Provider> Side for Rule<P> {
    type C = Prefixed;
}

/// The parsed specifications: the parts, and the counters that they hold.
struct FlowRule<'a, P: Provider> {
    parts: Vec<FlowPart<'a, P>>,
    counters: Vec<&'a Object<Counting<P>>>,
}

pub(super) unsafe extern "C" fn create_flow<P: Provider>(
    qp: *mut ibv_qp,
    attr: *mut ibv_flow_attr,
) -> *mut ibv_flow {
    // SAFETY: the caller passes a live queue pair, and attributes with their specifications, or
    // NULL.
    pointer(unsafe {
        subject::<P>(qp).and_then(|pair| {
            if attr.is_null() {
                return Err(Errno::INVAL);
            }
            create(&pair, attr)
        })
    })
}

/// # Safety
/// The attributes are followed by as many specifications as they state.
unsafe fn create<P: Provider>(
    pair: &Subject<'_, P, Pair<P>>,
    attr: *const ibv_flow_attr,
) -> Result<*mut ibv_flow> {
    // SAFETY: vouched for by the caller.
    let (head, parts) = unsafe {
        let head = attr.read_unaligned();
        if head.comp_mask != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        (head, parts(&pair.context, attr, head.num_of_specs)?)
    };
    let mut new = New::<Rule<P>>::alloc(&pair.context, None)?;
    let init = FlowInit {
        attr_type: head.type_,
        priority: head.priority,
        port: head.port,
        flags: head.flags,
        parts: parts.parts,
    };
    let flow = pair.provider.create_flow(&pair.object.side.qp, &init)?;
    new.c().flow.context = pair.context.public();
    let block = new.finish(Rule {
        flow: Arc::new(flow),
        _qp: pair.object.uses.hold(),
        _counters: parts.counters.iter().map(|c| c.uses.hold()).collect(),
    });
    Ok(block.wrapping_byte_add(offset_of!(Prefixed, flow)).cast())
}

/// # Safety
/// As for [`create`].
unsafe fn parts<'a, P: Provider>(
    context: &Context<P>,
    attr: *const ibv_flow_attr,
    count: u8,
) -> Result<FlowRule<'a, P>> {
    let mut all = FlowRule {
        parts: Vec::new(),
        counters: Vec::new(),
    };
    // SAFETY: vouched for by the caller.
    let mut at = unsafe { attr.add(1) }.cast::<u8>();
    for _ in 0..count {
        // SAFETY: as above; each specification has the length that it states.
        let (kind, bytes) = unsafe { spec(at) }?;
        let part = match kind {
            IBV_FLOW_SPEC_ACTION_COUNT => {
                // SAFETY: counters that the specification names are live, or NULL.
                let counters = unsafe { counters(context, bytes) }?;
                all.counters.push(counters);
                FlowPart::Count(&counters.side.counters)
            }
            IBV_FLOW_SPEC_ACTION_HANDLE => return Err(Errno::OPNOTSUPP),
            IBV_FLOW_SPEC_ACTION_DROP => FlowPart::Drop,
            IBV_FLOW_SPEC_ACTION_TAG => FlowPart::Tag(tag(bytes)?),
            _ => {
                let (value, mask) = halves(kind, bytes)?;
                FlowPart::Filter { kind, value, mask }
            }
        };
        all.parts.push(part);
        at = at.wrapping_add(bytes.len());
    }
    Ok(all)
}

/// The type of a specification, and all its bytes.
///
/// # Errors
/// EINVAL for one that is shorter than its header.
///
/// # Safety
/// There is a specification of the length that it states, during `'a`.
unsafe fn spec<'a>(at: *const u8) -> Result<(ibv_flow_spec_type, &'a [u8])> {
    // SAFETY: vouched for by the caller.
    unsafe {
        let head = at.cast::<ibv_flow_spec_u0_hdr>().read_unaligned();
        let length = usize::from(head.size);
        if length < size_of::<ibv_flow_spec_u0_hdr>() {
            return Err(Errno::INVAL);
        }
        Ok((head.type_, core::slice::from_raw_parts(at, length)))
    }
}

fn tag(bytes: &[u8]) -> Result<u32> {
    let at = offset_of!(ibv_flow_spec_action_tag, tag_id);
    let tag = bytes.get(at..).and_then(<[u8]>::first_chunk);
    Ok(u32::from_ne_bytes(*tag.ok_or(Errno::INVAL)?))
}

/// # Safety
/// Counters that the specification names are live, or NULL.
unsafe fn counters<'a, P: Provider>(
    context: &Context<P>,
    bytes: &[u8],
) -> Result<&'a Object<Counting<P>>> {
    if bytes.len() < size_of::<ibv_flow_spec_counter_action>() {
        return Err(Errno::INVAL);
    }
    // SAFETY: long enough; vouched for by the caller otherwise.
    unsafe {
        let spec = bytes.as_ptr().cast::<ibv_flow_spec_counter_action>();
        context.object(spec.read_unaligned().counters.cast())
    }
}

pub(super) unsafe extern "C" fn destroy_flow<P: Provider>(flow: *mut ibv_flow) -> c_int {
    if flow.is_null() {
        return code(Err(Errno::INVAL));
    }
    let block = flow.wrapping_byte_sub(offset_of!(Prefixed, flow));
    // SAFETY: the caller passes a live rule, in front of which stands the rest of its block.
    code(unsafe {
        Subject::<P, Rule<P>>::from_raw(block.cast()).and_then(|subject| {
            subject.provider.destroy_flow(&subject.object.side.flow)?;
            subject.free();
            Ok(())
        })
    })
}
