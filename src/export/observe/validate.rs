//! Reads the arguments of calls, and has them checked.

use super::cover::Call;
use super::facts;
use crate::core::validate::*;
use kit::abi::{handle::*, *};
use kit::sys::{errno, mapping};
use std::ptr::with_exposed_provenance_mut;

/// Whether an object was destroyed, for [`watch`]. `context` is the value in its memory now.
pub fn is_destroyed(object: usize, context: usize) -> bool {
    let left = errno::get();
    let destroyed = with(|world| world.is_destroyed(object, world.is_reused(context)));
    errno::set(left);
    destroyed
}

/// Notes a new context.
pub fn opened(ctx: Ctx<'_>) {
    let context = ctx.as_ptr().addr();
    // Vendors' providers make keys by calls that are not observed.
    let seen = ctx.private().edges().is_some() || facts::provider(ctx) == "provider rxe";
    let kept = ctx.private().edges().is_some();
    with(|world| world.opened(context, seen, kept));
}

/// Looks at a call before it is made. The answer is for [`done`].
///
/// # Safety
/// The arguments are the caller's; its objects are live.
pub unsafe fn before(ctx: Ctx<'_>, call: &Call) -> u64 {
    // SAFETY: vouched for by the caller.
    unsafe {
        match *call {
            Call::post_send(qp, wr, _) => {
                let (most, _) = with(|world| world.most_pieces(qp.addr()));
                let requests = sends(wr, (*qp).qp_type == IBV_QPT_UD, most);
                with(|world| world.posting(qp.addr(), &requests));
            }
            Call::post_recv(qp, wr, _) => {
                let (_, most) = with(|world| world.most_pieces(qp.addr()));
                let requests = receives(wr, most);
                with(|world| world.posting_receives(qp.addr(), &requests));
            }
            Call::post_srq_recv(srq, wr, _) => {
                let most = with(|world| world.most_pieces_shared(srq.addr()));
                let requests = receives(wr, most);
                with(|world| world.posting_shared(srq.addr(), &requests));
            }
            Call::destroy_cq(cq) => {
                let (acked, completions) =
                    ((*cq).async_events_completed, (*cq).comp_events_completed);
                with(|world| world.before_destroy(cq.addr(), acked, completions));
            }
            Call::destroy_qp(qp) => {
                let acked = (*qp).events_completed;
                with(|world| world.before_destroy(qp.addr(), acked, 0));
            }
            Call::destroy_srq(srq) => {
                let acked = (*srq).events_completed;
                with(|world| world.before_destroy(srq.addr(), acked, 0));
            }
            Call::dereg_mr(mr) => before_dereg(mr.addr()),
            Call::free_context(context) => {
                let device = facts::device(ctx);
                with(|world| world.closed(context.addr(), &device));
            }
            _ => {}
        }
    }
    let Some(object) = victim(call) else {
        return 0;
    };
    with(|world| world.generation(object))
}

fn before_dereg(mr: usize) {
    let Some((addr, length)) = with(|world| world.memory_of(mr)) else {
        return;
    };
    if !mapping::is_mapped(addr, length) {
        with(|world| world.unmapped(mr));
    }
}

/// # Safety
/// `wr` is a chain of requests or NULL, with their pieces where those are at most `most`.
unsafe fn sends(mut wr: *const ibv_send_wr, datagrams: bool, most: u32) -> Vec<Send> {
    let mut requests = Vec::new();
    // SAFETY: vouched for by the caller.
    while let Some(one) = unsafe { wr.as_ref() } {
        let inline = one.send_flags & IBV_SEND_INLINE != 0;
        let has_data = !matches!(one.opcode, IBV_WR_LOCAL_INV | IBV_WR_BIND_MW);
        let count = if has_data { one.num_sge } else { 0 };
        // SAFETY: as above.
        let pieces = unsafe { pieces(one.sg_list, count, most) };
        // SAFETY: any bits are an address; it is the valid member of a datagram's union.
        let ah = unsafe { one.wr.ud.ah }.addr();
        requests.push(Send {
            id: one.wr_id,
            opcode: one.opcode,
            flags: one.send_flags,
            inline: if inline {
                pieces.iter().map(|piece| piece.length).sum()
            } else {
                0
            },
            pieces: if inline { Vec::new() } else { pieces },
            ah: if datagrams { ah } else { 0 },
        });
        wr = one.next;
    }
    requests
}

