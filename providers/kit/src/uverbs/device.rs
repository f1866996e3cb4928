#![forbid(unsafe_code)]
//! Attributes of a device and a port: ibv_query_device_ex(3), ibv_query_port(3).

use super::{Driver, Fallback, Ioctl, Kernel, Path, try_ioctl, write, write_into};
use crate::abi::kernel::ioctl::*;
use crate::abi::kernel::{
    ib_uverbs_ex_query_device, ib_uverbs_ex_query_device_resp, ib_uverbs_query_device,
    ib_uverbs_query_device_resp, ib_uverbs_query_port, ib_uverbs_query_port_resp,
    ib_uverbs_query_port_resp_ex,
};
use crate::abi::{ibv_device_attr, ibv_device_attr_ex, ibv_port_attr};
use crate::errno::{Errno, Result};
use crate::table::slot;
use bytemuck::Zeroable;
use core::ffi::c_int;
use core::mem::{offset_of, size_of};

/// Reads the capabilities of a port into `attr`. The write command does not report
/// `port_cap_flags2`, which then stays as it is.
///
/// # Errors
/// The kernel's own errno, EINVAL for a port that is not there.
pub fn query_port<K: Kernel + ?Sized>(
    kernel: &K,
    port: u8,
    attr: &mut ibv_port_attr,
    driver: &mut Driver<'_>,
) -> Result<()> {
    let mut answer = ib_uverbs_query_port_resp_ex::default();
    let mut call = Ioctl::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
    call.u64_in(UVERBS_ATTR_QUERY_PORT_PORT_NUM, port.into());
    call.value_out(UVERBS_ATTR_QUERY_PORT_RESP, &mut answer);
    if try_ioctl(kernel, slot::query_port, &mut call, Fallback::Write)? == Path::Ioctl {
        set_port(attr, &answer.legacy_resp);
        attr.port_cap_flags2 = answer.port_cap_flags2;
        attr.active_speed_ex = answer.active_speed_ex();
        return Ok(());
    }
    let command = ib_uverbs_query_port {
        port_num: port,
        ..Default::default()
    };
    set_port(attr, &write(kernel, &command, driver)?);
    Ok(())
}

fn set_port(attr: &mut ibv_port_attr, from: &ib_uverbs_query_port_resp) {
    attr.state = from.state.into();
    attr.max_mtu = from.max_mtu.into();
    attr.active_mtu = from.active_mtu.into();
    attr.gid_tbl_len = signed(from.gid_tbl_len);
    attr.port_cap_flags = from.port_cap_flags;
    attr.max_msg_sz = from.max_msg_sz;
    attr.bad_pkey_cntr = from.bad_pkey_cntr;
    attr.qkey_viol_cntr = from.qkey_viol_cntr;
    attr.pkey_tbl_len = from.pkey_tbl_len;
    attr.lid = from.lid;
    attr.sm_lid = from.sm_lid;
    attr.lmc = from.lmc;
    attr.max_vl_num = from.max_vl_num;
    attr.sm_sl = from.sm_sl;
    attr.subnet_timeout = from.subnet_timeout;
    attr.init_type_reply = from.init_type_reply;
    attr.active_width = from.active_width;
    attr.active_speed = from.active_speed;
    attr.phys_state = from.phys_state;
    attr.link_layer = from.link_layer;
    attr.flags = from.flags;
}

/// How fast the port is now, in units of 100 Mbit/s.
///
/// # Errors
/// EOPNOTSUPP where kernel or driver does not report it; EINVAL for a port that is not there.
pub fn query_port_speed<K: Kernel + ?Sized>(kernel: &K, port: u32) -> Result<u64> {
    let mut speed = 0u64;
    let mut method = Ioctl::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT_SPEED);
    method.u64_in(UVERBS_ATTR_QUERY_PORT_SPEED_PORT_NUM, port.into());
    method.value_out(UVERBS_ATTR_QUERY_PORT_SPEED_RESP, &mut speed);
    super::comp_cntr::call(kernel, &mut method)?;
    Ok(speed)
}

/// The same bits, as C keeps them.
fn signed(n: u32) -> c_int {
    n.cast_signed()
}

/// Reads the plain capabilities of a device into `attr`, and the answer of the plain command into
/// the front of `resp`. Returns how many bytes the kernel filled. An error leaves all as it was.
///
/// # Errors
/// The kernel's own errno.
pub fn query_plain<K: Kernel + ?Sized>(
    kernel: &K,
    attr: &mut ibv_device_attr,
    resp: &mut [u8],
) -> Result<usize> {
    let mut answer = Answer::zeroed();
    let filled = ask_plain(kernel, &mut answer)?;
    set_plain(attr, &answer.base);
    let reported = offset_of!(Answer, odp_caps).min(resp.len());
    if let (Some(to), Some(from)) = (
        resp.get_mut(..reported),
        bytemuck::bytes_of(&answer).get(..reported),
    ) {
        to.copy_from_slice(from);
    }
    Ok(filled)
}

