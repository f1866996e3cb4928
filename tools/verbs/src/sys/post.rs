//! Posting requests, and polling completions.

use std::ptr;

use bytemuck::Zeroable;
use kit::abi::*;
use smallvec::SmallVec;

use super::{
    flight::{InFlight, Unposted, WorkQueue},
    object::{Object, status},
};
use crate::{
    address::AddressHandle,
    error::{Error, Result},
    memory::RemoteMemory,
    request::Atomic,
};

/// The numbers of a send request, beside its memory.
pub(crate) struct Details<'a> {
    pub opcode: ibv_wr_opcode,
    pub flags: ibv_send_flags,
    pub immediate: u32,
    pub remote: Option<RemoteMemory>,
    pub atomic: Option<Atomic>,
    /// Bytes that the device copies while it is posted.
    pub inline: Option<&'a [u8]>,
    /// Queue pair and key of a datagram's receiver.
    pub receiver: (u32, u32),
    /// The key that a request invalidates.
    pub invalidated: u32,
    /// The receive queue of XRC.
    pub srq: Option<u32>,
    /// Of a flush: `enum ibv_placement_type`, `enum ibv_selectivity_level`.
    pub flush: (u8, u8),
}

pub(crate) type Sges = SmallVec<[ibv_sge; 4]>;

/// The memory of a request, behind inline bytes.
pub(crate) fn sges(
    request: &InFlight,
    inline: Option<&[u8]>,
    function: &'static str,
) -> Result<Sges> {
    let none = || Error::new(function, libc::EINVAL);
    let mut sges = Sges::new();
    if let Some(bytes) = inline {
        sges.push(ibv_sge {
            addr: u64::try_from(bytes.as_ptr().expose_provenance()).unwrap_or(0),
            length: u32::try_from(bytes.len()).map_err(|_| none())?,
            lkey: 0,
        });
    }
    for segment in &request.segments {
        sges.push(segment.sge().ok_or_else(none)?);
    }
    Ok(sges)
}

/// How many there are; more than a C integer holds are more than any device takes.
fn count(sges: &Sges) -> i32 {
    i32::try_from(sges.len()).unwrap_or(i32::MAX)
}

/// Posts a send request.
pub(crate) fn send(
    qp: &super::calls::Qp,
    queue: &WorkQueue,
    request: InFlight,
    details: &Details<'_>,
) -> std::result::Result<(), Unposted> {
    const VERB: &str = "ibv_post_send";
    queue.post(VERB, request, |wr_id, request| {
        if let Some(binding) = request.binding() {
            let kind = binding.window.kind();
            if kind == IBV_MW_TYPE_1 {
                return binding.by_verb(qp, wr_id, details.flags);
            }
        }
        let mut sges = sges(request, details.inline, VERB)?;
        let mut wr = ibv_send_wr {
            wr_id,
            next: ptr::null_mut(),
            sg_list: sges.as_mut_ptr(),
            num_sge: count(&sges),
            opcode: details.opcode,
            send_flags: details.flags,
            imm: match details.opcode {
                IBV_WR_SEND_WITH_INV | IBV_WR_LOCAL_INV => ibv_send_wr_imm {
                    invalidate_rkey: details.invalidated,
                },
                _ => ibv_send_wr_imm {
                    imm_data: be32::new(details.immediate),
                },
            },
            wr: target(request.address.as_ref(), details),
            qp_type: ibv_send_wr_qp_type {
                xrc: ibv_send_wr_qp_type_xrc {
                    remote_srqn: details.srq.unwrap_or(0),
                },
            },
            op: ibv_send_wr_op {
                tso: ibv_send_wr_op_tso {
                    hdr: ptr::null_mut(),
                    hdr_sz: 0,
                    mss: 0,
                },
            },
        };
        match request.binding() {
            None => chain(qp, &mut wr),
            Some(binding) => {
                let posted = binding.by_request(|mw, rkey, info| {
                    wr.op.bind_mw = ibv_send_wr_op_bind_mw {
                        mw,
                        rkey,
                        bind_info: *info,
                    };
                    chain(qp, &mut wr)
                });
                posted.map(|_| ())
            }
        }
    })
}

/// Calls ibv_post_send(3). The request's number is one of an entry in the send queue, and all that
/// the request names belongs to that entry, beside inline bytes.
fn chain(qp: &super::calls::Qp, wr: &mut ibv_send_wr) -> Result<()> {
    const VERB: &str = "ibv_post_send";
    let mut bad = ptr::null_mut();
    let at = qp.as_ptr();
    // SAFETY: the queue pair and its context live, and an open context has this verb. The memory
    // that the request names is owned by its entry in the queue until it has completed or the queue
    // pair is destroyed; inline bytes and the structures are used during the call.
    unsafe {
        let verb = (*(*at).context).ops.post_send;
        let verb = verb.ok_or(Error::new(VERB, libc::EOPNOTSUPP))?;
        status(VERB, verb(at, wr, &raw mut bad))
    }
}