/// # Safety
/// As for [`sends`].
unsafe fn receives(mut wr: *const ibv_recv_wr, most: u32) -> Vec<Receive> {
    let mut requests = Vec::new();
    // SAFETY: vouched for by the caller.
    while let Some(one) = unsafe { wr.as_ref() } {
        // SAFETY: as above.
        let pieces = unsafe { pieces(one.sg_list, one.num_sge, most) };
        requests.push(Receive {
            id: one.wr_id,
            pieces,
        });
        wr = one.next;
    }
    requests
}

/// The pieces of a request; none if it is refused for their number.
///
/// # Safety
/// `list` has that many pieces, is NULL, or they are more than `most`.
pub unsafe fn pieces(list: *const ibv_sge, count: i32, most: u32) -> Vec<Piece> {
    let count = u32::try_from(count).unwrap_or(0);
    if list.is_null() || count > most {
        return Vec::new();
    }
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: vouched for by the caller.
    let list = unsafe { std::slice::from_raw_parts(list, count) };
    let piece = |sge: &ibv_sge| Piece {
        addr: sge.addr,
        // A length of 0 means 2^31 bytes in some devices and no bytes in others.
        length: sge.length.into(),
        lkey: sge.lkey,
    };
    list.iter().map(piece).collect()
}

/// Notes the address that a call has returned, before another call uses the object there.
pub fn answered(value: u64) {
    let object = usize::try_from(value).unwrap_or(0);
    with(|world| world.answered(object));
}

/// Records the result of a call.
///
/// # Safety
/// The call has just returned `value`; a destroyed object is not read.
pub unsafe fn done(ctx: Ctx<'_>, call: &Call, value: u64, before: u64) {
    let made = usize::try_from(value).unwrap_or(0);
    // SAFETY: vouched for by the caller; a provider's new object is valid.
    unsafe {
        match *call {
            Call::poll_cq(cq, _, wc) => polled(ctx, cq, wc, made),
            Call::modify_qp(qp, attr, mask) => {
                let given = |bit| mask.cast_unsigned() & bit != 0;
                let state = given(IBV_QP_STATE).then_some((*attr).qp_state);
                let peer = given(IBV_QP_DEST_QPN).then_some((*attr).dest_qp_num);
                with(|world| {
                    world.modified(qp.addr(), state, peer);
                    world.attributes(qp.addr(), &*attr, mask.cast_unsigned());
                });
            }
            Call::cq_event(cq) => with(|world| world.completion_event(cq.addr())),
            Call::rereg_mr(mr, flags, pd, addr, length, access) => {
                reregistered(
                    ctx,
                    mr,
                    flags.cast_unsigned(),
                    (pd, addr.addr(), length, access),
                );
            }
            Call::resize_cq(cq, _) => {
                let cqe = usize::try_from((*cq).cqe).unwrap_or(0);
                with(|world| world.resized_cq(cq.addr(), cqe));
            }
            _ => {
                new_object(ctx, call, made);
                if let Some(object) = victim(call) {
                    with(|world| world.destroyed(object, before));
                }
            }
        }
    }
}

