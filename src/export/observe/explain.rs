//! Reads the arguments of a call that failed, and has it explained.

use super::cover::Call;
use super::{facts, name};
use crate::core::explain::{self as text, Reasons, address, completion, memory, object, post, qp};
use crate::core::{events, report};
use kit::abi::{handle::*, *};
use kit::errno::Errno;
use std::ffi::CStr;
use std::panic::Location;

/// Explains a verb that failed.
///
/// # Safety
/// The call has just been made with these arguments, which are still the caller's.
pub unsafe fn verb(ctx: Ctx<'_>, call: &Call, e: Errno) {
    // Not a failure: the queue is empty, or there is nothing to be read yet.
    if e == Errno::AGAIN {
        return;
    }
    // Every librdmacm asks this of each queue pair, and needs no answer.
    if matches!(call, Call::query_ece(..)) && e == Errno::OPNOTSUPP {
        return;
    }
    // SAFETY: vouched for by the caller.
    let (arguments, why) = unsafe { reasons(ctx, call, e) };
    write_report(ctx, &name(call.verb()), &arguments, e, why);
}

fn write_report(ctx: Ctx<'_>, call: &str, arguments: &str, e: Errno, mut why: Reasons) {
    if why.is_empty() || matches!(e, Errno::OPNOTSUPP | Errno::NOSYS) {
        why.add(text::general(e, call, &facts::provider(ctx)));
    }
    if e.raw() == libc::EACCES && facts::writes(ctx) {
        why.first(text::other_credentials());
    }
    report::explain(&text::failure(
        call,
        arguments,
        &facts::device(ctx),
        e,
        &why,
    ));
}

/// # Safety
/// As for [`verb`].
unsafe fn reasons(ctx: Ctx<'_>, call: &Call, e: Errno) -> (String, Reasons) {
    // SAFETY: vouched for by the caller, for each of the arguments.
    unsafe {
        match *call {
            Call::modify_qp(raw, attr, mask) => modify_qp(ctx, raw, attr, mask),
            Call::create_qp(pd, attr) => {
                let a = &*attr;
                let create = qp::Create {
                    kind: a.qp_type,
                    cap: a.cap,
                    cqs: (!a.send_cq.is_null(), !a.recv_cq.is_null()),
                    srq: !a.srq.is_null(),
                    pd: !pd.is_null(),
                };
                (create.arguments(), create.reasons(&facts::limits(ctx), e))
            }
            Call::create_qp_ex(_, attr) if !attr.is_null() => create_qp_ex(ctx, &*attr, e),
            Call::reg_mr(_, addr, length, _, access) => {
                region(ctx, addr.addr() as u64, length as u64, access, e)
            }
            Call::rereg_mr(_, _, _, addr, length, access) if !addr.is_null() => {
                region(ctx, addr.addr() as u64, length as u64, access, e)
            }
            Call::create_cq(_, cqe, _, vector) => {
                let why = object::cq(cqe.into(), vector.into(), &facts::limits(ctx), e);
                (format!("cqe {cqe}, comp_vector {vector}"), why)
            }
            Call::create_cq_ex(_, attr) if !attr.is_null() => {
                let (cqe, vector) = ((*attr).cqe, (*attr).comp_vector);
                let why = object::cq(cqe.into(), vector.into(), &facts::limits(ctx), e);
                (format!("cqe {cqe}, comp_vector {vector}"), why)
            }
            Call::resize_cq(_, cqe) => {
                let why = object::cq(cqe.into(), 0, &facts::limits(ctx), e);
                (format!("cqe {cqe}"), why)
            }
            Call::create_srq(_, attr) => shared(ctx, (*attr).attr, e),
            Call::create_srq_ex(_, attr) if !attr.is_null() => shared(ctx, (*attr).attr, e),
            Call::create_ah(_, attr) => create_ah(ctx, &*attr),
            Call::post_send(raw, wr, bad) => post_send(raw, wr, bad, e),
            Call::post_recv(raw, wr, bad) => post_recv(raw, wr, bad, e),
            Call::post_srq_recv(raw, wr, bad) => post_srq_recv(raw, wr, bad, e),
            _ => (String::new(), Reasons::default()),
        }
    }
}

