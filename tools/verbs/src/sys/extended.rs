//! Verbs of the extended context, which are inline functions of verbs.h, and extended completion
//! queues.

use std::ptr;

use bytemuck::Zeroable;
use kit::abi::*;

use super::{
    calls::{Cq, Device, Objects, Qp, Shared},
    object::{Object, made, status},
    post::{AT_ONCE, Extra, Extras, Room},
    raw,
};
use crate::{
    completion::CompletionChannel,
    context::Context,
    error::{Error, Result},
    rate::RateLimit,
};

/// A verb of the extended context, as the inline functions of verbs.h find it: a mark in the
/// context states that it lies inside an extended one, which has its size.
macro_rules! extended {
    ($device:expr, $name:literal, $verb:ident) => {{
        let at = $device.as_ptr();
        let behind = size_of::<kit::abi::verbs_context>()
            - std::mem::offset_of!(kit::abi::verbs_context, $verb);
        // SAFETY: the device is open. An extended context has this member if it is so large.
        let verb = unsafe {
            let around = at.byte_sub(std::mem::offset_of!(kit::abi::verbs_context, context));
            let around = around.cast::<kit::abi::verbs_context>();
            match (*at).abi_compat.addr() == usize::MAX && (*around).sz >= behind {
                true => (*around).$verb,
                false => None,
            }
        };
        verb.ok_or(Error::new($name, libc::EOPNOTSUPP))
    }};
}

pub(super) use extended;

/// ibv_query_device_ex(3).
pub(crate) fn query_device(device: &Device) -> Result<ibv_device_attr_ex> {
    const VERB: &str = "ibv_query_device_ex";
    let mut attr = ibv_device_attr_ex::zeroed();
    let verb = extended!(device, "ibv_query_device_ex", query_device_ex)?;
    let size = size_of_val(&attr);
    // SAFETY: the device is open; the size bounds the output.
    let code = unsafe { verb(device.as_ptr(), ptr::null(), &raw mut attr, size) };
    status(VERB, code)?;
    Ok(attr)
}

/// ibv_query_rt_values_ex(3): the device's clock.
pub(crate) fn clock(device: &Device) -> Result<u64> {
    const VERB: &str = "ibv_query_rt_values_ex";
    let verb = extended!(device, "ibv_query_rt_values_ex", query_rt_values)?;
    let mut values = ibv_values_ex {
        comp_mask: IBV_VALUES_MASK_RAW_CLOCK,
        raw_clock: libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
    };
    // SAFETY: the device is open; the values may be written.
    status(VERB, unsafe { verb(device.as_ptr(), &raw mut values) })?;
    if values.comp_mask & IBV_VALUES_MASK_RAW_CLOCK == 0 {
        return Err(Error::new(VERB, libc::EOPNOTSUPP));
    }
    // Cards put all their cycles into the second member.
    let seconds = values.raw_clock.tv_sec.cast_unsigned();
    let rest = values.raw_clock.tv_nsec.cast_unsigned();
    Ok(seconds.wrapping_mul(1_000_000_000).wrapping_add(rest))
}

/// ibv_modify_cq(3): moderation.
pub(crate) fn moderate(cq: &Cq, count: u16, period: u16) -> Result<()> {
    let verb = extended!(cq.0.object(), "ibv_modify_cq", modify_cq)?;
    let mut attr = ibv_modify_cq_attr {
        attr_mask: IBV_CQ_ATTR_MODERATE,
        moderate: ibv_moderate_cq {
            cq_count: count,
            cq_period: period,
        },
    };
    // SAFETY: the queue lives; the structure lives during the call.
    status("ibv_modify_cq", unsafe { verb(cq.as_ptr(), &raw mut attr) })
}