/// # Safety
/// As for [`done`].
unsafe fn new_object(ctx: Ctx<'_>, call: &Call, made: usize) {
    let context = ctx.as_ptr().addr();
    // SAFETY: vouched for by the caller: `made` is the object that the call made.
    unsafe {
        match *call {
            Call::reg_mr(pd, addr, length, iova, access) => {
                let pinned = access.cast_unsigned() & IBV_ACCESS_ON_DEMAND == 0;
                let memory = pinned.then_some((addr.addr(), length));
                region(
                    context,
                    made,
                    pd.addr(),
                    (iova, length as u64, access.cast_unsigned()),
                    memory,
                );
            }
            Call::alloc_null_mr(pd) => region(context, made, pd.addr(), (0, u64::MAX, !0), None),
            Call::reg_dm_mr(pd, _, offset, length, access) => {
                let zero = access & IBV_ACCESS_ZERO_BASED != 0;
                let first = if zero { 0 } else { offset };
                region(
                    context,
                    made,
                    pd.addr(),
                    (first, length as u64, access),
                    None,
                );
            }
            Call::reg_dmabuf_mr(pd, _, length, iova, _, access) => {
                region(
                    context,
                    made,
                    pd.addr(),
                    (iova, length as u64, access.cast_unsigned()),
                    None,
                );
            }
            Call::import_mr(pd, _) => {
                // Another process knows its range.
                region(context, made, pd.addr(), (0, u64::MAX, !0), None);
            }
            Call::create_cq(..) => {
                let cq = with_exposed_provenance_mut::<ibv_cq>(made);
                completion_queue(cq, context, true);
            }
            Call::create_cq_ex(_, attr) => {
                let cq = with_exposed_provenance_mut::<ibv_cq>(made);
                let reports = (*attr).wc_flags & u64::from(IBV_WC_EX_WITH_QP_NUM) != 0;
                completion_queue(cq, context, reports);
            }
            Call::create_qp(pd, attr) => {
                let a = &*attr;
                let sizes = (a.cap, a.sq_sig_all != 0, a.qp_type);
                queue_pair(
                    context,
                    made,
                    pd.addr(),
                    sizes,
                    (a.send_cq, a.recv_cq, a.srq),
                );
            }
            Call::create_qp_ex(_, attr) => {
                let a = &*attr;
                let given = a.comp_mask & IBV_QP_INIT_ATTR_PD != 0;
                let pd = if given { a.pd.addr() } else { 0 };
                let sizes = (a.cap, a.sq_sig_all != 0, a.qp_type);
                queue_pair(context, made, pd, sizes, (a.send_cq, a.recv_cq, a.srq));
            }
            Call::create_srq(pd, attr) => {
                shared_queue(context, made, pd.addr(), (*attr).attr.max_sge);
            }
            Call::create_srq_ex(_, attr) => {
                shared_queue(context, made, (*attr).pd.addr(), (*attr).attr.max_sge);
            }
            Call::alloc_parent_domain(_, attr) => {
                let base = (*attr).pd.addr();
                with(|world| {
                    world.made(Kind::Other("pd"), made, context, "");
                    world.parent_domain(made, base);
                });
            }
            _ => {
                if let Some(kind) = other_kind(call) {
                    with(|world| world.made(Kind::Other(kind), made, context, ""));
                }
            }
        }
    }
}

fn other_kind(call: &Call) -> Option<&'static str> {
    Some(match call {
        Call::alloc_pd(..) | Call::import_pd(..) => "pd",
        Call::alloc_td(..) => "td",
        Call::alloc_mw(..) => "mw",
        Call::alloc_dm(..) | Call::import_dm(..) => "dm",
        Call::create_ah(..) => "ah",
        Call::create_flow(..) => "flow",
        Call::create_flow_action_esp(..) => "flow action",
        Call::create_counters(..) => "counters",
        Call::create_wq(..) => "wq",
        Call::create_rwq_ind_table(..) => "indirection table",
        Call::open_xrcd(..) => "xrcd",
        Call::open_qp(..) => "qp",
        _ => return None,
    })
}