/// # Safety
/// As for [`verb`].
unsafe fn modify_qp(
    ctx: Ctx<'_>,
    raw: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: i32,
) -> (String, Reasons) {
    // SAFETY: vouched for by the caller.
    let (attr, number, kind, known, qp) = unsafe {
        (
            *attr,
            (*raw).qp_num,
            (*raw).qp_type,
            (*raw).state,
            Qp::from_raw(raw),
        )
    };
    let mask = mask.cast_unsigned();
    let reported = qp.ok().and_then(facts::queue_pair);
    let vector = qp::vector(&attr.ah_attr);
    let has_path = mask & IBV_QP_AV != 0;
    let port = match (has_path, mask & IBV_QP_PORT != 0) {
        (true, _) => vector.port,
        (false, true) => attr.port_num,
        (false, false) => 1,
    };
    let modify = qp::Modify {
        number,
        kind,
        from: reported.map_or(known, |(state, _)| state),
        mask,
        attr,
        port: facts::port(ctx, port, has_path.then_some(&vector)),
        limits: facts::limits(ctx),
    };
    (modify.arguments(), modify.reasons())
}

fn create_qp_ex(ctx: Ctx<'_>, a: &ibv_qp_init_attr_ex, e: Errno) -> (String, Reasons) {
    let given = |bit| a.comp_mask & bit != 0;
    let create = qp::Create {
        kind: a.qp_type,
        cap: a.cap,
        // With a table of work queues there is nothing to be received otherwise.
        cqs: (
            !a.send_cq.is_null() || given(IBV_QP_INIT_ATTR_IND_TABLE),
            !a.recv_cq.is_null() || given(IBV_QP_INIT_ATTR_IND_TABLE),
        ),
        srq: !a.srq.is_null(),
        pd: given(IBV_QP_INIT_ATTR_PD) && !a.pd.is_null(),
    };
    (create.arguments(), create.reasons(&facts::limits(ctx), e))
}

/// Explains a call that came after the table's verbs.
pub fn later(ctx: Ctx<'_>, call: &str, arguments: &str, e: Errno, why: Reasons) {
    if e != Errno::AGAIN {
        write_report(ctx, call, arguments, e, why);
    }
}

/// Why memory was not registered.
pub fn memory(ctx: Ctx<'_>, wanted: &memory::Registration, e: Errno) -> Reasons {
    let (locked, maps) = (facts::locked(), facts::maps());
    memory::reasons(wanted, e, &locked, &maps, &facts::abilities(ctx))
}

fn region(ctx: Ctx<'_>, addr: u64, length: u64, access: i32, e: Errno) -> (String, Reasons) {
    let r = memory::Registration {
        addr,
        length,
        access: access.cast_unsigned(),
    };
    (memory::arguments(&r), memory(ctx, &r, e))
}

fn shared(ctx: Ctx<'_>, a: ibv_srq_attr, e: Errno) -> (String, Reasons) {
    let why = object::srq(a.max_wr, a.max_sge, a.srq_limit, &facts::limits(ctx), e);
    (format!("max_wr {}, max_sge {}", a.max_wr, a.max_sge), why)
}

fn create_ah(ctx: Ctx<'_>, attr: &ibv_ah_attr) -> (String, Reasons) {
    let vector = qp::vector(attr);
    let mut why = Reasons::default();
    let port = facts::port(ctx, vector.port, Some(&vector));
    address::reasons("attr", &vector, &port, &mut why);
    (address::arguments(&vector), why)
}

/// # Safety
/// The queue pair is live.
unsafe fn queue(raw: *mut ibv_qp) -> post::Queue {
    // SAFETY: vouched for by the caller.
    unsafe {
        let reported = Qp::from_raw(raw).ok().and_then(facts::queue_pair);
        post::Queue {
            qp: Some((*raw).qp_num),
            kind: (*raw).qp_type,
            state: reported.map_or((*raw).state, |(state, _)| state),
            cap: reported.map(|(_, cap)| cap),
            has_srq: !(*raw).srq.is_null(),
            srq: None,
        }
    }
}