/// ibv_modify_qp_rate_limit(3).
pub(crate) fn limit_rate(qp: &Qp, limit: RateLimit) -> Result<()> {
    const VERB: &str = "ibv_modify_qp_rate_limit";
    let device = qp.pd.context().object();
    let verb = extended!(device, "ibv_modify_qp_rate_limit", modify_qp_rate_limit)?;
    let mut attr = ibv_qp_rate_limit_attr {
        rate_limit: limit.rate,
        max_burst_sz: limit.burst,
        typical_pkt_sz: limit.packet,
        comp_mask: 0,
    };
    // SAFETY: the queue pair lives; the structure lives during the call.
    status(VERB, unsafe { verb(qp.as_ptr(), &raw mut attr) })
}

/// A queue pair whose requests are posted in batches: ibv_create_qp_ex(3).
pub(crate) fn create_qp(mut parts: Objects, kind: ibv_qp_type, cap: ibv_qp_cap) -> Result<Qp> {
    const MESSAGES: u32 = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    const WRITES: u32 = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    const RELIABLE: u32 = IBV_QP_EX_WITH_RDMA_READ
        | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
        | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    const WINDOWS: u32 = IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
    const ALL: u32 = MESSAGES | WRITES | RELIABLE | WINDOWS | IBV_QP_EX_WITH_SEND_WITH_INV;
    const MEMORY: u32 = IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_FLUSH;
    // A device refuses a set that it has not in full; some have no windows, and few have flushes.
    let sets: &[u32] = match kind {
        IBV_QPT_UD => &[MESSAGES],
        IBV_QPT_RAW_PACKET => &[IBV_QP_EX_WITH_SEND],
        IBV_QPT_UC => &[MESSAGES | WRITES | WINDOWS, MESSAGES | WRITES],
        _ => &[ALL | MEMORY, ALL, MESSAGES | WRITES | RELIABLE],
    };
    const VERB: &str = "ibv_create_qp_ex";
    let device = parts.pd.context().object();
    let verb = extended!(device, "ibv_create_qp_ex", create_qp_ex)?;
    let srq = parts.srq.as_ref();
    let mut attr = ibv_qp_init_attr_ex {
        send_cq: parts.send_cq.object().as_ptr(),
        recv_cq: parts.recv_cq.object().as_ptr(),
        srq: srq.map_or(ptr::null_mut(), Shared::as_ptr),
        cap,
        comp_mask: IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        pd: parts.pd.object().as_ptr(),
        ..init_attr(kind)
    };
    let mut failed = Error::new(VERB, libc::EOPNOTSUPP);
    for set in sets {
        (attr.cap, attr.send_ops_flags) = (cap, u64::from(*set));
        // SAFETY: all objects live, and are kept.
        match made(VERB, unsafe { verb(device.as_ptr(), &raw mut attr) }) {
            Ok(at) => {
                parts.operations = *set;
                // SAFETY: the queue pair is new.
                return Ok(unsafe { Object::new(at, raw::ibv_destroy_qp, parts) });
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// ibv_query_gid_table(3).
pub(crate) fn query_gids(device: &Device) -> Result<Vec<ibv_gid_entry>> {
    const VERB: &str = "ibv_query_gid_table";
    let ports = super::calls::query_device(device)?.phys_port_cnt;
    let lengths = (1..=ports).map(|port| super::calls::query_port(device, port));
    let lengths = lengths.map(|attr| usize::try_from(attr?.gid_tbl_len).or(Ok(0)));
    let most = lengths.sum::<Result<usize>>()?;
    let empty = ibv_gid_entry {
        gid: ibv_gid { raw: [0; 16] },
        gid_index: 0,
        port_num: 0,
        gid_type: 0,
        ndev_ifindex: 0,
    };
    let mut entries = vec![empty; most];
    let (at, size) = (entries.as_mut_ptr(), size_of_val(&empty));
    // SAFETY: the device is open; there is room for as many entries of that size.
    let found = unsafe { raw::_ibv_query_gid_table(device.as_ptr(), at, most, 0, size) };
    let found = usize::try_from(found);
    let errno = |_| Error::new(VERB, libc::EIO);
    entries.truncate(found.map_err(errno)?);
    Ok(entries)
}

/// What an extended completion queue is to have.
pub(crate) struct Wanted<'a> {
    pub entries: u32,
    pub channel: Option<&'a CompletionChannel>,
    pub vector: u32,
    /// Of its events.
    pub number: usize,
    pub extras: Extras,
}

/// ibv_create_cq_ex(3).
pub(crate) fn create_cq(context: &Context, wanted: &Wanted<'_>) -> Result<Cq> {
    const VERB: &str = "ibv_create_cq_ex";
    let device = context.object();
    let verb = extended!(device, "ibv_create_cq_ex", create_cq_ex)?;
    let channel = wanted.channel;
    let mut readers = IBV_WC_STANDARD_FLAGS;
    let extras = wanted.extras;
    for (wanted, flag) in [
        (extras.device_time, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP),
        (
            extras.wall_time,
            IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
        ),
        (extras.tags, IBV_WC_EX_WITH_TM_INFO),
        (extras.flow_tags, IBV_WC_EX_WITH_FLOW_TAG),
    ] {
        if wanted {
            readers |= flag;
        }
    }
    let mut attr = ibv_cq_init_attr_ex {
        cqe: wanted.entries,
        cq_context: ptr::without_provenance_mut(wanted.number),
        channel: channel.map_or(ptr::null_mut(), |channel| channel.object().as_ptr()),
        comp_vector: wanted.vector,
        wc_flags: readers.into(),
        comp_mask: 0,
        flags: 0,
        parent_domain: ptr::null_mut(),
    };
    // SAFETY: the device is open, the channel lives; both are kept. The number is only returned. An
    // extended queue begins as any other, and is destroyed as any other.
    unsafe {
        let at = made(VERB, verb(device.as_ptr(), &raw mut attr))?;
        let kept = (context.clone(), channel.cloned());
        Ok(Object::new(at.cast(), raw::ibv_destroy_cq, kept))
    }
}

/// Takes completions off an extended queue: how many there are. Others wait meanwhile.
///
/// # Safety
/// `create_cq` made the queue, with these extras. One thread calls this at a time.
pub(crate) unsafe fn poll(cq: &Cq, extras: Extras, room: &mut Room) -> Result<usize> {
    const VERB: &str = "ibv_start_poll";
    let at = cq.as_ptr().cast::<ibv_cq_ex>();
    let none = Error::new(VERB, libc::EOPNOTSUPP);
    let mut attr = ibv_poll_cq_attr { comp_mask: 0 };
    let mut count = 0;
    // SAFETY: by the caller; the queue has the functions that it was made with. Between the first
    // and the last one it has a current completion.
    unsafe {
        let (start, next) = ((*at).start_poll.ok_or(none)?, (*at).next_poll.ok_or(none)?);
        let end = (*at).end_poll.ok_or(none)?;
        match start(at, &raw mut attr) {
            0 => {}
            libc::ENOENT => return Ok(0),
            code => return Err(Error::new(VERB, code.saturating_abs())),
        }
        loop {
            if let (Some(wc), Some(extra)) = (room.wcs.get_mut(count), room.extras.get_mut(count)) {
                *wc = read(at);
                *extra = read_extra(at, wc, extras);
                count += 1;
            }
            // Taken completions are not lost by an error behind it, which the next call has.
            if count == AT_ONCE || next(at) != 0 {
                break;
            }
        }
        end(at);
    }
    Ok(count)
}

/// What the queue reports of the current completion beside that.
///
/// # Safety
/// The queue has one; it was made with these extras.
unsafe fn read_extra(at: *mut ibv_cq_ex, wc: &ibv_wc, extras: Extras) -> Extra {
    let done = wc.status == IBV_WC_SUCCESS;
    let time = |is_there: bool, reader: Option<unsafe extern "C" fn(_) -> u64>| {
        // SAFETY: by the caller.
        let read = |reader: unsafe extern "C" fn(_) -> u64| unsafe { reader(at) };
        reader.filter(|_| is_there && done).map(read)
    };
    // SAFETY: by the caller.
    unsafe {
        let tagged = extras.tags && wc.opcode == IBV_WC_TM_RECV;
        let tag = (*at).read_tm_info.filter(|_| tagged).map(|reader| {
            let mut info = ibv_wc_tm_info { tag: 0, priv_: 0 };
            reader(at, &raw mut info);
            (info.tag, info.priv_)
        });
        let marked = extras.flow_tags && done && wc.opcode == IBV_WC_RECV;
        let flow_tag = (*at).read_flow_tag.filter(|_| marked);
        Extra {
            device_time: time(extras.device_time, (*at).read_completion_ts),
            wall_time: time(extras.wall_time, (*at).read_completion_wallclock_ns),
            tag,
            flow_tag: flow_tag.map(|reader| reader(at)),
        }
    }
}

/// The current completion.
///
/// # Safety
/// The queue has one.
unsafe fn read(at: *mut ibv_cq_ex) -> ibv_wc {
    let mut wc = ibv_wc::zeroed();
    // SAFETY: by the caller.
    unsafe {
        (wc.wr_id, wc.status) = ((*at).wr_id, (*at).status);
        if let Some(number) = (*at).read_qp_num {
            wc.qp_num = number(at);
        }
        if wc.status != IBV_WC_SUCCESS {
            wc.vendor_err = (*at).read_vendor_err.map_or(0, |error| error(at));
            // Those of tag matching say what happened to the tag.
            if !matches!(wc.status, IBV_WC_TM_ERR | IBV_WC_TM_RNDV_INCOMPLETE) {
                return wc;
            }
        }
        wc.opcode = (*at).read_opcode.map_or(0, |opcode| opcode(at));
        wc.wc_flags = (*at).read_wc_flags.map_or(0, |flags| flags(at));
        if wc.status != IBV_WC_SUCCESS {
            return wc;
        }
        wc.byte_len = (*at).read_byte_len.map_or(0, |length| length(at));
        wc.src_qp = (*at).read_src_qp.map_or(0, |source| source(at));
        // A LID has 16 bits.
        let lid = (*at).read_slid.map_or(0, |lid| lid(at));
        wc.slid = u16::try_from(lid).unwrap_or(0);
        wc.sl = (*at).read_sl.map_or(0, |level| level(at));
        wc.dlid_path_bits = (*at).read_dlid_path_bits.map_or(0, |bits| bits(at));
        let has_data = wc.wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV) != 0;
        // The bytes of an invalidated key are in the same place, in the host's order.
        if let (Some(data), true) = ((*at).read_imm_data, has_data) {
            wc.imm.imm_data = data(at);
        }
    }
    wc
}

/// The attributes of a queue pair of this type, without objects and sizes.
pub(crate) fn init_attr(kind: ibv_qp_type) -> ibv_qp_init_attr_ex {
    ibv_qp_init_attr_ex {
        qp_context: ptr::null_mut(),
        send_cq: ptr::null_mut(),
        recv_cq: ptr::null_mut(),
        srq: ptr::null_mut(),
        cap: ibv_qp_cap::zeroed(),
        qp_type: kind,
        sq_sig_all: 0,
        comp_mask: 0,
        pd: ptr::null_mut(),
        xrcd: ptr::null_mut(),
        create_flags: 0,
        max_tso_header: 0,
        rwq_ind_tbl: ptr::null_mut(),
        rx_hash_conf: ibv_rx_hash_conf {
            rx_hash_function: 0,
            rx_hash_key_len: 0,
            rx_hash_key: ptr::null_mut(),
            rx_hash_fields_mask: 0,
        },
        source_qpn: 0,
        send_ops_flags: 0,
    }
}