/// The object that a call destroys, if it destroys one.
fn victim(call: &Call) -> Option<usize> {
    Some(match *call {
        Call::dealloc_pd(x) | Call::unimport_pd(x) => x.addr(),
        Call::dealloc_td(x) => x.addr(),
        Call::dealloc_mw(x) => x.addr(),
        Call::free_dm(x) | Call::unimport_dm(x) => x.addr(),
        Call::dereg_mr(x) => x.addr(),
        Call::unimport_mr(x) => x.addr(),
        Call::destroy_ah(x) => x.addr(),
        Call::destroy_cq(x) => x.addr(),
        Call::destroy_qp(x) => x.addr(),
        Call::destroy_srq(x) => x.addr(),
        Call::destroy_flow(x) => x.addr(),
        Call::destroy_flow_action(x) => x.addr(),
        Call::destroy_counters(x) => x.addr(),
        Call::destroy_wq(x) => x.addr(),
        Call::destroy_rwq_ind_table(x) => x.addr(),
        Call::close_xrcd(x) => x.addr(),
        _ => return None,
    })
}

/// Notes a region that a provider's own verb has made.
///
/// # Safety
/// `made` is a new region.
pub unsafe fn registered(
    ctx: Ctx<'_>,
    made: usize,
    pd: usize,
    range: (u64, u64, u32),
    memory: Option<(usize, usize)>,
) {
    answered(made as u64);
    // SAFETY: vouched for by the caller.
    unsafe { region(ctx.as_ptr().addr(), made, pd, range, memory) }
}

/// # Safety
/// `made` is a new region.
unsafe fn region(
    context: usize,
    made: usize,
    pd: usize,
    (iova, length, access): (u64, u64, u32),
    memory: Option<(usize, usize)>,
) {
    // SAFETY: vouched for by the caller.
    let lkey = unsafe { (*with_exposed_provenance_mut::<ibv_mr>(made)).lkey };
    let new = NewRegion {
        object: made,
        context,
        pd,
        lkey,
        iova,
        length,
        access,
        memory,
    };
    with(|world| world.registered(&new));
}

/// # Safety
/// The region is live.
unsafe fn reregistered(
    ctx: Ctx<'_>,
    mr: *mut verbs_mr,
    flags: u32,
    (pd, addr, length, access): (*mut ibv_pd, usize, usize, i32),
) {
    // SAFETY: vouched for by the caller. The library's part of it is still the old one.
    let (lkey, old) = unsafe { ((*mr).ibv_mr.lkey, (*mr).ibv_mr) };
    let changes = |flag| flags & flag != 0;
    let moved = changes(IBV_REREG_MR_CHANGE_TRANSLATION);
    let (addr, length) = if moved {
        (addr, length)
    } else {
        (old.addr.addr(), old.length)
    };
    // SAFETY: as above; the provider has put the new flags there.
    let now = unsafe { (*mr).access };
    let access = if changes(IBV_REREG_MR_CHANGE_ACCESS) {
        access
    } else {
        now
    };
    let new = NewRegion {
        object: mr.addr(),
        context: ctx.as_ptr().addr(),
        pd: if changes(IBV_REREG_MR_CHANGE_PD) {
            pd.addr()
        } else {
            old.pd.addr()
        },
        lkey,
        iova: addr as u64,
        length: length as u64,
        access: access.cast_unsigned(),
        memory: Some((addr, length)),
    };
    with(|world| world.reregistered(&new));
}

/// # Safety
/// The queue is new and valid.
unsafe fn completion_queue(cq: *mut ibv_cq, context: usize, reports: bool) {
    // SAFETY: vouched for by the caller.
    let cqe = usize::try_from(unsafe { (*cq).cqe }).unwrap_or(0);
    with(|world| world.made_cq(cq.addr(), context, cqe, reports));
}

/// # Safety
/// `made` is a new shared receive queue, created for requests of `max_sge` pieces.
unsafe fn shared_queue(context: usize, made: usize, pd: usize, max_sge: u32) {
    let raw = with_exposed_provenance_mut::<ibv_srq>(made);
    // SAFETY: vouched for by the caller.
    let srq = unsafe { Srq::from_raw(raw) };
    let reported = srq.ok().and_then(facts::shared_queue);
    let new = SharedQueue {
        object: made,
        context,
        pd,
        max_sge: reported.map_or(max_sge, |(_, reported)| reported.max(max_sge)),
    };
    with(|world| world.made_srq(&new));
}