/// Bytes of a request's pieces.
///
/// # Safety
/// `list` has that many pieces.
pub unsafe fn bytes(list: *const ibv_sge, count: i32) -> u64 {
    let count = usize::try_from(count).unwrap_or(0);
    if list.is_null() {
        return 0;
    }
    // SAFETY: vouched for by the caller.
    (0..count)
        .map(|at| u64::from(unsafe { (*list.add(at)).length }))
        .sum()
}

/// The number of pieces to read: none of a request with more than the queue takes, because its list
/// may be shorter.
fn at_most(count: i32, most: u32) -> i32 {
    let fits = u32::try_from(count).is_ok_and(|count| count <= most);
    if fits { count } else { 0 }
}

/// # Safety
/// As for [`verb`]: a chain of requests, of which `bad` names one.
unsafe fn post_send(
    raw: *mut ibv_qp,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
    e: Errno,
) -> (String, Reasons) {
    // SAFETY: vouched for by the caller.
    unsafe {
        let queue = queue(raw);
        let (mut at, mut place, wanted) = (first, 0, if bad.is_null() { first } else { *bad });
        while !at.is_null() && at != wanted {
            at = (*at).next;
            place += 1;
        }
        // Some providers do not report which one it was; then the first one is named.
        if at.is_null() {
            (at, place) = (first, 0);
        }
        let request = at.as_ref().map(|wr| {
            let most = queue.cap.map_or(0, |cap| cap.max_send_sge);
            post::Request {
                place,
                id: wr.wr_id,
                send: Some((wr.opcode, wr.send_flags)),
                sges: wr.num_sge,
                bytes: bytes(wr.sg_list, at_most(wr.num_sge, most)),
                no_ah: queue.kind == IBV_QPT_UD && wr.wr.ud.ah.is_null(),
            }
        });
        let why = post::reasons(&queue, request.as_ref(), e);
        (post::arguments(&queue, request.as_ref()), why)
    }
}

/// # Safety
/// As for [`post_send`].
unsafe fn receive(
    queue: &post::Queue,
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
    e: Errno,
) -> (String, Reasons) {
    // SAFETY: vouched for by the caller.
    unsafe {
        let (mut at, mut place, wanted) = (first, 0, if bad.is_null() { first } else { *bad });
        while !at.is_null() && at != wanted {
            at = (*at).next;
            place += 1;
        }
        if at.is_null() {
            (at, place) = (first, 0);
        }
        let most = queue
            .srq
            .map(|(_, sge)| sge)
            .or(queue.cap.map(|cap| cap.max_recv_sge));
        let request = at.as_ref().map(|wr| post::Request {
            place,
            id: wr.wr_id,
            send: None,
            sges: wr.num_sge,
            bytes: bytes(wr.sg_list, at_most(wr.num_sge, most.unwrap_or(0))),
            no_ah: false,
        });
        let why = post::reasons(queue, request.as_ref(), e);
        (post::arguments(queue, request.as_ref()), why)
    }
}

/// # Safety
/// As for [`post_send`].
unsafe fn post_recv(
    raw: *mut ibv_qp,
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
    e: Errno,
) -> (String, Reasons) {
    // SAFETY: vouched for by the caller.
    unsafe { receive(&queue(raw), first, bad, e) }
}

/// # Safety
/// As for [`post_send`].
unsafe fn post_srq_recv(
    raw: *mut ibv_srq,
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
    e: Errno,
) -> (String, Reasons) {
    // SAFETY: vouched for by the caller.
    unsafe {
        let queue = post::Queue {
            qp: None,
            kind: 0,
            state: IBV_QPS_RTS,
            cap: None,
            has_srq: false,
            srq: Srq::from_raw(raw).ok().and_then(facts::shared_queue),
        };
        receive(&queue, first, bad, e)
    }
}