/// Reads the capabilities of a device into the first `wanted` bytes of `attr`.
///
/// A member that does not lie wholly within `wanted` becomes zero, and so does one that the kernel
/// does not report. An error leaves `attr` unchanged. `ports` is the number of ports if the caller
/// knows it, otherwise 0. `resp` is the provider's response buffer: the kernel's structure and its
/// data, or empty. Returns how many of its bytes the kernel filled.
///
/// # Errors
/// EINVAL when `wanted` is less than `ibv_device_attr`, or `resp` too short; else the kernel's
/// own errno.
pub fn query_device<K: Kernel + ?Sized>(
    kernel: &K,
    wanted: usize,
    attr: &mut ibv_device_attr_ex,
    ports: u32,
    resp: &mut [u8],
) -> Result<usize> {
    if wanted < size_of::<ibv_device_attr>() {
        return Err(Errno::INVAL);
    }
    let mut own;
    let (answer, mut driver) = if let Some((front, data)) =
        resp.split_at_mut_checked(size_of::<Answer>())
        && let Ok(answer) = bytemuck::try_from_bytes_mut::<Answer>(front)
    {
        // Answered where the provider reads it.
        *answer = Zeroable::zeroed();
        (answer, Driver::response(data))
    } else {
        own = Answer::zeroed();
        let driver = Driver::buffers::<ib_uverbs_ex_query_device>(&mut [], resp)?;
        (&mut own, driver)
    };
    let (wanted, filled) = ask(kernel, wanted, answer, &mut driver)?;
    set_plain(&mut attr.orig_attr, &answer.base);
    *attr = ibv_device_attr_ex {
        orig_attr: attr.orig_attr,
        ..Zeroable::zeroed()
    };
    set_extended(attr, wanted, answer, filled);
    if wanted >= end(offset_of!(ibv_device_attr_ex, phys_port_cnt_ex), &0u32) {
        attr.phys_port_cnt_ex = match ports {
            0 => attr.orig_attr.phys_port_cnt.into(),
            n => n,
        };
    }
    Ok(filled)
}

type Answer = ib_uverbs_ex_query_device_resp;

/// Uses the extended command if more than the plain part is wanted and the kernel has it, else the
/// plain one, which reports only the plain part. `answer` is zero. Returns how many bytes are to be
/// reported, and how many of `answer` the kernel filled.
fn ask<K: Kernel + ?Sized>(
    kernel: &K,
    wanted: usize,
    answer: &mut Answer,
    driver: &mut Driver<'_>,
) -> Result<(usize, usize)> {
    if wanted > size_of::<ibv_device_attr>() {
        let command = ib_uverbs_ex_query_device::default();
        match write_into(kernel, &command, driver, answer) {
            Ok(()) => {
                let filled = usize::try_from(answer.response_length).map_err(|_| Errno::INVAL)?;
                return Ok((wanted, filled));
            }
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => *answer = Zeroable::zeroed(),
            Err(e) => return Err(e),
        }
    }
    let filled = ask_plain(kernel, answer)?;
    driver.resp.show(bytemuck::bytes_of(answer));
    Ok((size_of::<ibv_device_attr>(), filled))
}

/// Asks by the plain command, into `answer`, which is zero. Returns how many bytes of it the
/// kernel filled.
fn ask_plain<K: Kernel + ?Sized>(kernel: &K, answer: &mut Answer) -> Result<usize> {
    let command = ib_uverbs_query_device::default();
    write_into(kernel, &command, &mut Driver::none(), &mut answer.base)?;
    let filled = size_of::<ib_uverbs_query_device_resp>();
    answer.response_length = u32::try_from(filled).map_err(|_| Errno::INVAL)?;
    Ok(filled)
}

/// Where a member at `offset`, of the type of `member`, ends.
fn end<T>(offset: usize, member: &T) -> usize {
    offset + size_of_val(member)
}