/// # Safety
/// `made` is a new queue pair.
unsafe fn queue_pair(
    context: usize,
    made: usize,
    pd: usize,
    (cap, sig_all, kind): (ibv_qp_cap, bool, ibv_qp_type),
    (send_cq, recv_cq, srq): (*mut ibv_cq, *mut ibv_cq, *mut ibv_srq),
) {
    let raw = with_exposed_provenance_mut::<ibv_qp>(made);
    // SAFETY: vouched for by the caller.
    let (number, qp) = unsafe { ((*raw).qp_num, Qp::from_raw(raw)) };
    let reported = qp.ok().and_then(facts::queue_pair);
    let cap = reported.map_or(cap, |(_, reported)| larger(&cap, &reported));
    let new = NewQueuePair {
        object: made,
        number,
        context,
        pd,
        cap,
        sig_all,
        send_cq: send_cq.addr(),
        recv_cq: recv_cq.addr(),
        has_srq: !srq.is_null(),
        kind,
    };
    with(|world| world.made_qp(&new));
}

/// The larger of both sizes of a queue: soft-RoCE reports more in a query than at the creation,
/// where it rounds up.
fn larger(a: &ibv_qp_cap, b: &ibv_qp_cap) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: a.max_send_wr.max(b.max_send_wr),
        max_recv_wr: a.max_recv_wr.max(b.max_recv_wr),
        max_send_sge: a.max_send_sge.max(b.max_send_sge),
        max_recv_sge: a.max_recv_sge.max(b.max_recv_sge),
        max_inline_data: a.max_inline_data.max(b.max_inline_data),
    }
}

/// # Safety
/// `wc` has that many completions.
unsafe fn polled(ctx: Ctx<'_>, cq: *mut ibv_cq, wc: *const ibv_wc, count: usize) {
    if count == 0 {
        return;
    }
    // SAFETY: vouched for by the caller.
    let list = unsafe { std::slice::from_raw_parts(wc, count) };
    let context = ctx.as_ptr().addr();
    with(|world| {
        for wc in list {
            let one = Completion {
                id: wc.wr_id,
                number: wc.qp_num,
                status: wc.status,
                opcode: wc.opcode,
            };
            world.completed(cq.addr(), context, one);
        }
    });
}

/// Removes the requests that a failed call did not post.
///
/// # Safety
/// The call has just failed, and its arguments are the caller's.
pub unsafe fn failed(call: &Call) {
    // SAFETY: vouched for by the caller.
    unsafe {
        match *call {
            Call::post_send(qp, wr, bad) => {
                let count = behind(wr, *bad, |wr| (*wr).next);
                with(|world| world.not_posted(qp.addr(), count));
            }
            Call::post_recv(qp, wr, bad) => {
                let count = behind(wr, *bad, |wr| (*wr).next);
                with(|world| world.not_received(qp.addr(), count));
            }
            _ => {}
        }
    }
}

/// Number of requests of a chain from the bad one on; all if it is not in the chain.
fn behind<T>(first: *mut T, bad: *mut T, next: impl Fn(*mut T) -> *mut T) -> usize {
    let (mut all, mut before, mut at) = (0, None, first);
    while !at.is_null() {
        if at == bad {
            before = Some(all);
        }
        all += 1;
        at = next(at);
    }
    all - before.unwrap_or(0)
}

/// Notes an asynchronous event that the program was given.
///
/// # Safety
/// As read.
pub unsafe fn event(event: &ibv_async_event) {
    use crate::core::events::{Subject, subject};
    // SAFETY: the type determines the valid member of the union.
    let object = unsafe {
        match subject(event.event_type) {
            Subject::Qp => event.element.qp.addr(),
            Subject::Cq => event.element.cq.addr(),
            Subject::Srq => event.element.srq.addr(),
            Subject::Wq | Subject::Port => return,
        }
    };
    with(|world| world.event(object));
}