fn target(address: Option<&AddressHandle>, details: &Details<'_>) -> ibv_send_wr_wr {
    let remote = details.remote.unwrap_or_default();
    match (address, details.atomic) {
        (Some(address), _) => ibv_send_wr_wr {
            ud: ibv_send_wr_wr_ud {
                ah: address.object().as_ptr(),
                remote_qpn: details.receiver.0,
                remote_qkey: details.receiver.1,
            },
        },
        (None, Some(atomic)) => ibv_send_wr_wr {
            atomic: ibv_send_wr_wr_atomic {
                remote_addr: remote.address,
                compare_add: atomic.compare_add,
                swap: atomic.swap,
                rkey: remote.rkey,
            },
        },
        (None, None) => ibv_send_wr_wr {
            rdma: ibv_send_wr_wr_rdma {
                remote_addr: remote.address,
                rkey: remote.rkey,
            },
        },
    }
}

/// Posts a receive request by one of the verbs for it.
pub(super) fn receive(
    verb: &'static str,
    queue: &WorkQueue,
    request: InFlight,
    post: impl FnOnce(*mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> Option<i32>,
) -> std::result::Result<(), Unposted> {
    queue.post(verb, request, |wr_id, request| {
        let mut sges = sges(request, None, verb)?;
        let mut wr = ibv_recv_wr {
            wr_id,
            next: ptr::null_mut(),
            sg_list: sges.as_mut_ptr(),
            num_sge: count(&sges),
        };
        let mut bad = ptr::null_mut();
        let code = post(&raw mut wr, &raw mut bad);
        status(verb, code.unwrap_or(libc::EOPNOTSUPP))
    })
}

/// Posts a receive request to a queue pair.
pub(crate) fn receive_qp(
    qp: &super::calls::Qp,
    queue: &WorkQueue,
    request: InFlight,
) -> std::result::Result<(), Unposted> {
    let at = qp.as_ptr();
    receive("ibv_post_recv", queue, request, |wr, bad| {
        // SAFETY: as for `send`.
        unsafe { Some((*(*at).context).ops.post_recv?(at, wr, bad)) }
    })
}

/// Posts a receive request to a shared receive queue.
pub(crate) fn receive_srq<P>(
    srq: &Object<ibv_srq, P>,
    queue: &WorkQueue,
    request: InFlight,
) -> std::result::Result<(), Unposted> {
    let at = srq.as_ptr();
    receive("ibv_post_srq_recv", queue, request, |wr, bad| {
        // SAFETY: as for `send`.
        unsafe { Some((*(*at).context).ops.post_srq_recv?(at, wr, bad)) }
    })
}

/// Completions that one call takes at most.
pub(crate) const AT_ONCE: usize = 32;

/// Takes completions off a queue: how many there are.
pub(crate) fn poll(cq: &super::calls::Cq, room: &mut Room) -> Result<usize> {
    const VERB: &str = "ibv_poll_cq";
    let at = cq.as_ptr();
    // SAFETY: the queue and its context live, and an open context has this verb; there is room for
    // as many as are asked for.
    let found = unsafe {
        let verb = (*(*at).context).ops.poll_cq;
        let verb = verb.ok_or(Error::new(VERB, libc::EOPNOTSUPP))?;
        verb(at, 32, room.wcs.as_mut_ptr())
    };
    usize::try_from(found).map_err(|_| Error::new(VERB, libc::EIO))
}

/// What an extended completion queue reports beside what each queue does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extras {
    pub device_time: bool,
    pub wall_time: bool,
    pub tags: bool,
    pub flow_tags: bool,
}

/// The same of one completion.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extra {
    /// By the device's clock.
    pub device_time: Option<u64>,
    /// Nanoseconds since 1970.
    pub wall_time: Option<u64>,
    /// A message's tag and the sender's number.
    pub tag: Option<(u64, u32)>,
    pub flow_tag: Option<u32>,
}

/// Room for completions.
pub(crate) struct Room {
    pub wcs: [ibv_wc; AT_ONCE],
    pub extras: [Extra; AT_ONCE],
}

impl Room {
    pub(crate) fn new() -> Self {
        Self {
            wcs: [ibv_wc::zeroed(); AT_ONCE],
            extras: [Extra::default(); AT_ONCE],
        }
    }
}

/// The immediate data of a completion.
pub(crate) fn immediate(wc: &ibv_wc) -> Option<u32> {
    // SAFETY: both members are four plain bytes.
    let data = unsafe { wc.imm.imm_data };
    (wc.wc_flags & IBV_WC_WITH_IMM != 0).then(|| data.get())
}

/// The key that a received message has invalidated.
pub(crate) fn invalidated(wc: &ibv_wc) -> Option<u32> {
    // SAFETY: both members are four plain bytes.
    let rkey = unsafe { wc.imm.invalidated_rkey };
    (wc.wc_flags & IBV_WC_WITH_INV != 0).then_some(rkey)
}

/// Asks for an event at the next completion, or at the next that the sender marked as solicited.
pub(crate) fn request_event(cq: &super::calls::Cq, solicited: bool) -> Result<()> {
    const VERB: &str = "ibv_req_notify_cq";
    let at = cq.as_ptr();
    // SAFETY: the queue and its context live, and an open context has this verb.
    unsafe {
        let verb = (*(*at).context).ops.req_notify_cq;
        let verb = verb.ok_or(Error::new(VERB, libc::EOPNOTSUPP))?;
        status(VERB, verb(at, i32::from(solicited)))
    }
}