/// Explains a batch of ibv_wr_post(3) that was refused.
///
/// # Safety
/// The queue pair is live.
pub unsafe fn batch(raw: *mut ibv_qp, e: Errno) {
    // SAFETY: vouched for by the caller.
    unsafe {
        let queue = queue(raw);
        let why = post::batch(&queue, e);
        if let Ok(ctx) = Ctx::from_raw((*raw).context) {
            write_report(
                ctx,
                "ibv_wr_complete",
                &post::arguments(&queue, None),
                e,
                why,
            );
        }
    }
}

/// Checks the result of a successful verb: new objects, completions, states.
///
/// # Safety
/// As for [`verb`]; `value` is the result of the call.
pub unsafe fn succeeded(ctx: Ctx<'_>, call: &Call, value: u64) {
    let context = ctx.as_ptr().addr();
    // SAFETY: vouched for by the caller; a provider's new object is valid.
    unsafe {
        match *call {
            Call::poll_cq(_, _, wc) => {
                for at in 0..usize::try_from(value).unwrap_or(0) {
                    let wc = &*wc.add(at);
                    if wc.status != IBV_WC_SUCCESS {
                        completion(ctx, wc.qp_num, wc.wr_id, wc.status);
                    }
                }
            }
            Call::modify_qp(qp, attr, mask) if mask.cast_unsigned() & IBV_QP_STATE != 0 => {
                match (*attr).qp_state {
                    IBV_QPS_ERR => completion::ended(context, (*qp).qp_num),
                    IBV_QPS_RESET => completion::forget(context, (*qp).qp_num),
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

/// Explains a completion with an error.
pub fn completion(ctx: Ctx<'_>, qp: u32, wr_id: u64, status: ibv_wc_status) {
    let device = facts::device(ctx);
    let context = ctx.as_ptr().addr();
    if let Some(text) = completion::status(context, &device, qp, wr_id, status) {
        report::explain(&text);
    }
}

/// Explains an asynchronous event that the application is being given.
///
/// # Safety
/// The event was just read, and its object is live.
pub unsafe fn event(ctx: Ctx<'_>, event: &ibv_async_event) {
    if !report::explains() {
        return;
    }
    // SAFETY: vouched for by the caller; the type determines the valid member of the union.
    let about = unsafe {
        match events::subject(event.event_type) {
            events::Subject::Qp => format!("QP {:#x}", (*event.element.qp).qp_num),
            events::Subject::Cq => "a CQ".to_owned(),
            events::Subject::Srq => "an SRQ".to_owned(),
            events::Subject::Wq => "a WQ".to_owned(),
            events::Subject::Port if event.event_type == IBV_EVENT_DEVICE_FATAL => {
                "the device".to_owned()
            }
            events::Subject::Port => format!("port {}", event.element.port_num),
        }
    };
    if let Some(text) = completion::event(&facts::device(ctx), event.event_type, &about) {
        report::explain(&text);
    }
}

/// Explains a call that the library itself refused.
#[cold]
pub fn failed(call: &str, ctx: Ctx<'_>, e: Errno, why: impl FnOnce() -> String) {
    if !report::explains() {
        return;
    }
    let mut reasons = Reasons::default();
    reasons.add(why());
    report::explain(&text::failure(call, "", &facts::device(ctx), e, &reasons));
}

/// Explains that a device could not be opened.
#[cold]
pub fn not_opened(device: DeviceRef<'_>, e: Errno) {
    report::init();
    if !report::explains() {
        return;
    }
    // SAFETY: the device is held; its name is a string.
    let node = unsafe { CStr::from_ptr((&raw const (*device.as_ptr()).dev_name).cast()) };
    let node = format!("/dev/infiniband/{}", node.to_string_lossy());
    let name = device.name().to_string_lossy();
    report::explain(&text::not_opened(&name, &node, e));
}

/// Explains that the library refused the arguments of a call before any provider saw them. The
/// place in the sources identifies the call.
#[cold]
pub fn refused(e: Errno, place: &Location<'_>) {
    if !report::explains() {
        return;
    }
    let kind = place.file().rsplit('/').next().unwrap_or_default();
    let kind = kind.strip_suffix(".rs").unwrap_or(kind);
    report::explain(&text::refusal(kind, e));
}