// Apart, where it is plain that the two do not overlap: members are then moved several at a time.
#[inline(never)]
fn set_plain(attr: &mut ibv_device_attr, from: &ib_uverbs_query_device_resp) {
    attr.node_guid = from.node_guid;
    attr.sys_image_guid = from.sys_image_guid;
    attr.max_mr_size = from.max_mr_size;
    attr.page_size_cap = from.page_size_cap;
    attr.vendor_id = from.vendor_id;
    attr.vendor_part_id = from.vendor_part_id;
    attr.hw_ver = from.hw_ver;
    attr.max_qp = signed(from.max_qp);
    attr.max_qp_wr = signed(from.max_qp_wr);
    attr.device_cap_flags = from.device_cap_flags;
    attr.max_sge = signed(from.max_sge);
    attr.max_sge_rd = signed(from.max_sge_rd);
    attr.max_cq = signed(from.max_cq);
    attr.max_cqe = signed(from.max_cqe);
    attr.max_mr = signed(from.max_mr);
    attr.max_pd = signed(from.max_pd);
    attr.max_qp_rd_atom = signed(from.max_qp_rd_atom);
    attr.max_ee_rd_atom = signed(from.max_ee_rd_atom);
    attr.max_res_rd_atom = signed(from.max_res_rd_atom);
    attr.max_qp_init_rd_atom = signed(from.max_qp_init_rd_atom);
    attr.max_ee_init_rd_atom = signed(from.max_ee_init_rd_atom);
    attr.atomic_cap = from.atomic_cap;
    attr.max_ee = signed(from.max_ee);
    attr.max_rdd = signed(from.max_rdd);
    attr.max_mw = signed(from.max_mw);
    attr.max_raw_ipv6_qp = signed(from.max_raw_ipv6_qp);
    attr.max_raw_ethy_qp = signed(from.max_raw_ethy_qp);
    attr.max_mcast_grp = signed(from.max_mcast_grp);
    attr.max_mcast_qp_attach = signed(from.max_mcast_qp_attach);
    attr.max_total_mcast_qp_attach = signed(from.max_total_mcast_qp_attach);
    attr.max_ah = signed(from.max_ah);
    attr.max_fmr = signed(from.max_fmr);
    attr.max_map_per_fmr = signed(from.max_map_per_fmr);
    attr.max_srq = signed(from.max_srq);
    attr.max_srq_wr = signed(from.max_srq_wr);
    attr.max_srq_sge = signed(from.max_srq_sge);
    attr.max_pkeys = from.max_pkeys;
    attr.local_ca_ack_delay = from.local_ca_ack_delay;
    attr.phys_port_cnt = from.phys_port_cnt;
}

fn set_extended(attr: &mut ibv_device_attr_ex, wanted: usize, from: &Answer, filled: usize) {
    // Whether the member was asked for and the kernel reported it.
    macro_rules! reported {
        ($to:ident, $from:ident) => {
            wanted >= end(offset_of!(ibv_device_attr_ex, $to), &attr.$to)
                && filled >= end(offset_of!(Answer, $from), &from.$from)
        };
    }
    if reported!(odp_caps, odp_caps) {
        let caps = &from.odp_caps.per_transport_caps;
        attr.odp_caps.general_caps = from.odp_caps.general_caps;
        attr.odp_caps.per_transport_caps.rc_odp_caps = caps.rc_odp_caps;
        attr.odp_caps.per_transport_caps.uc_odp_caps = caps.uc_odp_caps;
        attr.odp_caps.per_transport_caps.ud_odp_caps = caps.ud_odp_caps;
    }
    if reported!(completion_timestamp_mask, timestamp_mask) {
        attr.completion_timestamp_mask = from.timestamp_mask;
    }
    if reported!(hca_core_clock, hca_core_clock) {
        attr.hca_core_clock = from.hca_core_clock;
    }
    if reported!(device_cap_flags_ex, device_cap_flags_ex) {
        attr.device_cap_flags_ex = from.device_cap_flags_ex;
    }
    if reported!(rss_caps, rss_caps) {
        let (to, from) = (&mut attr.rss_caps, &from.rss_caps);
        to.supported_qpts = from.supported_qpts;
        to.max_rwq_indirection_tables = from.max_rwq_indirection_tables;
        to.max_rwq_indirection_table_size = from.max_rwq_indirection_table_size;
    }
    if reported!(max_wq_type_rq, max_wq_type_rq) {
        attr.max_wq_type_rq = from.max_wq_type_rq;
    }
    if reported!(raw_packet_caps, raw_packet_caps) {
        attr.raw_packet_caps = from.raw_packet_caps;
    }
    if reported!(tm_caps, tm_caps) {
        let (to, from) = (&mut attr.tm_caps, &from.tm_caps);
        to.max_rndv_hdr_size = from.max_rndv_hdr_size;
        to.max_num_tags = from.max_num_tags;
        to.flags = from.flags;
        to.max_ops = from.max_ops;
        to.max_sge = from.max_sge;
    }
    if reported!(cq_mod_caps, cq_moderation_caps) {
        let caps = &from.cq_moderation_caps;
        attr.cq_mod_caps.max_cq_count = caps.max_cq_moderation_count;
        attr.cq_mod_caps.max_cq_period = caps.max_cq_moderation_period;
    }
    if reported!(max_dm_size, max_dm_size) {
        attr.max_dm_size = from.max_dm_size;
    }
    if reported!(xrc_odp_caps, xrc_odp_caps) {
        attr.xrc_odp_caps = from.xrc_odp_caps;
    }
}
